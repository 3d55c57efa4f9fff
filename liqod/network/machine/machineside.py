"""The machine's side of joined networks, whole: takes connections, and keeps what is ordered.

It is of the cluster whose daemon greets first, and has no part of any before that. It goes on by
the last orders while no daemon is connected; the next one adopts what it finds. Only where another
machine has become the gateway meanwhile it ends its tunnels.
"""

from collections.abc import Callable, Mapping
from typing import Final, NoReturn

import trio

from liqod.network.failover.role import UNKNOWN, Role
from liqod.network.gatewayhost import Look
from liqod.network.machine.machineserver import MachineServer
from liqod.network.machine.machineservice import MachineService
from liqod.network.machine.orderchecks import ReservedAddresses
from liqod.network.orders.messages import Order
from liqod.network.orders.tunnels import BackendTrouble, BackendTroubles

TROUBLES_EVERY: Final = 5.0
"""Seconds between looks for faults of backends."""


class MachineSide:
    """One machine.

    Args:
        equip: finds its capabilities, for a cluster's id.
        troubles: gives the present faults of its backends, by their names.
        role: notified whether it is the gateway; it is not known at first.
        node: name of the node's network namespace; None for the one that this process is in.
    """

    def __init__(
        self,
        equip: Callable[[str], Look],
        role: Role | None = None,
        troubles: Callable[[], Mapping[str, BackendTrouble]] = dict,
        *,
        node: str | None = None,
    ) -> None:
        self._equip, self._troubles, self._node = equip, troubles, node
        self._role = role if role is not None else Role(UNKNOWN, others=True)
        self._server = MachineServer("", self._receive)
        self._service: MachineService | None = None
        self._begun = trio.Event()
        self._elsewhere = False
        self._reserved = ReservedAddresses()

    @property
    def cluster(self) -> str:
        """Id of its cluster; empty while no daemon has greeted."""
        return self._server.cluster

    @property
    def ordered(self) -> bool:
        """True if a daemon has ordered something of this program."""
        return self._service is not None

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection until it ends, for whatever reason; nothing else ends with it."""
        try:
            await self._server.serve(stream)
        finally:
            self._stand_back()

    def see_gateway(self, elsewhere: bool) -> None:
        """Take what the cluster's objects say of the gateway.

        Args:
            elsewhere: whether it surely is another machine.
        """
        self._elsewhere = elsewhere
        self._stand_back()

    def reserve(self, reserved: ReservedAddresses) -> None:
        """Have no tunnel that would take these addresses, whatever a daemon orders."""
        self._reserved = reserved
        if self._service is not None:
            self._service.reserve(reserved)

    def _stand_back(self) -> None:
        """Give up what a daemon has ordered that is gone, and whose successor is elsewhere.

        It would have this machine's own pods go by tunnels with the same keys as the gateway's. A
        daemon that is there gives them up itself, and among candidates the election decides.
        """
        gone = self._elsewhere and not self._server.connected and not self._role.others
        if gone and self._service is not None:
            self._service.end_all()

    async def run(self) -> NoReturn:
        """Keep what is ordered until cancelled, which ends nothing."""
        await self._begun.wait()
        assert self._service is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._service.run)
            nursery.start_soon(self._tell_troubles)
        raise AssertionError("the machine's side ends by cancellation only")

    async def _tell_troubles(self) -> NoReturn:
        """Send them again and again, to whichever daemon is there, and once that there are none."""
        told: Mapping[str, BackendTrouble] = {}
        while True:
            troubles = self._troubles()
            if troubles or told:
                self._server.send(BackendTroubles(troubles))
            told = troubles
            await trio.sleep(TROUBLES_EVERY)

    def _receive(self, order: Order) -> None:
        if self._service is None:
            cluster = self._server.cluster
            known = (cluster, self._role, self._server.send, self._equip(cluster))
            self._service = MachineService(*known, node=self._node)
            self._service.reserve(self._reserved)
            self._begun.set()
        self._service.receive(order)
