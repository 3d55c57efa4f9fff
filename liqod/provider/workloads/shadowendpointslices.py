"""Makes the EndpointSlices that a peer's ShadowEndpointSlices request.

Only where the peer's pods are reachable (``pod_network``), by their own addresses or, through a
tunnel, by translated ones; where they are not, none is made, and one that was is removed. While
that is not known, and while ranges change, it stays as it is. Endpoints that the consumer says are
a third cluster's may be reached without it (:mod:`.endpointcrossing`). A slice goes with its
ShadowEndpointSlice, which owns it. On the ShadowEndpointSlice itself nothing is ever
written: it is the consumer's.
"""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Final, NoReturn

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, NAMESPACES, NODES
from liqod.apimachinery.meta import OwnerReference, Partial
from liqod.cluster.memorylimits import KeptEndpoints, stub_over_limit, trim_endpoints
from liqod.cluster.ownnetworks import own_networks
from liqod.errors import AlreadyExists, Conflict, Forbidden, Invalid, LiqodError
from liqod.kube import recorder
from liqod.kube.cache.memoryquota import keep_excess
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.ensure import ensure
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, by_key
from liqod.model.crossing.preference import NO_ZONE, unfollowed
from liqod.model.crossing.thirdclusters import ThirdAddresses
from liqod.peers.peer import Peer
from liqod.peers.peeraddresses import PeerAddresses
from liqod.provider.namespaces.mappings import NamespaceMappings, note_end
from liqod.provider.policies.podrestrictions import remedy
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.provider.workloads.endpointcrossing import EndpointCrossing
from liqod.provider.workloads.endpointtranslation import translate
from liqod.provider.workloads.keymemories import KeyMemories
from liqod.resources import NETWORKS, SHADOW_ENDPOINT_SLICES, ShadowEndpointSlice
from liqod.resources.base import MAX_ENDPOINT_BYTES
from liqod.telemetry.events import EndpointsRefused

MADE_HERE: Final = f"{labels.MANAGED_BY}={labels.MANAGED_BY_SHADOW_ENDPOINT_SLICE}"
"""Selects, at the API server, the slices that were made from ShadowEndpointSlices."""
WORKERS: Final = 4
TOO_LARGE: Final = "TooLarge"
"""Reason of an Event about a ShadowEndpointSlice of which no more than its size is known."""
STAYS: Final = "what was made of it stays as it was"
LEFT_OUT: Final = "EndpointsLeftOut"
"""Reason of an Event about a ShadowEndpointSlice with endpoints that are left out as meant."""
KEPT: Final = "EndpointsKept"
"""Reason of an Event about a ShadowEndpointSlice whose endpoints are used though it is silent."""
_UNZONED: Final = "without a zone"
LAG: Final = 1.0
"""Seconds until the next check of an object that the store will show in a moment."""

logger = logging.getLogger(__name__)


