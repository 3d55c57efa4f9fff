"""A pair whose engine reflects pods, with milan's own provider making them there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from liqod.apimachinery.kinds import NAMESPACES, PODS
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.peers.peer import Peer
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.provider.workloads.shadowpods import ShadowPods
from liqod.resources import QUOTAS
from tests.simulated.reflecting import SHOP, Pair, pair

LENDER = "liqo-tenant-rome"


@asynccontextmanager
async def lending(**options: Any) -> AsyncIterator[tuple[Pair, trio.Nursery]]:
    """Rome and milan with the engine here and the provider's part there."""
    engine, provider = options.pop("engine", {}), options.pop("timings", ORDINARY)
    async with pair(**options) as both, lending_to(both, provider, **engine) as nursery:
        yield both, nursery


@asynccontextmanager
async def lending_to(
    both: Pair, provider: ProviderTimings = ORDINARY, /, **engine: Any
) -> AsyncIterator[trio.Nursery]:
    """The engine here and the provider's part there, of a pair that is there already."""
    async with trio.open_nursery() as nursery:
        await both.there.create(NAMESPACES, {"metadata": {"name": LENDER}})
        await quota(both, "milan-rome", "10")
        peer = Peer("rome", both.lender, LENDER)
        await nursery.start(ShadowPods(peer, GuestPolicies(), provider).run)
        await both.start(nursery, **engine)
        yield nursery
        nursery.cancel_scope.cancel()


async def quota(both: Pair, user: str, pods: str, **spec: Any) -> None:
    """Creates the quota that milan grants to a slice."""
    granted = {"user": user, "resources": {"pods": pods, "cpu": "100"}, **spec}
    await both.there.create(
        QUOTAS, {"metadata": {"name": user, "namespace": LENDER}, "spec": granted}
    )


def ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def here(both: Pair, name: str, holds: Any = ready, **more: Any) -> dict[str, Any]:
    return await both.comes(PODS, name, holds, client=both.here, namespace=SHOP, **more)
