"""Tells one peer this cluster's exports, by a ServiceExchange for each namespace that is shared.

The consumer makes it and the replication carries it; the provider answers in its status. A word
that is out stays until it is sure that what it speaks of has ended (rule 3).
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.ownnetworks import own_networks
from liqod.cluster.tenancy import is_from
from liqod.clusterset.exporttexts import ExportTexts
from liqod.clusterset.ownexports import OwnExports
from liqod.clusterset.sharing import Kinds, Sharing
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.ensure import ensure
from liqod.kube.http.cpubudget import LONGEST_IN_DEBT, CpuBudget, Metered
from liqod.kube.watched import DOUBT, Watched
from liqod.model import ids
from liqod.model.clusterset.admission import Scope
from liqod.model.clusterset.exchange import (
    NO_ROOM,
    Told,
    confirmed,
    exchange_name,
    exchange_namespace,
    is_shared,
)
from liqod.model.network.remapping import Remapped
from liqod.model.objects.patches import exact_patch
from liqod.peers.peer import Peer
from liqod.peers.peeraddresses import PeerAddresses
from liqod.resources import IDENTITIES, NAMESPACE_MAPS, NETWORKS, NamespaceMap
from liqod.resources.exchanges import MOST_NAMESPACES, SERVICE_EXCHANGES, ServiceExchange

TAKEN: Final = "taken"
WAITS: Final = "waits"
FAILED: Final = "failed"
OWN_SHARE: Final = 0.1
"""Part of the time that telling one peer of this cluster's own changes may take in the long run."""


async def share(peer: Peer, sharing: Sharing) -> NoReturn:
    """Share Services with one peer until cancelled, once the kinds are there."""
    exchanges = Exchanges(peer, sharing, await sharing.kinds())
    with sharing.sharing(peer.id, exchanges):
        await exchanges.run()
    raise AssertionError("controllers end by cancellation only")


