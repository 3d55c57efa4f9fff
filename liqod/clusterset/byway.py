"""Shares exports on between one peer and others that it does not peer with, by way of this cluster.

Where ``[network] transit`` names two peers, the exports of one that their exporter lets be shared
on are told the other, and what the other has taken of them is told the exporter
(:mod:`liqod.model.clusterset.byway`). Nothing that came by way of a peer is shared on.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from liqod.cluster.tenancy import look_up_tenant
from liqod.cluster.transitaddresses import REFLECTION, SERVICES, SharedNamespace, TransitAddresses
from liqod.clusterset.heldexchanges import HeldExchanges
from liqod.clusterset.sharednamespaces import SharedNamespaces
from liqod.clusterset.sharing import Sharing, SharingPeer
from liqod.errors import ProtocolError
from liqod.identity import keys
from liqod.model.clusterset.admission import Scope, admit, is_admitted
from liqod.model.clusterset.byway import (
    LEFT_OUT,
    fitting,
    of_told,
    passed,
    statement,
    told_name,
    unreached,
    unready,
)
from liqod.model.clusterset.byway import consents as agreed_by
from liqod.model.clusterset.exchange import MOST_TOLD
from liqod.model.clusterset.exports import Consent, Export
from liqod.peers.peer import Peer
from liqod.runtime.ticks import sleep_until_tick
from liqod.telemetry.events import ServiceImported

LOOK: Final = 1.0
"""Seconds between two looks at whether all exports of other peers were told anew."""

Endpoint = tuple[str, str]
"""Id of the cluster that has an endpoint, and its address here."""


@lru_cache(maxsize=512)
def signer(public: bytes, message: bytes, signature: bytes) -> str:
    """SHA-256 of a public key that has signed a message; empty where it has not."""
    try:
        return keys.print_of(public) if keys.verify(public, message, signature) else ""
    except ProtocolError:
        return ""


def consents(
    private: bytes, export: Export, hub: str, others: Mapping[str, str], until: int
) -> dict[str, Consent]:
    """The consents that a peer tells other clusters of an export.

    Args:
        private: this cluster's private key.
        export: one of this cluster's.
        hub: id of the peer.
        others: the other clusters, with SHA-256 of the key of each.
        until: the Unix time from which they count no more.
    """
    made: dict[str, Consent] = {}
    told, public = msgspec.json.encode(export), keys.public_pem(private).decode()
    for other, key in others.items():
        signature = keys.sign(private, statement(told, hub, key, until))
        made[other] = Consent(public, signature.hex(), until)
    return made


class Offered(NamedTuple):
    """An export of a peer's that another one may have.

    Attributes:
        text: the export as the peer tells it.
        export: the same, with endpoints as this cluster reaches them.
    """

    text: str
    export: Export


class Offers:
    """The exports of one peer that others may have by way of this cluster.

    Args:
        held: the exchanges with the peer.
        shared: the namespaces that are shared with it.
        scope: the bounds of its exports to a namespace; None while they are not known.
        left_out: the exports of others that there is no room for in what it is told of a namespace.
    """

    def __init__(
        self,
        held: HeldExchanges,
        shared: SharedNamespaces,
        scope: Callable[[str], Scope | None],
        left_out: Callable[[str], Collection[str]],
    ) -> None:
        self._held = held
        self._shared = shared
        self._scope = scope
        self._left_out = left_out

    def namespaces(self) -> set[str]:
        """The namespaces of which exports are exchanged."""
        return self._held.namespaces()

    def known(self) -> bool:
        """True if the bounds are known within which the peer's exports are read."""
        return self._scope("") is not None

    def of(self, namespace: str, reader: str) -> dict[str, Offered] | None:
        """The exports that another peer may have, by name; None while they are not known."""
        scope = self._scope(namespace)
        if scope is None:
            return None
        found: dict[str, Offered] = {}
        for name, text in self._held.told(namespace).items() if scope.namespaces else ():
            # Nothing that came by way of the peer itself: one hop, and no loop.
            if not of_told(name)[1] and reader in agreed_by(text):
                export = admit(text, (namespace, name), scope).export
                if export is not None:
                    found[name] = Offered(text, export)
        return found

    async def surely_withdrawn(self, namespace: str, name: str) -> bool:
        """True if no other peer may have an export any more that it could have before."""
        if not self._shared.shares(namespace):
            return await self._shared.surely_unshared(namespace)
        if not self._held.has(namespace):
            return await self._held.surely_silent(namespace)
        text = self._held.told(namespace).get(name)
        scope = self._scope(namespace)
        # One that is told and cannot be read does not say that it has ended.
        return text is None or (scope is not None and is_admitted(text, (namespace, name), scope))

    def taken(self, namespace: str, owner: str) -> dict[str, str] | None:
        """The marks of another peer's exports that this one has taken, or the word that there is
        no room for them; None while not known."""
        if not self.known():
            return None
        marks = [mark for each in self._held.confirmed(namespace) for mark in each.items()]
        marks += ((name, LEFT_OUT) for name in self._left_out(namespace))
        named = ((*of_told(name), mark) for name, mark in marks)
        return {name: mark for name, cluster, mark in named if cluster == owner}


