"""The daemon's end of the connection to its machine's side, made anew whenever it ends."""

import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

import trio

from liqod.errors import NetworkError
from liqod.network.machine.framestream import FrameStream
from liqod.network.orders import messages
from liqod.network.orders.greeting import ANSWERS, Denied, Greeting
from liqod.network.orders.messages import Order, OrderRefused, Reply, Report, Unknown
from liqod.runtime.log import Seldom
from liqod.runtime.supervise import walled

log = logging.getLogger(__name__)


class MachineLink:
    """Sends orders and receives reports.

    Args:
        greeting: of this daemon.
        connect: opens a connection.
        receive: takes a report.
        tell: sends all orders, to a machine's side that may have none of them.
    """

    def __init__(
        self,
        greeting: Greeting,
        connect: Callable[[], Awaitable[trio.abc.Stream]],
        receive: Callable[[Report], None],
        tell: Callable[[], None],
    ) -> None:
        self._greeting, self._connect = greeting, connect
        self._receive, self._tell = receive, tell
        self._connection: FrameStream | None = None
        self._seldom = Seldom()

    def send(self, order: Order) -> None:
        """Send an order; where there is no connection it is sent with all others later."""
        if self._connection is not None:
            self._connection.send(order)

    async def run(self) -> NoReturn:
        """Be connected until cancelled, as often as it takes."""
        await walled("the connection to the machine's side", self._be_connected)

    async def _be_connected(self) -> None:
        stream = await self._connect()
        async with stream:
            connection = FrameStream(stream)
            answer = messages.read(ANSWERS, await connection.greet(self._greeting))
            if isinstance(answer, Denied):
                raise NetworkError(answer.problem)
            connection.admit()
            self._connection = connection
            try:
                self._tell()
                await self._converse(connection)
            finally:
                self._connection = None

    async def _converse(self, connection: FrameStream) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            while True:
                self._take(messages.REPLIES.decode(await connection.receive()))

    def _take(self, reply: Reply | Unknown) -> None:
        match reply:
            case OrderRefused(name):
                self._say("this machine's side does not know the order %s: upgrade it", name)
            case Unknown(name):
                self._say("this machine's side reports %s, which this daemon does not know", name)
            case _:
                self._receive(reply)

    def _say(self, text: str, name: str) -> None:
        if self._seldom.allows((text, name)):
            log.warning(text, ascii(name))