class Exchanges(Controller[str]):
    """The ServiceExchanges with one peer; a key is the name of a namespace.

    Args:
        peer: the peer.
        sharing: notified of what the peer may say.
        kinds: the kinds that this cluster serves.

    Attributes:
        peer: the same.
    """

    def __init__(self, peer: Peer, sharing: Sharing, kinds: Kinds) -> None:
        self.peer = peer
        self._sharing = sharing
        self._client = peer.context.client
        self._addresses = PeerAddresses(peer)
        self._own = OwnExports[str](peer.context.cluster_id, kinds.exports, self._on_own)
        self._texts = ExportTexts(self._addresses)
        within = (peer.tenant_namespace,)
        self._exchanges = Watched(SERVICE_EXCHANGES, self._on_exchange, within=within)
        self._maps = Watched(NAMESPACE_MAPS, self._on_scope, within=within)
        self._identities = Watched(IDENTITIES, self._on_scope, within=within)
        self._namespaces = Watched(NAMESPACES, self._on_namespace)
        self._networks = Watched(NETWORKS, self._on_network)
        self._left_out: dict[str, dict[str, str]] = {}
        self._caused: set[str] = set()
        """Namespaces that are looked at as something of the peer's has changed."""
        self._known: dict[Key, str] = {}
        """The resourceVersion of each exchange as this controller has written it, or seen it."""
        self._work = CpuBudget(share=OWN_SHARE)
        self._ready = False
        super().__init__(
            peer,
            "exchanges",
            *self._own.watches,
            *(self._namespaces, self._texts.nodes, self._networks, self._maps, self._identities),
            self._exchanges,
            name="exchanges of services",
            tasks=(self._follow_network, self._follow_reach),
        )

    async def prepare(self) -> None:
        """Read this cluster's networks before an address is judged."""
        self._addresses.own = own_networks(self._texts.nodes.informer)
        self._ready = True
        self._sharing.notify()

    # --- changes --------------------------------------------------------------------------------

    def _on_own(self, key: Key) -> str:
        self._texts.changed(key)
        return key[0]

    def _on_exchange(self, change: StoreChange) -> Iterator[str]:
        yield exchange_namespace(change.key[1])
        if change.new is None:
            yield from self._by_peer(self._left_out)  # there is room for another

    def _on_namespace(self, change: StoreChange) -> Iterator[str]:
        """Yield a namespace that is shared from now on, or no more."""
        old, new = (self._shares(body) for body in (change.old, change.new))
        if old != new:
            self._sharing.notify()
            yield change.key[1]

    def _on_scope(self, change: StoreChange) -> Iterator[str]:
        self._sharing.notify()
        yield from self._by_peer(self._every())

    def _on_network(self, change: StoreChange) -> Iterator[str]:
        if self._addresses.on_network(change):
            self._sharing.notify()
            yield from self._every()

    def _every(self) -> Iterator[str]:
        yield from [name for _, name in self._namespaces.store]

    def _by_peer(self, namespaces: Iterable[str]) -> Iterator[str]:
        """Yield namespaces, to be looked at in the peer's time."""
        found = tuple(namespaces)
        self._caused.update(found)
        yield from found

    async def _follow_network(self) -> NoReturn:
        def changed() -> Iterator[str]:
            self._sharing.notify()
            yield from self._by_peer(self._every())

        await self.whenever(self.peer.network.wait_changed, changed)

    async def _follow_reach(self) -> NoReturn:
        while True:
            self._sharing.notify()
            await self.peer.reach.wait_changed()

    # --- for the imports ------------------------------------------------------------------------

    def scope(self, namespace: str) -> Scope | None:
        """The bounds of the peer's exports to a namespace; None while they are not known."""
        if not self._ready or self._addresses.waits:
            return None
        allowed = (namespace,) if self._is_shared(namespace) else ()
        return Scope(self.peer.id, allowed, self._received)

    def _received(self, address: str) -> Remapped:
        problem = self._addresses.unreachable()
        return self._addresses.received(address) if not problem else Remapped("", problem)

    def reached(self) -> bool | None:
        """True if anything gets through to the peer's pods; None while that is not known."""
        unreachable = self.peer.reach.now
        return None if unreachable is None else not unreachable

    def charge(self, used: float) -> None:
        """Note seconds of work that the peer's exports have caused."""
        self.peer.work.charge(used)

    def debt(self) -> float:
        """Seconds for which work that the peer causes waits, as it has caused too much."""
        return min(self.peer.work.debt, LONGEST_IN_DEBT)

    def delivery(self, key: Key, mark: str) -> str | None:
        """The state of an export that the peer may have: confirmed by it, or not; empty for
        others, and None while that is not known.

        Args:
            key: namespace and name.
            mark: of the export as it is now: a peer may have an earlier one of that name.
        """
        namespace, name = key
        if not self._ready:
            return None
        if not self._is_shared(namespace):
            return ""
        if self.left_out(key):
            return FAILED
        asked, answered = self._asked(namespace), self._answered(namespace)
        marks = [asked.status.confirmed] if asked is not None and asked.status is not None else []
        marks += [answered.spec.confirmed] if answered is not None else []
        return TAKEN if any(each.get(name) == mark for each in marks) else WAITS

    def left_out(self, key: Key) -> str:
        """The bound of this cluster that keeps the peer from being told an export; or empty."""
        namespace, name = key
        return self._left_out.get(namespace, {}).get(name, "")

    # --- reconciling ----------------------------------------------------------------------------

    async def reconcile(self, namespace: str) -> float | None:
        """Exchange the exports of one namespace, within the time of the side that changed some."""
        caused = self._has_news(namespace) or namespace in self._caused
        self._caused.discard(namespace)
        budget = self.peer.work if caused else self._work
        metered = Metered(self._exchange(namespace))
        try:
            return await metered
        finally:
            await budget.spend(metered.used, backlog=len(self.queue) > 0)

    def _has_news(self, namespace: str) -> bool:
        """True if somebody else has changed an exchange of a namespace since the last time."""
        before = dict(self._known)
        for provider in (self.peer.id, self.peer.context.cluster_id):
            key = self.peer.tenant_namespace, exchange_name(namespace, provider)
            found = self._exchanges.store.decode(key, Partial)
            self._known.pop(key, None)
            if found is not None:
                self._known[key] = found.metadata.resource_version
        return self._known != before

    async def _exchange(self, namespace: str) -> float | None:
        """Tell the peer the exports of one namespace, or that there are none for it any more."""
        shared = self._is_shared(namespace)
        asked, answered = self._asked(namespace), self._answered(namespace)
        if not shared:
            self._texts.forget(namespace)
        if not shared and asked is None and answered is None:
            self._leave_out(namespace, {})
            return None
        if not shared and not await self._surely_unshared(namespace):
            return DOUBT
        if shared and self._addresses.waits and (asked or answered):
            return None  # its ranges come, and then all addresses anew
        told = self._texts.of(namespace, self._own) if shared else Told()
        full = asked is None and self._is_full()
        if full and answered is None:
            told = Told(left_out=told.left_out | dict.fromkeys(told.texts, NO_ROOM))
        self._leave_out(namespace, told.left_out)
        again = None
        before = {**(asked.spec.exports if asked else {}), **_answer_of(answered)}
        kept = {}
        for name in before.keys() - told.texts.keys() - told.left_out.keys() if shared else ():
            if not await self._own.surely_ended((namespace, name)):
                kept[name] = before[name]
                again = DOUBT
        texts = {**kept, **told.texts}
        if not await self._ask(namespace, texts, asked, shared=shared and not full):
            again = DOUBT
        if answered is not None:
            await self._answer(answered, texts, shared=shared)
        return again

    def _leave_out(self, namespace: str, found: dict[str, str]) -> None:
        """Take note of the exports of a namespace that the peer is not told."""
        before = self._left_out.pop(namespace, {})
        if found:
            self._left_out[namespace] = found
        if found != before:
            self._sharing.notify()

    def _is_full(self) -> bool:
        """True if this cluster, as a consumer, has as many exchanges with the peer as it may."""
        if not self._borrows():
            return False
        store = self._exchanges.store
        keys = store.indexed("namespace", self.peer.tenant_namespace)
        found = ((key, store.decode(key, Partial)) for key in keys)
        own = {key for key, each in found if each is not None and is_asked(each, self.peer.id)}
        # With those that were made and are not seen yet.
        own.update(key for key in self._known if key[1].endswith(exchange_name("", self.peer.id)))
        return len(own) >= MOST_NAMESPACES

    async def _surely_unshared(self, namespace: str) -> bool:
        """True if a namespace is certainly not shared: what the stores lack is asked for."""
        if self._namespaces.store.get(("", namespace)) is None:
            return await self._namespaces.surely_gone(("", namespace))
        key = (self.peer.tenant_namespace, self.peer.id)
        if self._maps.store.get(key) is None:
            return await self._maps.surely_gone(key)
        return not self._namespaces.doubtful and not self._maps.doubtful

    async def _ask(
        self, namespace: str, texts: dict[str, str], live: ServiceExchange | None, *, shared: bool
    ) -> bool:
        """Keep the object that the replication carries to the peer, if this cluster borrows.

        Returns:
            False if that is not certain.
        """
        name = exchange_name(namespace, self.peer.id)
        place = self.peer.tenant_namespace
        if shared and self._borrows():
            metadata = {
                "name": name,
                "namespace": place,
                "labels": {
                    labels.MANAGED_BY_LIQOD: labels.TRUE,
                    labels.REPLICATION: labels.TRUE,
                    labels.REMOTE_ID: self.peer.id,
                },
            }
            taken = self._confirmed(namespace, _answer_of(live))
            spec = {"namespace": namespace, "exports": texts, "confirmed": taken}
            wanted = {"metadata": metadata, "spec": spec}
            raw = self._exchanges.store.get((place, name))
            written = await ensure(self._client, SERVICE_EXCHANGES, wanted, live=raw)
            if written.partial is not None:
                self._known[place, name] = written.partial.metadata.resource_version
            return True
        if live is None:
            return True
        identity = place, ids.control_plane_identity(self.peer.id)
        if shared and not await self._identities.surely_gone(identity):
            return False
        await self._client.delete(SERVICE_EXCHANGES, name, place, uid=live.metadata.uid)
        return True

    async def _answer(self, live: ServiceExchange, texts: dict[str, str], *, shared: bool) -> None:
        before: dict[str, Any] = {}
        if live.status is not None:  # of which what is empty is left out
            empty = {"shared": False, "exports": {}, "confirmed": {}}
            before = empty | msgspec.to_builtins(live.status)
        taken = self._confirmed(live.spec.namespace, live.spec.exports)
        patch = exact_patch(before, {"shared": shared, "exports": texts, "confirmed": taken})
        if patch:
            meta = live.metadata
            written = await self._client.patch(
                SERVICE_EXCHANGES,
                meta.name,
                {"status": patch},
                meta.namespace,
                subresource="status",
            )
            self._known[meta.namespace, meta.name] = written.metadata.resource_version

    def _confirmed(self, namespace: str, told: dict[str, str]) -> dict[str, str]:
        """The marks of the peer's exports that this cluster takes."""
        scope = self.scope(namespace)
        return confirmed(told, namespace, scope) if scope is not None else {}

    # --- reading --------------------------------------------------------------------------------

    def _is_shared(self, namespace: str) -> bool:
        return self._shares(self._namespaces.store.get(("", namespace)))

    def _shares(self, namespace: bytes | None) -> bool:
        if namespace is None:
            return False
        meta = msgspec.json.decode(namespace, type=Partial).metadata
        own = (self.peer.context.namespace, labels.LIQO_NAMESPACE)
        return is_shared(meta, self.peer.id, self._mapping(), own)

    def _mapping(self) -> dict[str, str]:
        """The names that namespaces of this cluster have at the peer."""
        key = (self.peer.tenant_namespace, self.peer.id)
        found = self._maps.store.decode(key, NamespaceMap)
        return found.spec.desired_mapping if found is not None else {}

    def _borrows(self) -> bool:
        return bool(self._identities.store.indexed("namespace", self.peer.tenant_namespace))

    def _asked(self, namespace: str) -> ServiceExchange | None:
        """This cluster's own object for a namespace."""
        found = self._found(exchange_name(namespace, self.peer.id))
        ours = found is not None and is_asked(found, self.peer.id)
        return found if ours else None

    def _answered(self, namespace: str) -> ServiceExchange | None:
        """The peer's object for a namespace, which this cluster answers."""
        found = self._found(exchange_name(namespace, self.peer.context.cluster_id))
        theirs = found is not None and is_from(found.metadata.labels, self.peer.id)
        return found if theirs else None

    def _found(self, name: str) -> ServiceExchange | None:
        return self._exchanges.store.decode((self.peer.tenant_namespace, name), ServiceExchange)


def is_asked(found: ServiceExchange | Partial, peer: str) -> bool:
    """True if an exchange is this cluster's own, for the peer to answer."""
    marks = found.metadata.labels
    return marks.get(labels.REPLICATION) == labels.TRUE and marks.get(labels.REMOTE_ID) == peer


def _answer_of(found: ServiceExchange | None) -> dict[str, str]:
    return found.status.exports if found is not None and found.status is not None else {}
