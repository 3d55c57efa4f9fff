"""The connections of one server, and what all of them together may cost.

A server that anybody reaches is asked by strangers too: the number of connections is bounded, and
the bytes of requests that are not answered yet. Where one has to make room, it is one of the
address that has most, so that who asks little is served beside who asks without end.
"""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

import trio

from liqod.kube.http.turns import Budget

WEIGHT = 1024
"""Bytes that a request costs beside those that were sent: its objects in memory."""

CREDIT = 1.0
"""Seconds that an address may take at once beyond its lasting share: some two thousand reviews."""
SHARE = 0.02
"""Part of the time that it may take in the long run; what is closed at once costs something too."""
REMEMBERED = 1024
"""Addresses of which it is known how much time they had."""


class Member(Protocol):
    """A connection, as far as the others depend on it.

    Attributes:
        address: the other host's; the same for all where it cannot be told.
        idle: no request of it is being answered.
        streaming: an answer without end is.
        held: bytes of its requests that are kept.
        scope: ends it.
    """

    address: str
    idle: bool
    streaming: bool
    held: int
    scope: trio.CancelScope

    async def run(self) -> None:
        """Serve to the end."""

    def forget(self) -> None:
        """Hold nothing any more."""


class Crowd:
    """The connections of one server.

    Args:
        limit: how many there may be; beyond, one that is idle makes room.
        memory: bytes of unanswered requests that all may hold together.
    """

    def __init__(self, limit: int, memory: int) -> None:
        self._limit = limit
        self._memory = memory
        self._members: dict[Member, None] = {}
        self._held = 0
        self._budgets: dict[str, Budget] = {}
        self.stopping = trio.Event()

    async def admit(self, connection: Member) -> None:
        """Run one connection to its end, unless the server is full of busy ones."""
        if len(self._members) >= self._limit:
            victim = self._most(lambda one: 1)
            if victim is None:
                return
            self._end(victim)
        self._members[connection] = None
        try:
            await connection.run()
        finally:
            self._leave(connection)

    def weigh(self, connection: Member, held: int) -> bool:
        """Note how much a connection holds now; False where it is the one that holds too much.

        Another that does is ended.
        """
        if connection in self._members:
            self._held += held - connection.held
        connection.held = held
        while self._held > self._memory:
            victim = self._most(lambda one: one.held)
            if victim is None or victim is connection:
                return False
            self._end(victim)
        return True

    def budget(self, address: str) -> Budget:
        """The time of an address; of very many the one that came first is forgotten."""
        found = self._budgets.get(address)
        if found is None:
            found = self._budgets[address] = Budget(credit=CREDIT, share=SHARE)
            if len(self._budgets) > REMEMBERED:
                del self._budgets[next(iter(self._budgets))]
        return found

    def stop(self) -> None:
        """End the idle ones; the others end after the answer they are at."""
        self.stopping.set()
        for connection in self._members:
            if connection.idle or connection.streaming:
                connection.scope.cancel()

    def _most(self, weight: Callable[[Member], int]) -> Member | None:
        """The oldest idle connection of the address that has most, if any is idle."""
        by_address: Counter[str] = Counter()
        for one in self._members:
            by_address[one.address] += weight(one)
        found: Member | None = None
        for one in self._members:
            better = found is None or by_address[one.address] > by_address[found.address]
            if one.idle and weight(one) and better:
                found = one
        return found

    def _end(self, connection: Member) -> None:
        self._leave(connection)
        connection.forget()  # its own turn to do so comes after those of all the others
        connection.scope.cancel()

    def _leave(self, connection: Member) -> None:
        if connection in self._members:
            del self._members[connection]
            self._held -= connection.held
