"""The machine's end of the connection to its daemon: admits one daemon, and takes its orders.

The newest generation that was admitted is kept in memory: after this process any daemon has to send
all of its orders anew, and a later one replaces it.
"""

import logging
import math
from collections.abc import Callable
from typing import Final, NoReturn

import trio

from liqod.errors import LiqodError, NetworkError
from liqod.network.framestream import FrameStream
from liqod.network.orders import greeting, messages
from liqod.network.orders.greeting import FENCED, GREETINGS, HEARD_WITHIN, Denied, Generation
from liqod.network.orders.messages import Order, OrderRefused, Report, Unknown
from liqod.runtime.log import Seldom
from liqod.runtime.supervise import explain, fault
from liqod.runtime.tokenbucket import TokenBucket

RATE: Final = 4096.0
"""Orders a second, and KiB of them; each order counts for one beside its size."""
EXPECTED: Final = (LiqodError, ValueError)
"""Errors that a daemon can cause."""

log = logging.getLogger(__name__)


class MachineServer:
    """Serves the connections of daemons, of which the newest one orders.

    Args:
        cluster: id of the machine's cluster; empty for that of the daemon that greets first.
        receive: carries out an order.

    Attributes:
        cluster: the same.
    """

    def __init__(self, cluster: str, receive: Callable[[Order], None]) -> None:
        self.cluster, self._receive = cluster, receive
        self._newest = Generation()
        self._until = math.inf
        """When the newest generation stops counting: no daemon is connected."""
        self._connection: FrameStream | None = None
        self._scope = trio.CancelScope()
        self._seldom = Seldom()

    @property
    def connected(self) -> bool:
        """True while a daemon orders."""
        return self._connection is not None

    def send(self, report: Report) -> None:
        """Send a report to the daemon; where none is connected it is lost."""
        if self._connection is not None:
            self._connection.send(report)

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection until it ends, for whatever reason; nothing else ends with it."""
        connection = FrameStream(stream)
        async with stream:
            try:
                with trio.CancelScope() as scope:
                    await self._serve(connection, scope)
            except* Exception as group:
                self._report(group)
            finally:
                if self._connection is connection:
                    self._connection = None
                    self._until = trio.current_time() + FENCED

    async def _serve(self, connection: FrameStream, scope: trio.CancelScope) -> None:
        await self._admit(connection, scope)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            nursery.start_soon(self._take_orders, connection)

    async def _admit(self, connection: FrameStream, scope: trio.CancelScope) -> None:
        """Answer the greeting; the connection before this one ends. Raises NetworkError: denied."""
        found = messages.read(GREETINGS, await connection.greeted())
        if trio.current_time() >= self._until:
            self._newest = Generation()
        answer = greeting.answer(found, self.cluster, self._newest)
        if isinstance(answer, Denied):
            await connection.deliver(answer)
            raise NetworkError(answer.problem)
        self._scope.cancel()
        self._newest, self._until = found.generation, math.inf
        self.cluster = found.cluster
        self._connection, self._scope = connection, scope
        connection.admit()
        connection.send(answer)

    async def _take_orders(self, connection: FrameStream) -> NoReturn:
        bucket = TokenBucket(RATE, RATE)
        while True:
            body = await _heard(connection)
            order = messages.ORDERS.decode(body)
            match order:
                case Unknown():
                    connection.send(OrderRefused(order.name))
                case Generation():
                    self._newest = max(self._newest, order)
                case _:
                    self._receive(order)
            await trio.sleep(bucket.take(trio.current_time(), 1 + len(body) / 1024))

    def _report(self, error: BaseException) -> None:
        reason = explain(error)
        if self._seldom.allows(reason):
            log.warning("the daemon's connection: %s", reason, exc_info=fault(error, *EXPECTED))


async def _heard(connection: FrameStream) -> bytes:
    """The daemon's next message. Raises NetworkError: it is stopped, as by SIGSTOP, or gone."""
    with trio.move_on_after(HEARD_WITHIN):
        return await connection.receive()
    raise NetworkError(f"the daemon has said nothing for {HEARD_WITHIN:.0f} s: it is stopped")
