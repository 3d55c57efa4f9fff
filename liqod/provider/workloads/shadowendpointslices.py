"""Makes the EndpointSlices that a peer's ShadowEndpointSlices ask for.

Only where the peer's pod addresses are reachable (``pod_network``); where they are not, none is
made, and one that was is removed. A slice goes with its ShadowEndpointSlice, which owns it. On the
ShadowEndpointSlice itself nothing is ever written: it is the consumer's.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import Final, NoReturn

import msgspec
import trio

from liqod.bounds import is_small
from liqod.errors import AlreadyExists, Conflict, Forbidden, Invalid, LiqodError
from liqod.kube.backoff import Backoff
from liqod.kube.cache.holdings import everything, nothing
from liqod.kube.cache.informer import Informer
from liqod.kube.cache.store import Change, Key
from liqod.kube.ensure import ensure
from liqod.kube.kinds import ENDPOINT_SLICES, NAMESPACES, NODES
from liqod.kube.meta import OwnerReference, Partial
from liqod.kube.queue import KeyedQueue
from liqod.model import labels
from liqod.model.crossing.addresses import refuse
from liqod.ownnetworks import OwnNetworks, own_networks
from liqod.peer import Peer
from liqod.provider.namespaces.mappings import NamespaceMappings, note_end
from liqod.provider.workloads.endpoints import translate
from liqod.resources import SHADOW_ENDPOINT_SLICES, ShadowEndpointSlice

MADE_HERE: Final = f"{labels.MANAGED_BY}={labels.MANAGED_BY_SHADOW_ENDPOINT_SLICE}"
"""Selects, at the API server, the slices that were made from ShadowEndpointSlices."""
WORKERS: Final = 4
LAG: Final = 1.0
"""Seconds until a look at something that the store will show in a moment."""
PAUSES: Final = Backoff(first=2.0, last=60.0)
"""Between tries of a slice that the API server refuses, or whose name is taken."""

logger = logging.getLogger(__name__)


class ShadowEndpointSlices:
    """The EndpointSlices of one peer."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Work until cancelled; started once everything has been read."""
        informers = self._peer.home.informers
        async with (
            informers.share(NAMESPACES) as namespaces,
            informers.share(NODES) as nodes,
            informers.share(SHADOW_ENDPOINT_SLICES, keep=is_small, counted=nothing) as shadows,
            informers.share(ENDPOINT_SLICES, labels=MADE_HERE, counted=everything) as made,
        ):
            await _Room(self._peer, shadows, made, own_networks(nodes)).run(namespaces, task_status)
        raise AssertionError("the queue ends by cancellation only")


