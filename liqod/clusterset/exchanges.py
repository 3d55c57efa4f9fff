"""Tells one peer this cluster's exports, by a ServiceExchange for each namespace that is shared.

The consumer makes it and the replication carries it; the provider answers in its status. A word
that is out stays until it is sure that what it speaks of has ended (rule 3).
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final, NoReturn

import msgspec

from liqod.apimachinery import labels
from liqod.cluster.ownnetworks import own_networks
from liqod.clusterset.byway import ByWay, Offers, consents, signer
from liqod.clusterset.exporttexts import ExportTexts
from liqod.clusterset.heldexchanges import HeldExchanges, answer_of
from liqod.clusterset.ownexports import APART, OwnExports
from liqod.clusterset.sharednamespaces import SharedNamespaces
from liqod.clusterset.sharing import Kinds, Sharing
from liqod.identity.keys import print_of, public_pem
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.http.cpubudget import LONGEST_IN_DEBT, CpuBudget, Metered
from liqod.kube.watched import DOUBT, Watched
from liqod.model.clusterset.admission import Relay, Scope
from liqod.model.clusterset.byway import LEFT_OUT, of_told, told_name
from liqod.model.clusterset.exchange import (
    NO_ROOM,
    Told,
    exchange_name,
    exchange_namespace,
)
from liqod.model.clusterset.exports import Consent, Export
from liqod.model.network.remapping import Remapped
from liqod.model.objects.patches import exact_patch
from liqod.peers.peer import Peer
from liqod.peers.peeraddresses import PeerAddresses
from liqod.resources import NETWORKS
from liqod.resources.exchanges import MOST_EXPORTS, SERVICE_EXCHANGES, ServiceExchange

TAKEN: Final = "taken"
WAITS: Final = "waits"
FAILED: Final = "failed"
OWN_SHARE: Final = 0.1
"""Part of the time that telling one peer of this cluster's own changes may take in the long run."""


