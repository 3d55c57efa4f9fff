"""Repair of damage under traffic, and the time it takes: real packets and kernels.

Each harm is done to rome's gateway while echo requests go from a pod of milan's to one of rome's, a
hundred a second; the gap is the longest time without an answer.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from liqod.network.dataplane import names
from liqod.network.dataplane.names import INSIDE
from liqod.plugins.network import uapi
from tests.netns.flows import flowing
from tests.netns.lab import run
from tests.netns.test_joined_clusters import Site, two
from tests.simulated.network.test_networking import join

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

HEALS: Final = 30.0
"""Seconds, of a busy machine, in which something is put back; nothing else would do it ever."""
STARTS: Final = 60.0
"""Likewise with a daemon's start after a reboot."""
NONE: Final = 0.0
"""Not a packet is lost."""
Harm = Callable[[Site], Awaitable[None]]


async def nothing(site: Site) -> None:
    """So that it is known what a machine that is busy loses by itself."""


async def kill_the_daemon(site: Site) -> None:
    await site.member.stop()
    await site.member.start()


async def kill_the_tunnel(site: Site) -> None:
    process = await uapi.process(uapi.path(site.names.tunnel))
    assert process is not None
    os.kill(process, signal.SIGKILL)


async def flush_all_rules_of_the_node(site: Site) -> None:
    run("nft", "flush", "ruleset", namespace=site.node)


async def flush_all_rules_inside(site: Site) -> None:
    run("nft", "flush", "ruleset", namespace=site.names.namespace)


async def delete_routes(site: Site) -> None:
    run(*f"ip -n {site.node} route flush table {names.ALIASES_TABLE}".split())


async def delete_rules(site: Site) -> None:
    run(*f"ip -n {site.node} rule delete priority {names.ALIASES_PRIORITY}".split())


async def delete_routes_inside(site: Site) -> None:
    for table in (names.INWARD_TABLE, names.OUTWARD_TABLE):
        run(*f"ip -n {site.names.namespace} route flush table {table}".split())


async def delete_the_pair(site: Site) -> None:
    run("ip", "-n", site.node, "link", "delete", site.names.veth)


async def take_down_a_link(site: Site) -> None:
    run("ip", "-n", site.names.namespace, "link", "set", INSIDE, "down")


async def delete_the_tunnel(site: Site) -> None:
    run("ip", "-n", site.names.namespace, "link", "delete", site.names.tunnel)


async def reboot(site: Site) -> None:
    """All that is in kernels and processes is gone; the pod's own network is as it was."""
    await site.member.stop()
    await kill_the_tunnel(site)
    run("ip", "netns", "delete", site.names.namespace)
    await flush_all_rules_of_the_node(site)
    await delete_routes(site)
    for priority in (names.ALIASES_PRIORITY, names.PODS_PRIORITY):
        run(*f"ip -n {site.node} rule delete priority {priority}".split(), check=False)
    run("ip", "-n", site.node, "link", "delete", site.names.veth, check=False)
    await site.member.start()


HARMS: Final[tuple[tuple[str, Harm, float], ...]] = (
    ("nothing at all", nothing, NONE),
    ("the daemon killed and started again", kill_the_daemon, NONE),
    ("the tunnel's process killed", kill_the_tunnel, HEALS),
    ("the tunnel's interface deleted", delete_the_tunnel, HEALS),
    ("nftables flushed on the node", flush_all_rules_of_the_node, HEALS),
    ("nftables flushed in the peer's namespace", flush_all_rules_inside, HEALS),
    ("the peer's routes deleted on the node", delete_routes, HEALS),
    ("a routing rule deleted", delete_rules, HEALS),
    ("routes deleted in the peer's namespace", delete_routes_inside, HEALS),
    ("the pair of interfaces deleted", delete_the_pair, HEALS),
    ("an interface taken down", take_down_a_link, HEALS),
    ("the node rebooted, but for its pods", reboot, STARTS),
)


async def test_what_is_harmed_under_traffic_is_put_back(wireguard: str, tmp_path: Path):
    async with two(wireguard, tmp_path) as (rome, milan):
        assert (await join(rome.member, milan.member)).without == ""
        alias = await milan.alias(5)
        took: dict[str, float] = {}
        async with flowing(milan.pod, alias) as flow:
            for what, harm, bound in HARMS:
                began = time.monotonic()
                await harm(rome)
                took[what] = await flow.gets_well(began, 90.0)
                print(f"{what}: {took[what] * 1000:.0f} ms")
                if bound == NONE:
                    await flow.loses_none(began)
        for what, _, bound in HARMS:
            assert bound == NONE or took[what] < bound, what
