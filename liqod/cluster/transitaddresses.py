"""Records the endpoints at one peer that are published to another, and the address for each.

Where ``[network] transit`` names two peers, pods of one reach endpoints at the other by way of this
cluster: by an address of its external range for each endpoint that is published, and by no other.
A publisher of endpoints (the reflection of EndpointSlices, and the exports of Services that are
shared on) says here all that one of its objects
publishes to a peer, and reads here what to write::

    transit = context.transit
    transit.publish(user, reader, [(owner, address), …])   # of this object, instead of before
    transit.address(reader, owner, address)                # None: not allowed, or not yet given
    transit.refusal(reader, owner, address)                # the reason of a None, a clause
    await transit.wait_changed()                           # either may be another one
    transit.release(user, reader)                          # nothing of this object any more
    transit.settle(reader, REFLECTION)                     # all of the reader's were gone through

``address`` of the owner's is the one that its pod has in this cluster. The answer is an address as
this cluster uses it, which is written to the peer as it is. It is released after the peer was
written without it, so that no pod there is led astray. Those of an earlier daemon stay until their
reader is settled, by each publisher.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from liqod.model.network.ranges import MOST_TRANSIT
from liqod.runtime.observable import Notifier

MOST: Final = 512
"""Addresses at one peer that are published to one other."""
REFLECTION: Final = "reflection"
SERVICES: Final = "services"


class SharedNamespace(msgspec.Struct, frozen=True):
    """The exports of a namespace that are shared on, as a user of addresses."""

    namespace: str


class Passage(msgspec.Struct, frozen=True, order=True):
    """One endpoint at a peer that another peer's pods reach.

    Attributes:
        reader: id of the peer whose pods reach it.
        owner: id of the peer that has it.
        address: of the endpoint, as this cluster uses it.
    """

    reader: str
    owner: str
    address: str


class TransitAddresses:
    """The endpoints of peers that are published to other peers, and their addresses; in memory.

    Args:
        pairs: ids of peers, two and two, between which the configuration allows transit.
        publishers: all that publish endpoints.
    """

    def __init__(
        self, pairs: Iterable[Sequence[str]] = (), publishers: Iterable[str] = (REFLECTION,)
    ) -> None:
        self._publishers = frozenset(publishers)
        self._pairs = frozenset(frozenset(pair) for pair in pairs)
        self._published: dict[tuple[Hashable, str], frozenset[Passage]] = {}
        self._users: dict[Passage, int] = {}
        """How many objects publish a passage, the oldest passage first."""
        self._admitted: set[Passage] = set()
        """Those of them that are within the limits: who was admitted is not replaced by others."""
        self._counts: Counter[tuple[str, str]] = Counter()
        """How many of these there are, by reader and owner."""
        self._refused: dict[Passage, str] = {}
        """The reasons of those that lead nowhere."""
        self._given: dict[str, Mapping[Passage, str]] = {}
        self._settled: set[tuple[str, str]] = set()
        """Readers, each with a publisher that has settled it."""
        self._news, self._wishes = Notifier(), Notifier()

    def allows(self, reader: str, owner: str) -> bool:
        """True if the configuration lets these two reach each other's endpoints, either way."""
        return reader != owner and frozenset((reader, owner)) in self._pairs

    def partners(self, peer: str) -> frozenset[str]:
        """Ids of the peers that one may reach, and that may reach it."""
        return frozenset(
            other for pair in self._pairs if peer in pair for other in pair if other != peer
        )

    @property
    def named(self) -> frozenset[str]:
        """Ids of all peers that the configuration names."""
        return frozenset(each for pair in self._pairs for each in pair)

    # Who publishes.

    def publish(self, user: Hashable, reader: str, wanted: Iterable[tuple[str, str]]) -> None:
        """Have what an object publishes to a peer be this, in place of what it was.

        Args:
            user: identifies the object.
            reader: id of the peer that reads it.
            wanted: ids of owners, with an address of each; those that are not allowed are ignored.
        """
        now = frozenset(
            Passage(reader, owner, address)
            for owner, address in wanted
            if self.allows(reader, owner)
        )
        before = self._published.pop((user, reader), frozenset())
        if now:
            self._published[user, reader] = now
        for passage in sorted(now - before):
            self._add(passage)
        for passage in before - now:
            self._drop(passage)
        if now != before:
            self._wishes.notify()
        if not now - before <= self._admitted:
            self._news.notify()  # There is a reason now, and it was asked for before.

    def release(self, user: Hashable, reader: str) -> None:
        """Have an object publish nothing to a peer any more."""
        self.publish(user, reader, ())

    def forget(self, reader: str) -> None:
        """Have nothing published to a peer that is gone, so that others have the room."""
        for user in self.users(reader):
            self.release(user, reader)

    def users(self, reader: str) -> set[Hashable]:
        """The objects that publish anything to a peer."""
        return {user for user, to in self._published if to == reader}

    def settle(self, reader: str, publisher: str) -> None:
        """Note that all that one publishes to a peer has been, since this daemon began."""
        if (reader, publisher) not in self._settled:
            self._settled.add((reader, publisher))
            self._wishes.notify()

    def address(self, reader: str, owner: str, address: str) -> str | None:
        """The address to write for an endpoint; None where it is not allowed, or not given yet."""
        return self._given.get(reader, {}).get(Passage(reader, owner, address))

    def refusal(self, reader: str, owner: str, address: str) -> str:
        """The reason why an endpoint has no address, as a clause; empty if it has one."""
        passage = Passage(reader, owner, address)
        if not self.allows(reader, owner):
            return f"[network] transit does not name {reader} and {owner}"
        if passage in self._given.get(reader, {}):
            return ""
        if passage in self._refused:
            return self._refused[passage]
        if passage in self._users and not self.wants(passage):
            if self._counts[reader, owner] >= MOST:
                return f"{MOST} endpoints at {owner} are published to {reader} already"
            return f"{MOST_TRANSIT} endpoints at peers are published to other peers already"
        return f"it has no address for {reader} yet"

    def awaits(self, reader: str, owner: str, address: str) -> bool:
        """True if there is no address for an endpoint yet, and none is refused."""
        passage = Passage(reader, owner, address)
        given = passage in self._given.get(reader, {})
        beyond = passage in self._users and not self.wants(passage)
        refused = beyond or passage in self._refused
        return self.allows(reader, owner) and not given and not refused

    async def wait_changed(self) -> None:
        """Wait until an answer of :meth:`address` or :meth:`refusal` may be another one."""
        await self._news.wait()

    # Who gives addresses.

    def wanted(self) -> tuple[Passage, ...]:
        """All that is published, within the limits."""
        return tuple(sorted(self._admitted))

    def wants(self, passage: Passage) -> bool:
        """True if a passage is published, and within the limits."""
        return passage in self._admitted

    def is_settled(self, reader: str, publisher: str = "") -> bool:
        """True if a passage of this reader's that is not published now is not published at all.

        Args:
            reader: id of a peer.
            publisher: the one that is asked about; without one, all.
        """
        wanted = (publisher,) if publisher else self._publishers
        return all((reader, each) in self._settled for each in wanted)

    def wishes(self) -> Callable[[], Awaitable[None]]:
        """Waits until something else is published, since it was last awaited."""
        return self._wishes.waits()

    def give(self, reader: str, given: Mapping[Passage, str]) -> None:
        """Set the addresses by which one peer's pods reach others' endpoints."""
        if given != self._given.get(reader, {}):
            self._given[reader] = dict(given)
            self._news.notify()

    def refuse(self, passage: Passage, why: str) -> None:
        """Have it told why a published passage leads nowhere, a clause; empty where it does."""
        if why and self.wants(passage) and self._refused.get(passage) != why:
            self._refused[passage] = why
            self._news.notify()
        elif not why and self._refused.pop(passage, ""):
            self._news.notify()

    def _add(self, passage: Passage) -> None:
        self._users[passage] = self._users.get(passage, 0) + 1
        self._admit(passage)

    def _drop(self, passage: Passage) -> None:
        self._users[passage] -= 1
        if self._users[passage]:
            return
        del self._users[passage]
        self._refused.pop(passage, None)
        if passage not in self._admitted:
            return
        self._admitted.remove(passage)
        self._counts[passage.reader, passage.owner] -= 1
        if len(self._users) > len(self._admitted):
            any(self._admit(each) for each in self._users if each not in self._admitted)

    def _admit(self, passage: Passage) -> bool:
        """Take one in, where there is room; true if there was."""
        pair = (passage.reader, passage.owner)
        room = self._counts[pair] < MOST and len(self._admitted) < MOST_TRANSIT
        if room and passage not in self._admitted:
            self._admitted.add(passage)
            self._counts[pair] += 1
        return room
