"""A Service of the hub's, whose pods at one leaf answer pods of the other, by real packets.

The hub borrows from both leaves, which are not joined with each other at first.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, NAMESPACES, NODES, SERVICES
from liqod.kube.selection import Selection
from liqod.plugins import loader
from tests.netns.lab import ask, echo, run, wire
from tests.netns.natted import AT_HOME, Natted, natted
from tests.netns.test_hub import Hub
from tests.netns.test_joined_clusters import Site
from tests.netns.test_transit import PORT, reached, tries
from tests.simulated.borrower import eventually, offload

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

ALLOWED = """
[network]
transit = [["{r}", "{m}"]]
[[peers]]
id = "{h}"
direct_connections = ["{r}", "{m}"]
"""
BETWEEN = "192.168.103"
"""A network of both leaves' gateways; rome's has .1 there, milan's .2."""
CALLS = 100
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


def cable(three: Natted) -> None:
    """A way from rome's gateway to milan's that is not through the hub's."""
    one, other = three.rome.node, three.milan.node
    wire(one, "between", other, "between")
    for number, node in enumerate((one, other), 1):
        run("ip", "-n", node, "addr", "add", f"{BETWEEN}.{number}/24", "dev", "between")
    plug(three, "up")


def plug(three: Natted, state: str) -> None:
    """Has the cable be `up` or `down`."""
    for node in (three.rome.node, three.milan.node):
        run("ip", "-n", node, "link", "set", "between", state)
    if state == "up":
        way = f"{AT_HOME['m']}.2 via {BETWEEN}.2"
        run(*f"ip -n {three.rome.node} route replace {way}".split())


async def answered(here: Site, there: Site, address: str) -> None:
    """Calls a pod of one leaf from one of the other many times, and each call is answered."""
    with echo(there.pod.namespace, PORT):
        await reached(here.pod.namespace, address)
        answers = 0
        for _ in range(CALLS):
            asked = partial(ask, here.pod.namespace, address, PORT)
            answers += bool(await trio.to_thread.run_sync(asked))
        assert answers == CALLS


async def finds(leaf: Site, address: str) -> None:
    """Waits until clients at a leaf find that address, and no other."""

    async def look() -> bool:
        return await found_at(leaf, 1) == [address]

    await eventually(look)


async def finds_another(leaf: Site, address: str) -> str:
    """Waits until clients at a leaf find one address that is not that one; it."""
    other = address

    async def look() -> bool:
        nonlocal other
        [other] = await found_at(leaf, 1)
        return other != address

    await eventually(look)
    return other


async def test_pods_of_one_leaf_call_those_of_the_other_by_the_service(
    wireguard: str, tmp_path: Path
) -> None:
    plugins = loader.load(sources=loader.built_in())
    async with natted(wireguard, tmp_path, ALLOWED, plugins=plugins) as three:
        hub = await offloaded(three)
        await by_way_of_the_hub(hub)
        await directly_once_they_are_joined(hub)
        await by_way_of_the_hub_while_that_is_down(hub)
        await one_that_is_gone_is_reached_by_no_way(hub)


async def by_way_of_the_hub(hub: Hub) -> None:
    """Both ways round."""
    for here, there in ((hub.rome, hub.milan), (hub.milan, hub.rome)):
        [address] = await found_at(here, 1)
        await answered(here, there, address)


async def directly_once_they_are_joined(hub: Hub) -> None:
    """And the Service asks for it; no packet of these goes through the hub."""
    three = hub.three
    cable(three)
    assert (await three.join(three.rome, three.milan)).without == ""
    ways = (
        (hub.rome, hub.milan, await three.rome.alias(6)),
        (hub.milan, hub.rome, await three.milan.alias(5)),
    )
    for here, _, way in ways:
        assert await found_at(here, 1) != [way]
    await ask_for_direct_ones(three, "true")
    for here, _, way in ways:
        await finds(here, way)
    # Where the hub is cut off from both, nothing can go through it.
    run("ip", "-n", three.hub.node, "link", "set", "wan", "down")
    for here, there, way in ways:
        await answered(here, there, way)
    for here, _, way in ways:
        await finds(here, way)
    run("ip", "-n", three.hub.node, "link", "set", "wan", "up")

    async def stands() -> bool:
        return hub.all_stand()

    await eventually(stands)


async def ask_for_direct_ones(three: Natted, wish: str | None) -> None:
    """Has the Service ask for direct connections, or not."""
    change = {"metadata": {"annotations": {labels.DIRECT_CONNECTIONS: wish}}}
    await three.hub.member.admin.patch(SERVICES, "db", change, "shop")


async def by_way_of_the_hub_while_that_is_down(hub: Hub) -> None:
    """Rome follows the direct way's verdict, and goes back to it."""
    three = hub.three
    direct = await three.rome.alias(6)
    plug(three, "down")
    await answered(hub.rome, hub.milan, await finds_another(hub.rome, direct))
    plug(three, "up")
    await finds(hub.rome, direct)
    await answered(hub.rome, hub.milan, direct)


async def one_that_is_gone_is_reached_by_no_way(hub: Hub) -> None:
    """The pod at milan goes: nothing is left of the way to it through the hub."""
    three = hub.three
    await ask_for_direct_ones(three, None)
    address = await finds_another(hub.rome, await three.rome.alias(6))
    left = members({three.rome.member.id: await hub.to_rome.alias(5)})
    patch = {"endpoints": left["endpoints"]}
    await three.hub.member.admin.patch(ENDPOINT_SLICES, "db-1", patch, "shop")
    assert await found_at(hub.rome, 0) == []
    with echo(three.milan.pod.namespace, PORT):

        async def closed() -> bool:
            return await tries(three.rome.pod.namespace, address) == ""

        await eventually(closed)
    assert len(await found_at(hub.milan, 1)) == 1
