"""The kernel of a node as a test has it."""

from typing import NoReturn

import trio

from liqod.errors import NetworkError
from liqod.network.dataplane.values import Namespace
from liqod.network.overlay.kernel import NodeKernel
from liqod.runtime.observable import Notifier


class NotedKernel(NodeKernel):
    """A kernel that records what is done to it, by the cluster ``rome``.

    Attributes:
        plans: that were applied.
        removed, attended: numbers.
        refuses: why it does not apply a plan; empty where it does.
        disturbed: notified where others change something.
        remover: the cluster for which the overlay is removed.
    """

    remover = "rome"

    def __init__(self) -> None:
        super().__init__()
        self.plans = list[Namespace]()
        self.removed = self.attended = 0
        self.refuses = ""
        self.disturbed = Notifier()

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        self.attended += 1
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    async def wait_disturbed(self) -> None:
        await self.disturbed.wait()

    async def apply(self, cluster: str, plan: Namespace) -> list[str]:
        assert cluster == "rome"
        await trio.lowlevel.checkpoint()
        if self.refuses:
            raise NetworkError(self.refuses)
        self.plans.append(plan)
        return []

    async def remove(self, cluster: str = "") -> list[str]:
        assert cluster == self.remover
        await trio.lowlevel.checkpoint()
        self.removed += 1
        return []

    async def mtu(self, address: str) -> int:
        await trio.lowlevel.checkpoint()
        if address != "192.168.1.10":
            raise NetworkError("no interface")
        return 1500
