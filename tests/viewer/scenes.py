"""Three embedded clusters with real daemons, for people to look at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from liqod.apimachinery.kinds import NAMESPACES
from tests.simulated.processes import Site, sites

NAMES = ("rome", "milan", "turin")


@asynccontextmanager
async def federation(folder: Path) -> AsyncIterator[tuple[Site, Site, Site]]:
    """The clusters with their daemons running, and nothing between them."""
    async with sites(folder, *NAMES) as (rome, milan, turin):
        for site in (rome, milan, turin):
            await site.start()
        yield rome, milan, turin


async def peer(consumer: Site, provider: Site) -> None:
    """Let one borrow from the other."""
    user = await provider.user_for(consumer.name)
    await consumer.liqod("peer", "--remote-kubeconfig", str(user), "--cpu", "4", "--memory", "8Gi")


async def offload(consumer: Site, namespace: str) -> None:
    """A namespace that is spread over all peers."""
    await consumer.admin.create(NAMESPACES, {"metadata": {"name": namespace}})
    await consumer.liqod("offload", "namespace", namespace, "--pod-offloading-strategy", "Remote")
