"""The daemon's end of the connection to its machine's side, made anew whenever it ends."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

import trio

from liqod.errors import LiqodError
from liqod.network.framestream import FrameStream
from liqod.network.orders import greeting, messages
from liqod.network.orders.greeting import ANSWERS, Denied, Generation, Greeting
from liqod.network.orders.messages import Order, OrderRefused, Reply, Report, Unknown
from liqod.runtime.backoff import Backoff
from liqod.runtime.log import Seldom
from liqod.runtime.observable import Observable
from liqod.runtime.supervise import explain, fault

RETRIES: Final = Backoff(first=0.25, last=2.0)
"""Seconds until the next connection: a `liqod node` that begins anew is found soon."""
LASTING: Final = 10.0
"""Seconds after which a connection counts as one that was there."""
EXPECTED: Final = (LiqodError, OSError, ValueError)
"""Errors that the other side can cause."""
AGAIN: Final = 5.0
"""Seconds until a daemon that was denied greets again, where its generation does not change."""

log = logging.getLogger(__name__)


class MachineLink:
    """Sends orders and receives reports.

    Args:
        cluster: this cluster's id.
        generation: of this daemon.
        connect: opens a connection.
        receive: takes a report.
        tell: sends all orders, to a machine's side that may have none of them.

    Attributes:
        problem: the reason why there is no connection; empty while there is one.
    """

    def __init__(
        self,
        cluster: str,
        generation: Observable[Generation],
        connect: Callable[[], Awaitable[trio.abc.Stream]],
        receive: Callable[[Report], None],
        tell: Callable[[], None],
    ) -> None:
        self._cluster, self._generation, self._connect = cluster, generation, connect
        self._receive, self._tell = receive, tell
        self._connection: FrameStream | None = None
        self.problem = ""
        self._seldom = Seldom()

    def send(self, order: Order) -> None:
        """Send an order; where there is no connection it is sent with all others later."""
        if self._connection is not None:
            self._connection.send(order)

    async def run(self) -> NoReturn:
        """Be connected until cancelled, as often as it takes."""
        failures = 0
        while True:
            began = trio.current_time()
            try:
                await self._be_connected()
            except* Exception as group:
                self._report(group)
            failures = failures + 1 if trio.current_time() - began < LASTING else 1
            await trio.sleep(RETRIES.delay(failures))

    def _report(self, error: BaseException) -> None:
        self.problem = reason = explain(error)
        if self._seldom.allows(reason):
            known = fault(error, *EXPECTED)
            log.warning("the connection to the machine's side: %s", reason, exc_info=known)

    async def _be_connected(self) -> None:
        while True:
            own = self._generation.now
            async with await self._connect() as stream:
                connection = FrameStream(stream)
                greets = Greeting(greeting.OLDEST, greeting.VERSION, self._cluster, own)
                answer = messages.read(ANSWERS, await connection.greet(greets))
                if not isinstance(answer, Denied):
                    await self._converse(connection, own)
            self.problem = answer.problem
            self._say("this machine's side takes no orders: %s", answer.problem)
            with trio.move_on_after(AGAIN):
                await self._change_from(own)

    async def _converse(self, connection: FrameStream, own: Generation) -> NoReturn:
        connection.admit()
        self._connection, self.problem = connection, ""
        try:
            self._tell()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.run)
                nursery.start_soon(self._tell_generation, connection, own)
                while True:
                    self._take(messages.REPLIES.decode(await connection.receive()))
        finally:
            self._connection = None

    async def _tell_generation(self, connection: FrameStream, told: Generation) -> NoReturn:
        while True:
            with trio.move_on_after(greeting.TELL_EVERY):
                await self._change_from(told)
            told = self._generation.now
            connection.send(told)

    async def _change_from(self, known: Generation) -> None:
        while self._generation.now == known:
            await self._generation.wait_changed()

    def _take(self, reply: Reply | Unknown) -> None:
        match reply:
            case OrderRefused(name):
                self._say("this machine's side does not know the order %s: upgrade it", name)
            case Unknown(name):
                self._say("this machine's side reports %s, which this daemon does not know", name)
            case _:
                self._receive(reply)

    def _say(self, text: str, word: str) -> None:
        if self._seldom.allows((text, word)):
            log.warning(text, ascii(word))
