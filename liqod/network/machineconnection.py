"""The daemon's end of the connection to its machine's side, which runs in the same process.

orders ─► queue ─► MachineService          membership, overlay ◄─ queue ◄─ reports
"""

from functools import partial
from typing import NoReturn

import trio

from liqod.cluster.context import ClusterContext
from liqod.network.failover import membership
from liqod.network.failover.membership import Membership
from liqod.network.failover.role import Role
from liqod.network.machine.machineservice import MachineService
from liqod.network.machine.messagequeue import MessageQueue
from liqod.network.orders import messages
from liqod.network.orders.messages import MachineStarted, Order, Report
from liqod.network.orders.overlay import OverlayState, Uplink
from liqod.network.overlay.remoteoverlay import RemoteOverlay
from liqod.runtime.observable import Observable
from liqod.runtime.outliving import outliving
from liqod.runtime.supervise import walled


class MachineConnection:
    """Orders and reports of one machine.

    Args:
        theirs: the role at the machine's side.
        leads: whether this daemon leads.
        node: name of the node's network namespace; None for the one that this process is in.

    Attributes:
        role: of the machine, as it reported it last.
        overlay: the machine's overlay.
    """

    def __init__(
        self,
        context: ClusterContext,
        theirs: Role,
        leads: Observable[bool],
        *,
        node: str | None = None,
    ) -> None:
        self.role = membership.role_of(context)
        self._reports = MessageQueue[Report](messages.REPORTS, self._receive)
        self._machine = MachineService(context.cluster_id, theirs, self._reports.send, node=node)
        self._orders = MessageQueue[Order](messages.ORDERS, self._machine.receive)
        self.overlay = RemoteOverlay(self._orders.send)
        find = partial(membership.local_candidate, context)
        self._membership = Membership(context, find, self.role, leads, self._orders.send)

    async def run(self) -> NoReturn:
        """Keep it until cancelled; the machine's side goes on until the daemon's has ended."""
        async with outliving(self._run_machine):
            if self.role.others:
                await self._membership.run()
            await trio.sleep_forever()

    async def _run_machine(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(walled, "orders to the machine", self._orders.run)
            nursery.start_soon(walled, "reports of the machine", self._reports.run)
            nursery.start_soon(self._machine.run)

    def _receive(self, report: Report) -> None:
        match report:
            case MachineStarted():
                self._membership.tell()
                self.overlay.tell()
            case OverlayState() | Uplink():
                self.overlay.receive(report)
            case _:
                self._membership.receive(report)
