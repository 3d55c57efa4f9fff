"""The inbox: the requests of others to borrow from this cluster, and the answers.

Each request is an IncomingPeering, named by the cluster's id and key. An operator writes
``spec.decision``, this controller writes ``status.phase``, and whoever waits at the other end of a
channel waits for that phase. So it is the same whether a policy, an invitation, ``liqod inbox`` or
``kubectl edit`` decides, whether the one who asked is there at that moment, and whether this daemon
has been another in between. The grant is noted on the tenant namespace, where it bounds every slice
of the consumer's (:mod:`liqod.provider.slices.allocation`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.cluster.tenancy import drop_unused_tenant_namespace, find_tenant_namespace, tenant_of
from liqod.errors import ConfigError
from liqod.handshake.protocol.requestphase import (
    RequestEvent,
    RequestPhase,
    count_phases,
    next_phase,
)
from liqod.handshake.requests import incomingrecord, policies
from liqod.handshake.timings import ORDINARY, HandshakeTimings
from liqod.kube import times
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched
from liqod.procedures import agreements, answering, peeringusers
from liqod.procedures.revocations import revoked_keys
from liqod.resources import INCOMING_PEERINGS, IncomingPeering
from liqod.resources.peering import ACCEPT, APPROVED, DENY, PEERED

ENDED: Final = 24 * 3600
"""Seconds for which an entry is kept that came to nothing, and that an accepted consumer has."""
UNTOLD: Final = 60.0
"""Seconds for which an entry counts at most of which the cache does not tell: a watch that breaks
just then may never tell of one that is gone again."""
REMEMBERED: Final = 10_000
"""Ids of clusters that were let in, of 64 bytes and more each; then they begin anew."""

REVOKED: Final = "revoked key"
"""The index of Namespaces by the keys that were revoked of the consumers whose they are."""


class IncomingController(Controller[str]):
    """Carries out decisions about requests, and removes those that are over.

    Args:
        most: entries that are no peers yet.

    Attributes:
        context: the same, with the configuration as it was read last.
    """

    def __init__(
        self,
        context: ClusterContext,
        timings: HandshakeTimings = ORDINARY,
        most: int = incomingrecord.MOST,
    ) -> None:
        self.context, self._timings, self._most = context, timings, most
        self._client = context.client
        self._entry_events: dict[str, trio.Event] = {}
        self._tenant_events: dict[str, trio.Event] = {}
        self._written: dict[str, tuple[str, float]] = {}
        """Where entries come from that the cache does not tell of yet; until when they count."""
        # A daemon that led before may have let somebody in just now.
        self._admitted_at = trio.current_time()
        self._admitted_ids: set[str] = set()
        """For them no cache is believed, however late it may be."""
        self._entries = Watched(INCOMING_PEERINGS, self._on_entry, Selection(context.namespace))
        self._namespaces = Watched(NAMESPACES, self._on_namespace, indexes={REVOKED: _revoked_keys})
        super().__init__(context, "inbox", self._entries, self._namespaces)

    def reload(self, context: ClusterContext) -> None:
        """Go by another configuration from now on."""
        self.context = context

    async def known_key(self, cluster_id: str) -> str:
        """The key by which a consumer is known here; empty for one that is not, or was revoked."""
        return await answering.known_key(self._client, self.context.namespace, cluster_id)

    async def known_keys(self, cluster_id: str) -> frozenset[str]:
        """That key, and the one before while both are a consumer's."""
        return await answering.known_keys(self._client, self.context.namespace, cluster_id)

    async def key_here(self, cluster_id: str, *, cached: bool = False) -> str:
        """The key by which a cluster is known here, as consumer or lender; empty for none.

        Args:
            cluster_id: the cluster's.
            cached: be content with what was so a moment ago, where nobody was let in since.
        """
        client, namespace = self._client, self.context.namespace
        cached = cached and not self.was_admitted(cluster_id)
        return await answering.key_here(client, namespace, cluster_id, cached=cached)

    def was_admitted(self, cluster_id: str) -> bool:
        """True if this daemon has let in a cluster of that id, or anybody so short a time ago that
        a cache may not show it yet."""
        since = trio.current_time() - self._admitted_at
        return cluster_id in self._admitted_ids or since < self._timings.cached

    def is_barred(self, key: str) -> bool:
        """True if the operator has denied a cluster with that key for ever, under any id."""
        found = self._entries.store.values(IncomingPeering)
        return any(answering.is_barred(each) and answering.key_of(each) == key for each in found)

    def was_revoked(self, key: str) -> bool:
        """True if a consumer with that key was revoked, under any id."""
        return bool(self._namespaces.store.indexed(REVOKED, key))

    def record_admission(self, cluster_id: str) -> None:
        """Records that a cluster of that id is being let in, before it is written."""
        self._admitted_at = trio.current_time()
        if len(self._admitted_ids) >= REMEMBERED:
            self._admitted_ids.clear()
        self._admitted_ids.add(cluster_id)

    def changed(self, name: str) -> trio.Event:
        """Set when an entry changes the next time."""
        return self._entry_events.setdefault(name, trio.Event())

    def forget(self, name: str) -> None:
        """Drops an entry that is gone: tasks that wait for its change look once more."""
        if name in self._entry_events:
            self._entry_events.pop(name).set()

    def moved(self, cluster_id: str) -> trio.Event:
        """Set when a consumer's tenant namespace changes the next time."""
        return self._tenant_events.setdefault(cluster_id, trio.Event())

    def is_full(self, place: str) -> str:
        """Why there is no room for one more entry from a place; empty where there is."""
        return incomingrecord.is_full(self._known_sources(), place, self._most)

    def _known_sources(self) -> list[str]:
        """The place of each entry that is no peer, also of those that were written just now."""
        known = {
            each.name: each.spec.source
            for each in self._entries.store.values(IncomingPeering)
            if each.status.phase != "Done"
        }
        now = trio.current_time()
        self._written = {
            name: (place, until)
            for name, (place, until) in self._written.items()
            if until > now and (self.context.namespace, name) not in self._entries.store
        }
        return [*known.values(), *(place for place, _ in self._written.values())]

    @contextmanager
    def writing(self, name: str, place: str) -> Iterator[None]:
        """Write an entry: it counts from now on, until the cache shows it, or its end."""
        self._written[name] = place, trio.current_time() + UNTOLD
        try:
            yield
        except BaseException:
            self._written.pop(name, None)
            raise

    def phases(self) -> Counter[RequestPhase]:
        """How many entries are in each phase."""
        return count_phases(
            each.status.phase for each in self._entries.store.values(IncomingPeering)
        )

    def _on_entry(self, change: StoreChange) -> Iterator[str]:
        name = change.key[1]
        self._written.pop(name, None)
        self.forget(name)
        yield name

    def _on_namespace(self, change: StoreChange) -> Iterator[str]:
        """Handles a change of a tenant namespace: its consumer may be none any more."""
        bodies = (each for each in (change.old, change.new) if each is not None)
        peers = {tenant_of(msgspec.json.decode(each, type=Partial)) for each in bodies} - {None}
        for peer in peers & self._tenant_events.keys():
            assert peer is not None
            self._tenant_events.pop(peer).set()
        if change.new is None and peers:
            for entry in self._entries.store.values(IncomingPeering):
                if entry.spec.cluster_id in peers:
                    yield entry.name

    async def reconcile(self, name: str) -> float | None:
        """Take a decision up, and remove an entry that is over."""
        entry = self._entries.store.decode((self.context.namespace, name), IncomingPeering)
        if entry is None or entry.leaving or entry.spec.request != entry.status.request:
            return None
        match entry.status.phase:
            case "":
                return None
            case "Waiting":
                return await self._decide(entry)
            case "Done":
                return await self._follow(entry)
        left = incomingrecord.left(entry, times.now())
        if left > 0:
            return float(left)
        if entry.status.phase == "Accepted":
            why = "it has not done its part in time"
            await self.move(entry, "failed", why, steps={PEERED: ("False", why)})
            await self.close(entry)
        elif not entry.spec.always:
            await self.remove(entry)
        return None

    async def _decide(self, entry: IncomingPeering) -> float | None:
        """Move a waiting entry on, where it was decided or has expired."""
        spec = entry.spec
        if spec.decision == DENY:
            why = "its operator says no"
            await self.move(entry, "denied", why, steps={APPROVED: ("False", why)})
            return None
        if spec.decision == ACCEPT:
            problem = await self._key_problem(entry) or await self._accept(entry)
            if not problem:
                return None
            if entry.status.reason != problem:
                await self.move(entry, "asked", problem, steps={APPROVED: ("False", problem)})
        left = incomingrecord.left(entry, times.now())
        if left > 0:
            return float(left)
        why = "nobody has decided in time"
        await self.move(entry, "expired", why, steps={APPROVED: ("False", why)})
        return None

    async def _accept(self, entry: IncomingPeering) -> str:
        """Let it in; why that cannot be done, empty where it is done."""
        defaults = self.context.config.provider.default_resources
        try:
            granted = policies.accepted(
                entry.spec.resources, entry.status.granted, entry.spec.granted, defaults
            )
        except ConfigError as error:
            return f"the decision cannot be carried out: {error}"
        if answering.is_replaced(entry):
            await answering.put_in_place(self._client, self.context.namespace, entry)
        why = "accepted by its operator"
        steps = {APPROVED: ("True", why)}
        await self.move(entry, "accepted", why, steps=steps, granted=granted)
        return ""

    async def _key_problem(self, entry: IncomingPeering) -> str:
        """Why its claimed identity is refused; empty where the operator confirms it."""
        if answering.is_replaced(entry):
            return ""
        who, shown = entry.spec.cluster_id, answering.key_of(entry)
        return answering.key_problem(entry.name, who, await self.key_here(who), shown)

    async def _follow(self, entry: IncomingPeering) -> float | None:
        """Remove the record of a consumer that has left; a decision for ever stays."""
        if self._namespaces.doubtful:
            return DOUBT
        if await find_tenant_namespace(self._client, entry.spec.cluster_id) is None:
            if not entry.spec.always:
                await self.remove(entry)
                await agreements.end(self._client, self.context.namespace, entry.spec.cluster_id)
            return None
        return None

    async def move(
        self,
        entry: IncomingPeering,
        event: RequestEvent,
        reason: str = "",
        *,
        steps: Mapping[str, tuple[str, str]] = {},  # only read
        granted: Mapping[str, int | str] | None = None,
    ) -> None:
        """Write what has happened. Raises Conflict where another has written meanwhile."""
        phase = next_phase("provider", entry.status.phase, event)  # type: ignore[arg-type]
        status: dict[str, Any] = {"phase": phase, "reason": reason or entry.status.reason}
        if phase == "Accepted":
            self.record_admission(entry.spec.cluster_id)
        if granted is not None:
            status["granted"] = dict(granted)
        if phase != entry.status.phase:
            status["expires"] = None if phase == "Done" else incomingrecord.at_in(ENDED)
        patch = incomingrecord.status_patch(entry, status, steps)
        name, namespace = entry.name, self.context.namespace
        await self._client.patch(INCOMING_PEERINGS, name, patch, namespace, subresource="status")

    async def used(self, entry: IncomingPeering) -> None:
        """Clear ``replace``: it allowed another key for this peering, and for no later one."""
        if entry.spec.replace:
            patch = {"metadata": {"uid": entry.metadata.uid}, "spec": {"replace": None}}
            await self._client.patch(INCOMING_PEERINGS, entry.name, patch, self.context.namespace)

    async def find(self, name: str) -> IncomingPeering | None:
        """An entry as the API server has it."""
        namespace = self.context.namespace
        return await self._client.find(INCOMING_PEERINGS, name, namespace, decode=IncomingPeering)

    async def remove(self, entry: IncomingPeering) -> None:
        """Take an entry out."""
        uid = entry.metadata.uid
        await self._client.delete(INCOMING_PEERINGS, entry.name, self.context.namespace, uid=uid)

    async def close(self, entry: IncomingPeering) -> None:
        """Clean up after a request that failed: revoke its access, delete an unused namespace.

        Another key's way in, and the word that this key replaces another, stay.
        """
        peer, key = entry.spec.cluster_id, answering.key_of(entry)
        await peeringusers.revoke(self._client, peer, key)
        if not entry.spec.replace and await self.known_key(peer) in ("", key):
            await drop_unused_tenant_namespace(self._client, peer)


def _revoked_keys(namespace: Partial) -> frozenset[str]:
    """The values of the index of Namespaces by revoked keys."""
    if namespace.metadata.labels.get(labels.TENANT_NAMESPACE) != labels.TRUE:
        return frozenset()
    return revoked_keys(namespace.metadata.annotations)
