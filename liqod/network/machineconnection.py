"""The daemon's part of joined networks on its machine: orders and reports over one connection.

membership, overlay, tunnels ◄─► MachineLink ◄─ Unix socket ─► `liqod node`
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NoReturn

import trio

from liqod.cluster.context import ClusterContext
from liqod.network.failover import membership
from liqod.network.failover.membership import Membership
from liqod.network.machinelink import MachineLink
from liqod.network.orders.greeting import Generation
from liqod.network.orders.messages import Report
from liqod.network.orders.overlay import OverlayState, Uplink
from liqod.network.orders.tunnels import (
    DISABLED,
    BackendTroubles,
    MachineRead,
    Surroundings,
    TunnelEnded,
    TunnelReport,
    UnknownFound,
    UnknownSwept,
)
from liqod.network.overlay.remoteoverlay import RemoteOverlay
from liqod.network.remotemachine import RemoteMachine, nowhere
from liqod.runtime.observable import Observable
from liqod.runtime.outliving import outliving


class MachineConnection:
    """Orders and reports of one machine.

    Args:
        leads: whether this daemon leads.
        generation: of this daemon.
        connect: opens a connection to the machine's side.

    Attributes:
        role: of the machine, as it reported it last.
        overlay: the machine's overlay.
        machine: its capabilities, and the networks of peers on it.
    """

    def __init__(
        self,
        context: ClusterContext,
        leads: Observable[bool],
        generation: Observable[Generation],
        connect: Callable[[], Awaitable[trio.abc.Stream]],
    ) -> None:
        self.role = membership.role_of(context)
        self._enabled = context.config.network.enabled
        greets = (context.cluster_id, generation)
        self._link = MachineLink(*greets, connect, self._receive, self._tell)
        self.overlay = RemoteOverlay(self._link.send)
        self.machine = self._remote(context) if self._enabled else nowhere(DISABLED, self.role)
        find = partial(membership.local_candidate, context)
        self._membership = Membership(context, find, self.role, leads, self._link.send)

    async def run(self) -> NoReturn:
        """Keep it until cancelled; the connection lasts until the candidacy has ended."""
        if not self._enabled:
            await trio.sleep_forever()
        async with outliving(self._link.run), trio.open_nursery() as nursery:
            nursery.start_soon(self.machine.keep_known)
            if self.role.others:
                await self._membership.run()
        raise AssertionError("a machine is connected until cancelled")

    def _remote(self, context: ClusterContext) -> RemoteMachine:
        return RemoteMachine(
            self._link.send,
            self.role,
            why_silent=lambda: self._link.problem,
            around=around(context, others=self.role.others),
        )

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
            case BackendTroubles():
                self.machine.receive(report)
            case _:
                self._membership.receive(report)


def around(context: ClusterContext, *, others: bool) -> Surroundings:
    """The surroundings of the machine that this daemon runs on.

    Args:
        others: whether there may be other candidates for the gateway.
    """
    return Surroundings(
        address=context.machine_address,
        server=context.endpoint.server,
        reached=context.client.server,
        others=others,
    )