class _Room:
    """The work, with its stores at hand."""

    def __init__(self, peer: Peer, shadows: Informer, made: Informer, own: OwnNetworks) -> None:
        self._peer = peer
        self._client = peer.home.client
        self._shadows = shadows
        self._made = made
        self._queue: KeyedQueue[Key] = KeyedQueue(name="shadow endpoint slices")
        self._mapped = NamespaceMappings(
            peer.id, peer.tenant_namespace, opened=self._opened, closed=self._closed
        )
        self._failures: dict[Key, int] = {}
        self._told: dict[Key, str] = {}
        self._ended: set[Key] = set()
        """ShadowEndpointSlices of whose end a watch has told."""
        self._own = own

    async def run(self, namespaces: Informer, task_status: trio.TaskStatus[None]) -> NoReturn:
        ends = [
            self._own.follow(self._look_again),
            namespaces.subscribe(self._mapped.handle),
        ]
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._follow_link)
                await self._queue.run(
                    self._reconcile,
                    concurrency=WORKERS,
                    on_error=self._failed,
                    task_status=task_status,
                )
        finally:
            self._mapped.end()
            for end in ends:
                end()

    # --- what happens ---------------------------------------------------------------------------

    def _opened(self, namespace: str) -> list[Callable[[], None]]:
        return [
            self._shadows.subscribe(self._shadow_changed, namespace=namespace),
            self._made.subscribe(self._changed, namespace=namespace),
        ]

    def _closed(self, namespace: str) -> None:
        for key in (*self._failures, *self._told, *self._ended):
            if key[0] == namespace:
                self._queue.add(key)

    def _shadow_changed(self, change: Change) -> None:
        note_end(self._ended, change)
        self._queue.add(change.key)

    def _changed(self, change: Change) -> None:
        self._queue.add(change.key)

    async def _follow_link(self) -> NoReturn:
        """Endpoints of a peer that does not answer are not ready, as far as that is known here."""
        up = self._peer.link.up
        while True:
            await self._peer.link.wait_changed()
            if self._peer.link.up == up:
                continue
            up = self._peer.link.up
            self._look_again()

    def _look_again(self) -> None:
        for namespace in self._mapped:
            for key in self._shadows.store.indexed("namespace", namespace):
                self._queue.add(key)

    def _failed(self, key: Key, error: Exception) -> None:
        if isinstance(error, LiqodError):
            logger.warning("endpoint slice %s/%s: %s", *key, error)
        else:
            logger.error("endpoint slice %s/%s", *key, exc_info=error)

    # --- what follows ---------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> float | None:
        shadow = self._shadows.store.decode(key, ShadowEndpointSlice)
        live = self._made.store.decode(key, Partial)
        if not self._may_write(key) or (shadow is not None and shadow.leaving):
            self._forget(key)
            return None
        if live is not None and (shadow is None or not _owned(live, shadow)):
            if shadow is None and key not in self._ended and await self._stands(key):
                return self._pause(key)
            await self._remove(key, live)  # its own ShadowEndpointSlice is gone
            return None
        if shadow is None:
            self._forget(key)
            return None
        if self._peer.settings.pod_network == "none":
            if live is not None:
                await self._remove(key, live)
            self._tell(key, "pod_network is none: this peer's addresses are not reachable")
            return None
        return await self._make(key, shadow)

    def _refuse(self, address: str) -> str | None:
        """Why an address of the peer's cannot be an endpoint here."""
        known = self._peer.home.addressing
        networks = (*known.pod_cidrs, *known.service_cidrs, *self._own.pod_cidrs)
        allowed = self._peer.settings.pod_cidrs
        return refuse(address, networks, self._own.addresses, allowed)

    def _may_write(self, key: Key) -> bool:
        return key[0] in self._mapped and key[0] not in self._mapped.leaving

    async def _make(self, key: Key, shadow: ShadowEndpointSlice) -> float | None:
        up = self._peer.link.up
        translated = translate(shadow, self._peer.id, up=up, check=self._refuse)
        try:
            await ensure(
                self._client,
                ENDPOINT_SLICES,
                translated.manifest,
                live=self._made.store.get(key),
                namespace=key[0],
                recreate=True,
                adopt=True,
            )
        except AlreadyExists:
            return await self._occupied(key, shadow)
        except (Forbidden, Invalid) as error:
            self._tell(key, str(error))
            return self._pause(key)
        self._failures.pop(key, None)
        refused = (f"{address}: {why}" for address, why in sorted(translated.refused.items()))
        self._tell(key, "; ".join(refused))
        return None

    async def _occupied(self, key: Key, shadow: ShadowEndpointSlice) -> float:
        """There is a slice of that name that the store does not show: not seen yet, or unmarked."""
        found = await self._client.find(ENDPOINT_SLICES, key[1], key[0], decode=Partial)
        if found is None:
            return LAG
        if not _owned(found, shadow):
            self._tell(key, f"an EndpointSlice named {key[1]} exists and is not this one's")
        elif found.metadata.labels.get(labels.MANAGED_BY) is None:
            mark = {labels.MANAGED_BY: labels.MANAGED_BY_SHADOW_ENDPOINT_SLICE}
            patch = {"metadata": {"labels": mark}}
            await self._client.patch(ENDPOINT_SLICES, key[1], patch, key[0])
        return self._pause(key)

    async def _stands(self, key: Key) -> bool:
        """Whether the ShadowEndpointSlice is there after all, and is to be used: a list may lie."""
        found = await self._client.find(SHADOW_ENDPOINT_SLICES, key[1], key[0])
        return found is not None and is_small(msgspec.json.encode(found))

    async def _remove(self, key: Key, live: Partial) -> None:
        """Delete a slice that was made here, unless it is in doubt whether it is to go.

        The garbage collector would do so too, later: meanwhile it would send traffic nowhere.
        """
        made = any(owner.kind == SHADOW_ENDPOINT_SLICES.name for owner in _owners(live))
        if not made or self._shadows.suspect is not None or live.metadata.deletion_timestamp:
            return
        with contextlib.suppress(Conflict):  # another slice by now
            await self._client.delete(ENDPOINT_SLICES, key[1], key[0], uid=live.metadata.uid)

    def _pause(self, key: Key) -> float:
        count = self._failures[key] = self._failures.get(key, 0) + 1
        return PAUSES.delay(count)

    def _tell(self, key: Key, problem: str) -> None:
        """Report what is not relayed, once for each new reason."""
        if self._told.get(key, "") == problem:
            return
        if problem:
            self._told[key] = problem
            logger.warning("endpoint slice %s/%s: %s", *key, problem)
        else:
            self._told.pop(key, None)
        self._peer.report("endpoints.refused", namespace=key[0], name=key[1], reason=problem)

    def _forget(self, key: Key) -> None:
        self._ended.discard(key)
        self._failures.pop(key, None)
        self._told.pop(key, None)


def _owned(live: Partial, shadow: ShadowEndpointSlice) -> bool:
    return any(owner.uid == shadow.metadata.uid for owner in _owners(live))


def _owners(live: Partial) -> tuple[OwnerReference, ...]:
    return live.metadata.owner_references
