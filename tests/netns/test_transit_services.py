"""A Service of the hub's, whose pods at one leaf answer pods of the other, by real packets.

The hub borrows from both leaves, which are not joined with each other.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import ENDPOINT_SLICES, NAMESPACES, NODES, SERVICES
from liqod.kube.selection import Selection
from liqod.plugins import loader
from tests.netns.lab import ask, echo
from tests.netns.natted import Natted, natted
from tests.netns.test_hub import Hub
from tests.netns.test_joined_clusters import Site
from tests.netns.test_transit import PORT, reached, tries
from tests.simulated.borrower import eventually, offload

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("networks")]

ALLOWED = """
[network]
transit = [["{r}", "{m}"]]
"""
SERVICE = {"metadata": {"name": "db"}, "spec": {"clusterIP": "None", "ports": [{"port": PORT}]}}


def members(aliases: dict[str, str]) -> dict[str, Any]:
    """A slice of the Service, with an endpoint at each leaf."""
    return {
        "metadata": {"name": "db-1", "labels": {"kubernetes.io/service-name": "db"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [address], "nodeName": leaf, "conditions": {"ready": True}}
            for leaf, address in aliases.items()
        ],
        "ports": [{"name": "sql", "port": PORT, "protocol": "TCP"}],
    }


async def found_at(leaf: Site, count: int) -> list[str]:
    """The addresses that clients at a leaf find, as soon as they are so many."""
    namespace = Selection(f"shop-{leaf.names.peer_id}")
    every: list[str] = []

    async def look() -> bool:
        nonlocal every
        every = [
            endpoint["addresses"][0]
            for each in await leaf.member.admin.list(ENDPOINT_SLICES, namespace)
            for endpoint in each.get("endpoints") or ()
            if endpoint["conditions"]["ready"]
        ]
        return len(every) == count

    await eventually(look)
    return every


async def offloaded(three: Natted) -> Hub:
    """The hub borrows from both, with a Service whose pods are there."""
    own = three.hub.member
    for leaf in (three.rome, three.milan):
        assert (await three.join(leaf, three.hub)).without == ""
        await own.peer(leaf.member)
    hub = Hub(three)
    await offload(own.admin, "shop")
    for leaf in (three.rome, three.milan):
        await leaf.member.until(NAMESPACES, f"shop-{own.id}", None, bool)
        await own.until(NODES, leaf.member.id, None, bool)
    aliases = {
        three.rome.member.id: await hub.to_rome.alias(5),
        three.milan.member.id: await hub.to_milan.alias(6),
    }
    await own.admin.create(SERVICES, SERVICE, "shop")
    await own.admin.create(ENDPOINT_SLICES, members(aliases), "shop")
    return hub


async def test_pods_of_one_leaf_call_those_of_the_other_by_the_service(
    wireguard: str, tmp_path: Path
) -> None:
    plugins = loader.load(sources=loader.built_in())
    async with natted(wireguard, tmp_path, ALLOWED, plugins=plugins) as three:
        hub = await offloaded(three)
        for here, there in ((hub.rome, hub.milan), (hub.milan, hub.rome)):
            [address] = await found_at(here, 1)
            with echo(there.pod.namespace, PORT):
                await reached(here.pod.namespace, address)
                answers = 0
                for _ in range(100):
                    asked = partial(ask, here.pod.namespace, address, PORT)
                    answers += bool(await trio.to_thread.run_sync(asked))
                assert answers == 100
        # The pod at milan goes: nothing is left of the way to it.
        [address] = await found_at(hub.rome, 1)
        left = members({three.rome.member.id: await hub.to_rome.alias(5)})
        patch = {"endpoints": left["endpoints"]}
        await three.hub.member.admin.patch(ENDPOINT_SLICES, "db-1", patch, "shop")
        assert await found_at(hub.rome, 0) == []
        with echo(three.milan.pod.namespace, PORT):

            async def closed() -> bool:
                return await tries(three.rome.pod.namespace, address) == ""

            await eventually(closed)
        assert len(await found_at(hub.milan, 1)) == 1