class ShadowEndpointSlices(Controller[Key]):
    """The EndpointSlices of one peer; a key is a ShadowEndpointSlice's, and its EndpointSlice's.

    Args:
        peer: the consumer.

    Attributes:
        memories: of ShadowEndpointSlices, which go with the namespace.
    """

    def __init__(self, peer: Peer, timings: ProviderTimings = ORDINARY) -> None:
        self._peer = peer
        self._timings = timings
        self._client = peer.context.client
        self.memories = KeyMemories()
        self._failures: dict[Key, int] = self.memories.add({})
        self._reported: dict[Key, str] = self.memories.add({})
        self._addresses = PeerAddresses(peer)
        self._crossing = EndpointCrossing(peer, self._addresses)
        self._told: dict[Key, dict[str, str]] = self.memories.add({})
        """The clauses that the consumer has been told of a slice, by reason."""
        self._third: set[Key] = self.memories.add(set())
        """ShadowEndpointSlices with endpoints of a third cluster."""
        self._ended: set[Key] = self.memories.add(set())
        """ShadowEndpointSlices whose deletion a watch has reported."""
        namespaces = Watched(NAMESPACES, self._on_namespace)
        self._nodes = Watched(NODES, self._on_node, indexes={_UNZONED: _without_zone})
        self._unzoned = False
        self._networks: Watched[Key] = Watched(NETWORKS, self._on_network)
        self._shadows = Watched(
            *(SHADOW_ENDPOINT_SLICES, self._on_shadow),
            within=(),
            trim=trim_endpoints,
            counted=stub_over_limit,
        )
        self._made = Watched(
            ENDPOINT_SLICES, by_key, Selection(labels=MADE_HERE), within=(), counted=keep_excess
        )
        inside = (self._shadows, self._made)
        self._mapped = NamespaceMappings(peer.id, peer.tenant_namespace, *inside)
        super().__init__(
            peer,
            "shadowendpointslices",
            namespaces,
            self._nodes,
            self._networks,
            *inside,
            name="shadow endpoint slices",
            tasks=(
                *(self._follow_reach, self._follow_networks, self._follow_tunnel),
                self._follow_neighbours,
            ),
            concurrency=WORKERS,
        )

    async def prepare(self) -> None:
        """Read this cluster's networks before an address is judged."""
        self._own = self._addresses.own = own_networks(self._nodes.informer)

    # --- changes --------------------------------------------------------------------------------

    def _on_namespace(self, change: StoreChange) -> Iterator[Key]:
        closed = self._mapped.take_in(change)
        if closed:
            yield from self.memories.within(closed)

    def _on_shadow(self, change: StoreChange) -> tuple[Key]:
        note_end(self._ended, change)
        return (change.key,)

    def _on_node(self, change: StoreChange) -> Iterator[Key]:
        before = self._unzoned
        self._unzoned = bool(self._nodes.store.indexed(_UNZONED, _UNZONED))
        if before != self._unzoned and self._shadows.opened:
            yield from self._every_shadow()

    def _on_network(self, change: StoreChange) -> Iterator[Key]:
        if self._addresses.on_network(change):
            yield from self._every_shadow()

    async def _follow_networks(self) -> NoReturn:
        await self.whenever(self._own.changed, self._every_shadow)

    async def _follow_tunnel(self) -> NoReturn:
        await self.whenever(self._peer.network.wait_changed, self._every_shadow)

    async def _follow_reach(self) -> NoReturn:
        await self.whenever(self._peer.reach.wait_changed, self._every_shadow)

    async def _follow_neighbours(self) -> NoReturn:
        def changed() -> tuple[Key, ...]:
            self._crossing.follow()
            return tuple(self._third)

        await self.whenever(self._peer.neighbours.wait_changed, changed)

    def _every_shadow(self) -> Iterator[Key]:
        for namespace in self._mapped:
            yield from self._shadows.store.indexed("namespace", namespace)

    def failed(self, key: Key, error: Exception) -> None:
        """Log the slice that failed."""
        if isinstance(error, LiqodError):
            logger.warning("endpoint slice %s/%s: %s", *key, error)
        else:
            logger.error("endpoint slice %s/%s", *key, exc_info=error)

    # --- reconciling ----------------------------------------------------------------------------

    async def reconcile(self, key: Key) -> float | None:
        """Have the EndpointSlice of a ShadowEndpointSlice as it requests."""
        shadow = self._shadows.store.decode(key, KeptEndpoints)
        live = self._made.store.decode(key, Partial)
        if not self._may_write(key) or (shadow is not None and shadow.leaving):
            self.memories.forget(key)
            return None
        if live is not None and (shadow is None or not _owned(live, shadow)):
            doubted = shadow is None and key not in self._ended
            if doubted and not await self._shadows.surely_gone(key, ending=False):
                return self._pause(key)
            await self._remove(key, live)  # its own ShadowEndpointSlice is gone
            return None
        if shadow is None:
            self.memories.forget(key)
            return None
        if shadow.too_large:
            return await self._keep(key, shadow)
        third, unreachable = self._crossing.third(shadow), self._addresses.unreachable()
        (self._third.add if third.owners else self._third.discard)(key)
        stays = live is not None and self._addresses.waits
        if unreachable and (stays or not third.owners):
            if live is not None and not stays:
                await self._remove(key, live)
            self._report(key, unreachable)
            return None
        if live is not None and self._crossing.awaits(third):
            return LAG
        return await self._make(key, shadow, third)

    async def _keep(self, key: Key, shadow: KeptEndpoints) -> float | None:
        """Leave the objects of a slice that is not read (any more), and report that on both sides.

        Its consumer shows the Event at its own slice.
        """
        store = self._shadows.store
        fits = shadow.too_large <= MAX_ENDPOINT_BYTES
        if (
            fits
            and store.part is not None
            and store.part.fits(key, store.get(key), shadow.too_large)
        ):
            await self._shadows.informer.refresh(key)
            return None
        why = f"it has more than {MAX_ENDPOINT_BYTES >> 20} MiB: make several slices of it"
        if fits:
            why = f"its cluster has too much here already: {remedy('max_bytes')}"
        if self._report(key, f"{STAYS}: {why}"):
            said = (TOO_LARGE, f"{STAYS}: {why}")
            await recorder.record(self._client, SHADOW_ENDPOINT_SLICES, shadow.metadata, *said)
        return self._timings.room_again if fits else None

    def _may_write(self, key: Key) -> bool:
        return key[0] in self._mapped and key[0] not in self._mapped.leaving

    async def _make(
        self, key: Key, shadow: ShadowEndpointSlice, third: ThirdAddresses
    ) -> float | None:
        live = self._made.store.get(key)
        translated = translate(shadow, self._crossing.cross(third, live))
        try:
            await ensure(
                self._client,
                ENDPOINT_SLICES,
                translated.manifest,
                live=live,
                namespace=key[0],
                recreate=True,
                adopt=True,
            )
        except AlreadyExists:
            return await self._occupied(key, shadow)
        except (Forbidden, Invalid) as error:
            self._report(key, str(error))
            return self._pause(key)
        self._failures.pop(key, None)
        refused = (f"{address}: {why}" for address, why in sorted(translated.refused.items()))
        self._report(key, "; ".join(refused))
        far = unfollowed(translated.manifest["endpoints"], unzoned=self._unzoned)
        silent = ", ".join(sorted(translated.kept))
        kept = f"nothing gets through to {silent}; clients try it where no other endpoint is ready"
        left_out = "; ".join(sorted(translated.left_out))
        told = {LEFT_OUT: left_out, NO_ZONE: far, KEPT: kept if silent else ""}
        await self._tell(key, shadow, told)
        return None

    async def _occupied(self, key: Key, shadow: ShadowEndpointSlice) -> float:
        """Handle a slice of that name that the store does not show: not seen yet, or unmarked."""
        found = await self._client.find(ENDPOINT_SLICES, key[1], key[0], decode=Partial)
        if found is None:
            return LAG
        if not _owned(found, shadow):
            self._report(key, f"an EndpointSlice named {key[1]} exists and is not this one's")
        elif found.metadata.labels.get(labels.MANAGED_BY) is None:
            mark = {labels.MANAGED_BY: labels.MANAGED_BY_SHADOW_ENDPOINT_SLICE}
            patch = {"metadata": {"labels": mark}}
            await self._client.patch(ENDPOINT_SLICES, key[1], patch, key[0])
        return self._pause(key)

    async def _remove(self, key: Key, live: Partial) -> None:
        """Delete a slice that was made here, unless it is in doubt whether it is to go.

        The garbage collector would do so too, later: meanwhile it would send traffic nowhere.
        """
        made = any(owner.kind == SHADOW_ENDPOINT_SLICES.name for owner in _owners(live))
        if not made or self._shadows.doubtful or live.metadata.deletion_timestamp:
            return
        with contextlib.suppress(Conflict):  # the slice was replaced
            await self._client.delete(ENDPOINT_SLICES, key[1], key[0], uid=live.metadata.uid)

    def _pause(self, key: Key) -> float:
        count = self._failures[key] = self._failures.get(key, 0) + 1
        return self._timings.pauses.delay(count)

    async def _tell(self, key: Key, shadow: ShadowEndpointSlice, told: Mapping[str, str]) -> None:
        """Tell the consumer once of what is as the operators have it, and may not be as it thinks.

        Args:
            told: a clause by the reason of its Event, empty for none.
        """
        before = self._told.get(key, {})
        limit = recorder.MESSAGE_LIMIT
        self._told[key] = {reason: text[:limit] for reason, text in told.items() if text}
        for reason, text in self._told[key].items():
            if text != before.get(reason):
                said = (reason, f"at {self._peer.context.cluster_id}: {text}")
                kind, meta = SHADOW_ENDPOINT_SLICES, shadow.metadata
                await recorder.record(self._client, kind, meta, *said, type=recorder.NORMAL)

    def _report(self, key: Key, problem: str) -> bool:
        """Report refused addresses, once for each new reason; True if it is new."""
        if self._reported.get(key, "") == problem:
            return False
        if problem:
            self._reported[key] = problem
            logger.warning("endpoint slice %s/%s: %s", *key, problem)
        else:
            self._reported.pop(key, None)
        self._peer.report(EndpointsRefused(namespace=key[0], name=key[1], reason=problem))
        return True


def _without_zone(found: Partial) -> Iterator[str]:
    marks = found.metadata.labels
    if marks.get(labels.TYPE) != labels.VIRTUAL_NODE_TYPE and not marks.get(labels.ZONE):
        yield _UNZONED


def _owned(live: Partial, shadow: ShadowEndpointSlice) -> bool:
    return any(owner.uid == shadow.metadata.uid for owner in _owners(live))


def _owners(live: Partial) -> tuple[OwnerReference, ...]:
    return live.metadata.owner_references
