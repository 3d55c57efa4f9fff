"""The machine's side of joined networks, whole: takes connections, and keeps what is ordered.

It is of the cluster whose daemon greets first, and has no part of any before that. It goes on by
the last orders while no daemon is connected; the next one adopts what it finds. Only where another
machine has become the gateway meanwhile it ends its tunnels.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, NoReturn

import trio

from liqod.network.dataplane.kernel import namespaces
from liqod.network.failover.fence import Fence
from liqod.network.failover.role import UNKNOWN, Role
from liqod.network.gatewayhost import Look
from liqod.network.machine.candidateservice import CandidateService
from liqod.network.machine.machineserver import MachineServer
from liqod.network.machine.orderchecks import ReservedAddresses
from liqod.network.machine.overlayservice import OverlayService
from liqod.network.machine.tunnelservice import TunnelService
from liqod.network.orders.candidacy import Candidacy, LeaseAnswer, LeaseFound, LetGo
from liqod.network.orders.messages import Order
from liqod.network.orders.overlay import (
    LeadOverlay,
    ReadUplink,
    ReleaseOverlay,
    RemoveOverlay,
)
from liqod.network.orders.tunnels import BackendTrouble, BackendTroubles, ReadMachine
from liqod.network.overlay.kernel import NodeKernel
from liqod.runtime.supervise import walled

TROUBLES_EVERY: Final = 5.0
"""Seconds between looks for faults of backends."""


class _Services(NamedTuple):
    """The parts that keep what is ordered, also while no daemon is connected."""

    candidates: CandidateService
    overlay: OverlayService
    tunnels: TunnelService


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
        self._services: _Services | None = None
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
        return self._services is not None

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
        if self._services is not None:
            self._services.tunnels.reserve(reserved)

    def _stand_back(self) -> None:
        """Give up what a daemon has ordered that is gone, and whose successor is elsewhere.

        It would have this machine's own pods go by tunnels with the same keys as the gateway's. A
        daemon that is there gives them up itself, and among candidates the election decides.
        """
        gone = self._elsewhere and not self._server.connected and not self._role.others
        if gone and self._services is not None:
            self._services.tunnels.end_all()
            self._services.overlay.receive(ReleaseOverlay())

    async def run(self) -> NoReturn:
        """Keep what is ordered until cancelled, which ends nothing."""
        await self._begun.wait()
        assert self._services is not None
        candidates, overlay, tunnels = self._services
        async with trio.open_nursery() as nursery:
            nursery.start_soon(walled, "the election of the gateway", candidates.run)
            nursery.start_soon(walled, "the machine's overlay", overlay.run)
            nursery.start_soon(walled, "the networks of peers", tunnels.run)
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
        if self._services is None:
            self._services = self._begin(self._server.cluster)
        candidates, overlay, tunnels = self._services
        match order:
            case Candidacy() | LeaseFound() | LeaseAnswer() | LetGo():
                candidates.receive(order)
            case LeadOverlay() | RemoveOverlay() | ReleaseOverlay() | ReadUplink():
                overlay.receive(order)
            case _:
                if isinstance(order, ReadMachine) and not order.around.others:
                    candidates.retire()
                tunnels.receive(order)

    def _begin(self, cluster: str) -> _Services:
        node, role, send = self._node, self._role, self._server.send
        inside = partial(namespaces.inside, node)
        tunnels = TunnelService(cluster, role, send, self._equip(cluster))
        tunnels.reserve(self._reserved)
        self._begun.set()
        return _Services(
            CandidateService(Fence(cluster, node), role, send, inside=inside),
            OverlayService(cluster, NodeKernel(node), send),
            tunnels,
        )
