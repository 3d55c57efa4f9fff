"""A machine's side in the process of a test, to which its daemon connects by a pair of sockets."""

from typing import NoReturn

import trio

from liqod.errors import NetworkError
from liqod.network.failover.role import Role
from liqod.network.gatewayhost import GatewayHost, Look
from liqod.network.machine.machineside import MachineSide
from liqod.network.orders.tunnels import Surroundings
from tests.simulated.localmachine import NOWHERE


async def nowhere(around: Surroundings) -> GatewayHost:
    """The capabilities of a machine that joins no networks."""
    return NOWHERE


class PairedMachine:
    """A machine.

    Args:
        role: whether it is the gateway; not known at first.
        look: finds its capabilities.
        node: name of the node's network namespace; None for the one that this process is in.
    """

    def __init__(
        self, role: Role | None = None, look: Look = nowhere, *, node: str | None = None
    ) -> None:
        self._side = MachineSide(lambda _: look, role, node=node)
        self._nursery: trio.Nursery
        self._begun, self._ended = trio.Event(), False

    async def run(self) -> NoReturn:
        """Be there until cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._begun.set()
            try:
                await self._side.run()
            finally:
                self._ended = True
        raise AssertionError("a machine ends by cancellation only")

    async def connect(self) -> trio.SocketStream:
        """A connection of its daemon, once it is there."""
        await self._begun.wait()
        if self._ended:
            raise NetworkError("this machine is there no more")
        own, other = (trio.SocketStream(each) for each in trio.socket.socketpair())
        self._nursery.start_soon(self._side.serve, other)
        return own
