"""The machine's side of joined networks as one service: takes orders and sends reports."""

from collections.abc import Callable
from functools import partial
from typing import NoReturn

import trio

from liqod.network.dataplane.kernel import namespaces
from liqod.network.failover.fence import Fence
from liqod.network.failover.role import Role
from liqod.network.gatewayhost import Look, nowhere
from liqod.network.machine.candidateservice import CandidateService
from liqod.network.machine.orderchecks import ReservedAddresses
from liqod.network.machine.overlayservice import OverlayService
from liqod.network.machine.tunnelservice import TunnelService
from liqod.network.orders.candidacy import Candidacy, LeaseAnswer, LeaseFound, LetGo
from liqod.network.orders.messages import Order, Report
from liqod.network.orders.overlay import (
    LeadOverlay,
    ReadUplink,
    ReleaseOverlay,
    RemoveOverlay,
)
from liqod.network.orders.tunnels import ReadMachine
from liqod.network.overlay.kernel import NodeKernel
from liqod.runtime.supervise import walled


class MachineService:
    """Keeps this machine's part of the networks as ordered, also while no daemon is connected.

    Args:
        cluster: this cluster's id.
        role: notified whether this machine is the gateway.
        send: sends a report to the daemon; one that comes to none is lost.
        look: finds the capabilities of this machine.
        node: name of the node's network namespace; None for the one that this process is in.
    """

    def __init__(
        self,
        cluster: str,
        role: Role,
        send: Callable[[Report], None],
        look: Look = nowhere,
        *,
        node: str | None = None,
    ) -> None:
        inside = partial(namespaces.inside, node)
        self._candidates = CandidateService(Fence(cluster, node), role, send, inside=inside)
        self._overlay = OverlayService(cluster, NodeKernel(node), send)
        self._tunnels = TunnelService(cluster, role, send, look)

    def receive(self, order: Order) -> None:
        """Carry out an order of the daemon; the same one again changes nothing."""
        match order:
            case Candidacy() | LeaseFound() | LeaseAnswer() | LetGo():
                self._candidates.receive(order)
            case LeadOverlay() | RemoveOverlay() | ReleaseOverlay() | ReadUplink():
                self._overlay.receive(order)
            case _:
                if isinstance(order, ReadMachine) and not order.around.others:
                    self._candidates.retire()
                self._tunnels.receive(order)

    def reserve(self, reserved: ReservedAddresses) -> None:
        """Have no tunnel that would take these addresses, from now on."""
        self._tunnels.reserve(reserved)

    def end_all(self) -> None:
        """End all tunnels, and leave the overlay: another machine is the gateway."""
        self._tunnels.end_all()
        self._overlay.receive(ReleaseOverlay())

    async def run(self) -> NoReturn:
        """Keep all of it until cancelled, which ends nothing."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(walled, "the election of the gateway", self._candidates.run)
            nursery.start_soon(walled, "the machine's overlay", self._overlay.run)
            nursery.start_soon(walled, "the networks of peers", self._tunnels.run)
        raise AssertionError("services end by cancellation only")
