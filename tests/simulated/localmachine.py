"""A machine's side in the process of a test, which its daemon's components order by bytes."""

from collections.abc import Callable
from typing import Any, Final

import trio
import trio.testing

from liqod.network.failover.role import Role
from liqod.network.gatewayhost import GatewayHost, Look
from liqod.network.machine.tunnelservice import TunnelService
from liqod.network.orders import messages
from liqod.network.orders.tunnels import NO_NETWORKS, Surroundings
from liqod.network.remotemachine import RemoteMachine

NOWHERE: Final = GatewayHost(facts=NO_NETWORKS)
"""A machine that joins no networks."""


class LocalMachine:
    """A machine.

    Args:
        cluster: id of its cluster.
        host: what it can do.
        role: whether it is the gateway; of both sides.

    Attributes:
        remote: it, as the daemon has it.
        sent: the messages so far, of both directions.
        late: seconds that each message is under way.
        look: finds its capabilities.
    """

    def __init__(self, cluster: str, host: GatewayHost = NOWHERE, role: Role | None = None) -> None:
        self.host, self.late = host, 0.0
        self.look: Look = self._look
        self.sent: list[Any] = []
        self._cluster, self._role = cluster, role if role is not None else Role()
        around = Surroundings(others=self._role.others)
        self.remote = RemoteMachine(self._order, self._role, host.facts, around=around)
        self._service: TunnelService | None = None
        self._nursery: trio.Nursery
        self._serving = trio.CancelScope()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be there until cancelled; the machine was looked at when this has started."""
        async with trio.open_nursery() as self._nursery:
            await self.begin()
            await self.remote.look()
            self._nursery.start_soon(self.remote.keep_known)
            task_status.started()

    async def begin(self) -> None:
        """Begin the machine's side, with no order."""
        await self._nursery.start(self._serve)

    async def end(self) -> None:
        """End the machine's side, as a crash would."""
        self._serving.cancel()
        await trio.testing.wait_all_tasks_blocked()

    async def _serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        known = (self._cluster, self._role, self._report, lambda around: self.look(around))
        with trio.CancelScope() as self._serving:
            self._service = service = TunnelService(*known)
            self.remote.tell()
            task_status.started()
            try:
                await service.run()
            finally:
                self._service = None
        await trio.sleep_forever()

    async def _look(self, around: Surroundings) -> GatewayHost:
        return self.host

    def _order(self, order: Any) -> None:
        made: Any = messages.ORDERS.decode(messages.encode(order))
        assert made == order
        self.sent.append(made)
        self._pass(lambda: self._service.receive(made) if self._service is not None else None)

    def _report(self, report: Any) -> None:
        made: Any = messages.REPLIES.decode(messages.encode(report))
        assert made == report
        self.sent.append(made)
        self._pass(lambda: self.remote.receive(made))

    def _pass(self, deliver: Callable[[], None]) -> None:
        if not self.late:
            deliver()
            return

        async def later() -> None:
            await trio.sleep(self.late)
            deliver()

        self._nursery.start_soon(later)