async def share(peer: Peer, sharing: Sharing) -> NoReturn:
    """Share Services with one peer until cancelled, once the kinds are there."""
    await sharing.known_key()
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
        offers: the exports of the peer that others may have.
    """

    def __init__(self, peer: Peer, sharing: Sharing, kinds: Kinds) -> None:
        self.peer = peer
        self._sharing = sharing
        self._client = peer.context.client
        self._addresses = PeerAddresses(peer)
        self._own = OwnExports(peer.context.cluster_id, kinds.exports, self._on_own, told=True)
        self._texts = ExportTexts(self._addresses)
        within = (peer.tenant_namespace,)
        # After the imports, which follow from the same change and are not to wait for an answer.
        self._exchanges = Watched(
            SERVICE_EXCHANGES, self._on_exchange, within=within, debounce=APART
        )
        self._shared = SharedNamespaces(peer, self._on_namespace, self._on_scope)
        self._networks = Watched(NETWORKS, self._on_network)
        self._left_out: dict[str, dict[str, str]] = {}
        self._caused: dict[str, str] = {}
        """Namespaces that are looked at as something of a peer's has changed, with its id."""
        self._held = HeldExchanges(peer, self._exchanges)
        self._by_way = ByWay(peer, sharing)
        self.offers = Offers(self._held, self._shared, self.scope, self._by_way.left_out)
        self._work = CpuBudget(share=OWN_SHARE)
        self._ready = False
        self._signed = sharing.private, sharing.until
        settle = partial(self._by_way.settle, lambda: len(self.queue) == 0, self._shared)
        super().__init__(
            peer,
            "exchanges",
            *self._own.watches,
            *self._shared.watches,
            *(self._texts.nodes, self._networks, self._exchanges),
            name="exchanges of services",
            tasks=(
                *(self._follow_network, self._follow_reach),
                *(self._follow_others, self._follow_addresses, settle),
            ),
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
        namespace = exchange_namespace(change.key[1])
        is_due, others_hear = self._held.news(change)
        if is_due:
            yield namespace
        for _, other in self._by_way.partners():
            if other is not None and others_hear:
                other.heard(namespace, self.peer.id, APART + self.debt())
        if change.new is None:
            self._held.ended(change.key)
            yield from self._by_peer(self._left_out)  # there is room for another

    def _on_namespace(self, change: StoreChange) -> Iterator[str]:
        """Yield a namespace that is shared from now on, or no more."""
        if self._shared.has_changed(change):
            self._texts.forget(change.key[1])
            self._sharing.notify()
            yield change.key[1]
        yield from self._shared.every() if self._shared.changes_peers(change) else ()

    def _on_scope(self, change: StoreChange) -> Iterator[str]:
        self._sharing.notify()
        yield from self._by_peer(self._shared.every())

    def _on_network(self, change: StoreChange) -> Iterator[str]:
        if self._addresses.on_network(change):
            self._sharing.notify()
            yield from self._shared.every()

    def _by_peer(self, namespaces: Iterable[str]) -> Iterator[str]:
        """Yield namespaces, to be looked at in the peer's time."""
        found = tuple(namespaces)
        self._caused.update(dict.fromkeys(found, self.peer.id))
        yield from found

    async def _follow_network(self) -> NoReturn:
        def changed() -> Iterator[str]:
            self._sharing.notify()
            yield from self._by_peer(self._shared.every())

        await self.whenever(self.peer.network.wait_changed, changed)

    async def _follow_others(self) -> NoReturn:
        await self.whenever(self._sharing.wait_changed, self._on_others, debounce=APART)

    def _on_others(self) -> Iterator[str]:
        """Yield the namespaces that other peers may have something to tell of, or all by a key."""
        signing = self._sharing.private, self._sharing.until
        if self._signed != signing:
            self._signed = signing
            self._texts.forget()
            yield from self._shared.every()
        yield from self._by_way.namespaces()

    async def _follow_addresses(self) -> NoReturn:
        wait = self.peer.context.transit.wait_changed
        await self.whenever(wait, self._by_way.namespaces, debounce=APART)

    async def _follow_reach(self) -> NoReturn:
        while True:
            self._sharing.notify()
            await self.peer.reach.wait_changed()

    # --- for the imports, and for other peers ---------------------------------------------------

    def heard(self, namespace: str, peer: str, after: float) -> None:
        """Have a namespace looked at, as a peer that shares by way of this cluster has news."""
        self._caused.setdefault(namespace, peer)
        self.queue.add(namespace, after=after)

    def scope(self, namespace: str) -> Scope | None:
        """The bounds of the peer's exports to a namespace; None while they are not known."""
        if not self._ready or self._addresses.waits:
            return None
        allowed = (namespace,) if self._shared.shares(namespace) else ()
        return Scope(self.peer.id, allowed, self._received, self._relay(namespace))

    def _relay(self, namespace: str) -> Relay | None:
        """The bounds of what the peer may tell of clusters that are no peers of this one."""
        others = {
            other: key
            for other, key in self._shared.by_way(namespace).items()
            if other != self.peer.context.cluster_id and not self._shared.is_peer(other)
        }
        own = print_of(public_pem(self._sharing.private)) if others else ""
        now = self._sharing.clock()
        return Relay(others, own, self._lent, signer, now) if others else None

    def _lent(self, address: str) -> Remapped:
        problem = self._addresses.unreachable()
        return self._addresses.lent(address) if not problem else Remapped("", problem)

    def _received(self, address: str) -> Remapped:
        problem = self._addresses.unreachable()
        return self._addresses.received(address) if not problem else Remapped("", problem)

    def reached(self) -> bool | None:
        """True if anything gets through to the peer's pods; None while that is not known."""
        return None if self.peer.reach.now is None else not self.peer.reach.now

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
        if not self._shared.shares(namespace):
            return ""
        if self.left_out(key):
            return FAILED
        taken = any(each.get(name) == mark for each in self._held.confirmed(namespace))
        return TAKEN if taken else WAITS

    def passed_on(self, key: Key, mark: str) -> dict[str, bool | None]:
        """The clusters that may have an export by way of the peer, and whether they have taken it;
        None where the peer has no room for it.

        Args:
            key: namespace and name.
            mark: of the export as it is now.
        """
        namespace, name = key
        found: dict[str, bool | None] = {}
        for other in self._shared.by_way(namespace):
            told = told_name(name, other)
            said = {each.get(told) for each in self._held.confirmed(namespace)}
            found[other] = mark in said or (None if LEFT_OUT in said else False)
        return found

    def left_out(self, key: Key) -> str:
        """The bound of this cluster that keeps the peer from being told an export; or empty."""
        namespace, name = key
        return self._left_out.get(namespace, {}).get(name, "")

    # --- reconciling ----------------------------------------------------------------------------

    async def reconcile(self, namespace: str) -> float | None:
        """Exchange the exports of one namespace, within the time of the side that changed some."""
        cause = self._caused.pop(namespace, "")
        cause = self.peer.id if self._held.has_news(namespace) else cause
        metered = Metered(self._exchange(namespace))
        try:
            return await metered
        finally:
            if cause in ("", self.peer.id):
                budget = self.peer.work if cause else self._work
                await budget.spend(metered.used, backlog=len(self.queue) > 0)
            elif cause in self._sharing.peers:  # nothing of this peer's waits for that
                self._sharing.peers[cause].charge(metered.used)

    async def _exchange(self, namespace: str) -> float | None:
        """Tell the peer the exports of one namespace, or that there are none for it any more."""
        shared = self._shared.shares(namespace)
        asked, answered = self._held.asked(namespace), self._held.answered(namespace)
        if not shared:
            self._texts.forget(namespace)
        if not shared and asked is None and answered is None:
            self._leave_out(namespace, {})
            self._by_way.end(namespace)
            return None
        if not shared and not await self._shared.surely_unshared(namespace):
            return DOUBT
        if shared and self._addresses.waits and (asked or answered):
            return None  # its ranges come, and then all addresses anew
        consent = partial(self._consents, namespace)
        told = self._texts.of(namespace, self._own, consent) if shared else Told()
        full = asked is None and self._held.is_full(borrows=self._shared.borrows())
        untold = full and answered is None
        if untold:
            told = Told(left_out=told.left_out | dict.fromkeys(told.texts, NO_ROOM))
        self._leave_out(namespace, told.left_out)
        again = None
        before = {**(asked.spec.exports if asked else {}), **answer_of(answered)}
        kept = {}
        own = {name for name in before if not of_told(name)[1]}
        for name in own - told.texts.keys() - told.left_out.keys() if shared else ():
            if not await self._own.surely_ended((namespace, name)):
                kept[name] = before[name]
                again = DOUBT
        texts = {**kept, **told.texts}
        if shared:
            by_way = await self._by_way.told(namespace, before)
            texts |= self._by_way.fitting(namespace, by_way.texts, texts, untold=untold)
            again = again if by_way.sure else DOUBT
        if not await self._ask(namespace, texts, asked, shared=shared and not full):
            again = DOUBT
        if answered is not None:
            await self._answer(answered, texts, shared=shared)
        self._by_way.end(namespace)
        return again

    def _leave_out(self, namespace: str, found: dict[str, str]) -> None:
        """Take note of the exports of a namespace that the peer is not told."""
        before = self._left_out.pop(namespace, {})
        if found:
            self._left_out[namespace] = found
        differs = {name for name, _ in found.items() ^ before.items()}
        if differs:
            self._sharing.notify_bounds((namespace, name) for name in differs)

    async def _ask(
        self, namespace: str, texts: dict[str, str], live: ServiceExchange | None, *, shared: bool
    ) -> bool:
        """Keep the object that the replication carries to the peer, if this cluster borrows.

        Returns:
            False if that is not certain.
        """
        name, place = exchange_name(namespace, self.peer.id), self.peer.tenant_namespace
        if shared and self._shared.borrows():
            metadata = {
                "name": name,
                "namespace": place,
                "labels": {
                    labels.MANAGED_BY_LIQOD: labels.TRUE,
                    labels.REPLICATION: labels.TRUE,
                    labels.REMOTE_ID: self.peer.id,
                },
            }
            before = live.spec.confirmed if live is not None else {}
            taken = self._confirmed(name, namespace, answer_of(live), before)
            spec = {"namespace": namespace, "exports": texts, "confirmed": taken}
            wanted = {"metadata": metadata, "spec": spec}
            # One that failed was foretold in vain, and is not again and again.
            foretold = not self.queue.failures(namespace)
            await self._held.ask(self._client, wanted, live, foretold=foretold)
            return True
        if live is None:
            return True
        if shared and not await self._shared.surely_no_consumer():
            return False
        await self._client.delete(SERVICE_EXCHANGES, name, place, uid=live.metadata.uid)
        return True

    async def _answer(self, live: ServiceExchange, texts: dict[str, str], *, shared: bool) -> None:
        before: dict[str, Any] = {}
        if live.status is not None:  # of which what is empty is left out
            empty = {"shared": False, "exports": {}, "confirmed": {}}
            before = empty | msgspec.to_builtins(live.status)
        known = before.get("confirmed", {}) if shared else {}
        taken = self._confirmed(live.metadata.name, live.spec.namespace, live.spec.exports, known)
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
            self._held.note(written)

    def _confirmed(
        self, name: str, namespace: str, told: dict[str, str], before: dict[str, str]
    ) -> dict[str, str]:
        """The marks of the peer's exports that this cluster takes, and others by way of it."""
        scope = self.scope(namespace)
        taken = self._held.taken.of(name, namespace, told, scope) if scope is not None else {}
        more = self._by_way.confirmed(namespace, before) if self._shared.shares(namespace) else {}
        names = sorted(more)[: MOST_EXPORTS - len(taken)]
        return {**taken, **{name: more[name] for name in names}}

    def _consents(self, namespace: str, export: Export) -> dict[str, Consent]:
        """The consents that the peer tells other clusters of an export of this cluster's."""
        others = self._shared.by_way(namespace)
        private, until = self._signed
        return consents(private, export, self.peer.id, others, until) if others else {}
