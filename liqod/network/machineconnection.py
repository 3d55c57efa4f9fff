"""The daemon's end of the connection to its machine's side, which runs in the same process.

membership, overlay, tunnels ◄─► MachineLink ◄─ socketpair ─► MachineServer ◄─► MachineService
"""

from functools import partial
from typing import NoReturn

import trio

from liqod.cluster.context import ClusterContext
from liqod.network.failover import membership
from liqod.network.failover.membership import Membership
from liqod.network.failover.role import Role
from liqod.network.gatewayhost import Look, nowhere
from liqod.network.machine.machineserver import MachineServer
from liqod.network.machine.machineservice import MachineService
from liqod.network.machinelink import MachineLink
from liqod.network.orders.greeting import Generation
from liqod.network.orders.messages import Report
from liqod.network.orders.overlay import OverlayState, Uplink
from liqod.network.orders.tunnels import (
    MachineRead,
    TunnelEnded,
    TunnelReport,
    UnknownFound,
    UnknownSwept,
)
from liqod.network.overlay.remoteoverlay import RemoteOverlay
from liqod.network.remotemachine import RemoteMachine
from liqod.runtime.observable import Observable
from liqod.runtime.outliving import outliving


class MachineConnection:
    """Orders and reports of one machine.

    Args:
        theirs: the role at the machine's side.
        leads: whether this daemon leads.
        generation: of this daemon.
        look: finds the capabilities of this machine.
        node: name of the node's network namespace; None for the one that this process is in.

    Attributes:
        role: of the machine, as it reported it last.
        overlay: the machine's overlay.
        machine: its capabilities, and the networks of peers on it.
    """

    def __init__(
        self,
        context: ClusterContext,
        theirs: Role,
        leads: Observable[bool],
        generation: Observable[Generation],
        look: Look = nowhere,
        *,
        node: str | None = None,
    ) -> None:
        self.role = membership.role_of(context)
        self._server = MachineServer(context.cluster_id, lambda order: self._machine.receive(order))
        known = (context.cluster_id, theirs, self._server.send, look)
        self._machine = MachineService(*known, node=node)
        greets = (context.cluster_id, generation)
        self._link = MachineLink(*greets, self._connect, self._receive, self._tell)
        self.overlay = RemoteOverlay(self._link.send)
        self.machine = RemoteMachine(
            self._link.send, self.role, why_silent=lambda: self._link.problem
        )
        find = partial(membership.local_candidate, context)
        self._membership = Membership(context, find, self.role, leads, self._link.send)

    async def run(self) -> NoReturn:
        """Keep it until cancelled; the machine's side goes on until the daemon's has ended."""
        async with outliving(self._run_machine):
            if self.role.others:
                await self._membership.run()
            await trio.sleep_forever()

    async def _run_machine(self) -> None:
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._machine.run)
            self._nursery.start_soon(self._link.run)

    async def _connect(self) -> trio.SocketStream:
        own, other = (trio.SocketStream(each) for each in trio.socket.socketpair())
        self._nursery.start_soon(self._server.serve, other)
        return own

    def _tell(self) -> None:
        self._membership.tell()
        self.overlay.tell()
        self.machine.tell()

    def _receive(self, report: Report) -> None:
        match report:
            case OverlayState() | Uplink():
                self.overlay.receive(report)
            case MachineRead() | TunnelEnded() | TunnelReport() | UnknownFound() | UnknownSwept():
                self.machine.receive(report)
            case _:
                self._membership.receive(report)
