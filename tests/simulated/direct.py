"""Two sides at work where the provider takes pods that its consumer writes itself."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import trio

from liqod import config
from liqod.consumer.webhook.server import PodWebhook
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.kinds import MUTATING_WEBHOOKS, NAMESPACES
from liqod.model import labels
from liqod.model.objects import webhook
from liqod.peer import Peer
from liqod.provider.workloads.shadowpods import ShadowPods
from liqod.resources import SHADOW_PODS, VIRTUAL_NODES
from tests.simulated.borrower import Switch
from tests.simulated.reflecting import TENANT, THERE, Pair, pair
from tests.simulated.test_reflected_pods import LENDER, here, quota

SETTINGS = """
[peer_defaults]
pod_network = "routed"
[webhook]
port = 0
host = "127.0.0.1"
[provider]
direct_pods = true
"""


class Sides:
    """Rome and milan, and milan's rooms, which can be stopped and started."""

    def __init__(self, both: Pair, nursery: trio.Nursery, text: str) -> None:
        self.both = both
        self.lender = dataclasses.replace(both.lender, config=config.parse(text))
        self.nursery = nursery
        self._running: trio.CancelScope | None = None
        self.room: ShadowPods | None = None

    async def lend(self) -> None:
        """Start milan's room for rome."""

        async def run(task_status: trio.TaskStatus[None]) -> None:
            with trio.CancelScope() as self._running:
                self.room = ShadowPods(Peer("rome", self.lender, LENDER, cast("Any", Switch())))
                await self.room.run(task_status=task_status)

        await self.nursery.start(lambda task_status: run(task_status))

    async def start(self) -> None:
        """Start rome's reflection (again)."""
        await self.both.start(self.nursery)

    def stop(self) -> None:
        """End it, as a crash would."""
        assert self._running is not None
        self._running.cancel()


@asynccontextmanager
async def direct(text: str = SETTINGS, *, offered: bool = True) -> AsyncIterator[Sides]:
    """Both sides at work, where milan takes direct pods and its node says so."""
    async with pair() as both, trio.open_nursery() as nursery:
        await both.identities.slices["milan"].aclose()
        named = both.milan.kubeconfig_for("milan-rome", ("system:masters",))
        both.identities.slices["milan"] = Client(from_kubeconfig(named))
        await both.there.create(NAMESPACES, {"metadata": {"name": LENDER}})
        await quota(both, "milan-rome", "10")
        both.lender.fence.known = True
        sides = Sides(both, nursery, text)
        hook = PodWebhook(sides.lender)
        await nursery.start(hook.run)
        await nursery.start(hook.lead)
        if config.lends_direct(sides.lender.config):
            await both.comes(MUTATING_WEBHOOKS, webhook.GUESTS_NAME, namespace=cast("Any", None))
        await sides.lend()
        if offered:
            await offer(both, labels.TRUE)
        await both.start(nursery)
        yield sides
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def direct_pod() -> AsyncIterator[tuple[Sides, Pair]]:
    """Both sides at work, and a pod ``web`` that runs there without a ShadowPod."""
    async with direct() as sides:
        await sides.both.pod("web")
        await here(sides.both, "web")
        yield sides, sides.both


async def offer(both: Pair, value: str | None) -> None:
    """What the virtual node says of it."""
    notes = {"metadata": {"annotations": {labels.DIRECT_PODS: value}}}
    await both.here.patch(VIRTUAL_NODES, "milan", notes, TENANT)


def made_by(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"].get(labels.MANAGED_BY))


async def shadow(both: Pair, name: str) -> dict[str, Any] | None:
    return await both.there.find(SHADOW_PODS, name, THERE)