class OnTold(NamedTuple):
    """The exports of other peers that one is told.

    Attributes:
        texts: the exports, by their names in the ServiceExchange.
        sure: whether it is certain that what was told before and is not among them has ended.
    """

    texts: dict[str, str]
    sure: bool


class ByWay:
    """The exports of other peers as one peer is told them.

    Args:
        peer: the one that is told.
        sharing: all peers.
    """

    def __init__(self, peer: Peer, sharing: Sharing) -> None:
        self._peer = peer
        self._sharing = sharing
        self._published: dict[str, frozenset[Endpoint]] = {}
        """The endpoints that the exports of a namespace publish."""
        self._wanted: dict[str, frozenset[Endpoint]] = {}
        """Those that they publish once they are written."""
        self._left_out: dict[str, frozenset[str]] = {}
        """By namespace, the exports that there is no room for."""
        self._told: set[str] = set()
        """The namespaces of which the peer is told exports of others."""
        self._reported: dict[tuple[str, str, str], str] = {}

    @property
    def _transit(self) -> TransitAddresses:
        return self._peer.context.transit

    def partners(self) -> Iterator[tuple[str, SharingPeer | None]]:
        """The peers with which this one shares by way of this cluster, those without a task too."""
        for each in sorted(self._transit.partners(self._peer.id)):
            yield each, self._sharing.peers.get(each)

    def namespaces(self) -> set[str]:
        """The namespaces of which others exchange exports, or of which any were told."""
        others = (each.offers.namespaces() for _, each in self.partners() if each is not None)
        return self._told.union(self._published, *others)

    async def settle(self, idle: Callable[[], bool], shared: SharedNamespaces) -> None:
        """Release what a daemon before this one has published, once all is published anew.

        Args:
            idle: answers once all namespaces were looked at.
            shared: those that are shared with the peer.
        """
        while self._transit.partners(self._peer.id):
            await sleep_until_tick(LOOK)
            if idle() and await self._is_told():
                self._let_go(reflects=shared.borrows() or not await shared.surely_no_consumer())
                return

    async def _is_told(self) -> bool:
        """True if nothing is waited for that another peer may have to tell."""
        for owner, source in self.partners():
            known = source.offers.known() if source is not None else not await self._is_there(owner)
            if not known:
                return False
        return True

    async def told(self, namespace: str, before: Mapping[str, str]) -> OnTold:
        """The exports of a namespace of other peers, whose endpoints are published from now on.

        Args:
            namespace: the namespace, which is shared with the peer.
            before: all that the peer was told last, by name.
        """
        texts: dict[str, str] = {}
        wanted: set[Endpoint] = set()
        sure = True
        for owner, source in self.partners():
            had = {name: text for name, text in before.items() if of_told(name)[1] == owner}
            offered = source.offers.of(namespace, self._peer.id) if source is not None else None
            reached = source.reached() if source is not None else None
            if source is None or offered is None or (reached is None and had):
                if source is None and not await self._is_there(owner):
                    continue
                published = self._published.get(namespace, frozenset())
                wanted.update(each for each in published if each[0] == owner)
                texts |= had
                sure = sure and not had
                continue
            for name, found in offered.items():
                export = found.export if reached else unreached(found.export)
                endpoints = [
                    (owner, one.addresses[0]) for each in export.slices for one in each.endpoints
                ]
                wanted.update(endpoints)
                self._begin(namespace, wanted)
                key = told_name(name, owner)
                waits = any(self._transit.awaits(self._peer.id, *each) for each in endpoints)
                if key in had and waits:  # all that it has stays, until the rest has addresses
                    texts[key] = had[key] if reached else unready(had[key])
                else:
                    texts[key] = self._text(found, export, owner)
                self._report(namespace, name, owner, endpoints)
            for key in had.keys() - texts.keys():
                if not await source.offers.surely_withdrawn(namespace, of_told(key)[0]):
                    texts[key], sure = had[key], False
        self._begin(namespace, wanted)
        self._wanted[namespace] = frozenset(wanted)
        for each in [each for each in self._reported if each[0] == namespace]:
            if told_name(each[1], each[2]) not in texts:
                del self._reported[each]
        (self._told.add if texts else self._told.discard)(namespace)
        return OnTold(texts, sure)

    def fitting(
        self, namespace: str, found: Mapping[str, str], own: Mapping[str, str], *, untold: bool
    ) -> dict[str, str]:
        """Those of the exports that there is room for; the exporters of others are told of it.

        Args:
            namespace: the namespace.
            found: the exports.
            own: this cluster's, which come first.
            untold: whether the peer is told nothing of the namespace, as of one too many.
        """
        room = 0 if untold else MOST_TOLD - sum(map(len, own.values()))
        fits = fitting(found, len(own), room)
        self._leave_out(namespace, found.keys() - fits.keys())
        return fits

    def left_out(self, namespace: str) -> Collection[str]:
        """The exports of a namespace that there is no room for, by their names in the exchange."""
        return self._left_out.get(namespace, ())

    def _leave_out(self, namespace: str, found: Collection[str]) -> None:
        differs = self._left_out.pop(namespace, frozenset()) ^ frozenset(found)
        if found:
            self._left_out[namespace] = frozenset(found)
        for owner in {of_told(each)[1] for each in differs}:
            source = self._sharing.peers.get(owner)
            if source is not None:
                source.heard(namespace, self._peer.id, 0.0)

    def _text(self, found: Offered, export: Export, owner: str) -> str:
        def cross(address: str) -> str | None:
            return self._transit.address(self._peer.id, owner, address)

        return passed(found.text, self._peer.id, export, cross)

    async def _is_there(self, owner: str) -> bool:
        return await look_up_tenant(self._peer.context.client, owner) is not None

    def _begin(self, namespace: str, wanted: set[Endpoint]) -> None:
        """Publish endpoints beside those that the peer was told last."""
        self._publish(namespace, self._published.get(namespace, frozenset()) | wanted)

    def end(self, namespace: str) -> None:
        """Publish the endpoints alone that the peer has been told now."""
        if namespace not in self._wanted:  # it is shared no more
            self._leave_out(namespace, ())
        self._publish(namespace, self._wanted.pop(namespace, frozenset()))

    def _publish(self, namespace: str, wanted: frozenset[Endpoint]) -> None:
        # Also what is as before: it was forgotten where the peer was gone for a while.
        self._transit.publish(SharedNamespace(namespace), self._peer.id, wanted)
        self._published.pop(namespace, None)
        if wanted:
            self._published[namespace] = wanted

    def confirmed(self, namespace: str, before: Mapping[str, str]) -> dict[str, str]:
        """The marks of the peer's exports that others have taken, to be told the peer.

        Args:
            namespace: the namespace.
            before: the marks that it was told last.
        """
        found: dict[str, str] = {}
        for other, source in self.partners():
            taken = source.offers.taken(namespace, self._peer.id) if source is not None else None
            if taken is None:  # that is not known now
                found |= {name: each for name, each in before.items() if of_told(name)[1] == other}
            else:
                found |= {told_name(name, other): each for name, each in taken.items()}
        return found

    def _let_go(self, *, reflects: bool) -> None:
        """Release what this cluster has published before, since all is published anew by now.

        Args:
            reflects: whether anything is reflected to the peer.
        """
        for user in self._transit.users(self._peer.id):
            if isinstance(user, SharedNamespace) and user.namespace not in self._published:
                self._transit.release(user, self._peer.id)
        self._transit.settle(self._peer.id, SERVICES)
        if not reflects:
            self._transit.settle(self._peer.id, REFLECTION)

    def _report(self, namespace: str, name: str, owner: str, endpoints: list[Endpoint]) -> None:
        """Publish once why endpoints are left out of what the peer is told."""
        reader, transit = self._peer.id, self._transit
        refused = [
            transit.refusal(reader, *each)
            for each in endpoints
            if not transit.awaits(reader, *each)
        ]
        reasons = sorted({each for each in refused if each})
        count = sum(map(bool, refused))
        said = f"{count} endpoints at {owner} are not told to {reader}: {'; '.join(reasons)}"
        said = said if reasons else ""
        if self._reported.get((namespace, name, owner), "") != said:
            self._reported[namespace, name, owner] = said
            event = ServiceImported(namespace=namespace, name=name, refused=said)
            self._peer.context.hub.publish(event)
