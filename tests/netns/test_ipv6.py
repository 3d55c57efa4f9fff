"""Gateways that reach each other by IPv6 alone, and clusters that have nothing else."""

from __future__ import annotations

import ipaddress
import time
from pathlib import Path
from typing import Any

import pytest

from liqod.model import ids
from liqod.resources import CONFIGURATIONS, Configuration
from tests.netns.flows import flowing
from tests.netns.lab import run
from tests.netns.test_joined_clusters import Site, part, two
from tests.netns.test_nat import BY_ITSELF
from tests.simulated.network.test_networking import join

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

NODES = "fd00:51::%d"


def without_ipv4(*sites: Site) -> None:
    """Asserts that no site has IPv4: with another path the test would show nothing."""
    for site in sites:
        found = run("ip", "-4", "-n", site.node, "-o", "addr", "show", "dev", "wan")
        assert not found, found


@pytest.mark.parametrize(
    ("server_at", "backend"), [("Provider", "wireguard"), ("Consumer", "websocket")]
)
async def test_gateways_that_reach_each_other_by_ipv6_alone(
    wireguard: str, tmp_path: Path, server_at: str, backend: str
):
    """The pods have IPv4, and the server is known by its only address; the client's changes."""
    async with two(wireguard, tmp_path, address=NODES) as (rome, milan):
        without_ipv4(rome, milan)
        asked: dict[str, Any] = {"server_at": server_at, "backend": backend}
        assert (await join(rome.member, milan.member, **asked)).without == ""
        assert await rome.reaches(6) == 3
        assert await milan.reaches(5) == 3
        assert ipaddress.ip_address(rome.pod.address).version == 4
        if server_at == "Consumer":
            return
        async with flowing(rome.pod, await rome.alias(6)) as flow:
            moved = time.monotonic()
            run(*f"ip -n {rome.node} addr delete {NODES % 1}/64 dev wan".split())
            run(*f"ip -n {rome.node} addr add {NODES % 3}/64 dev wan nodad".split())
            run(*f"ip -n {rome.node} route replace default via {NODES % 2}".split())
            gap = await flow.gets_well(moved)
            print(f"the client has another address of IPv6: {gap * 1000:.0f} ms")
            assert gap < BY_ITSELF


async def test_clusters_of_ipv6_alone(wireguard: str, tmp_path: Path):
    """The same addresses on both sides, tunnels between addresses of IPv6, and nothing left."""
    async with two(wireguard, tmp_path, address=NODES, pod_cidr="fd00:10:244::/64") as (
        rome,
        milan,
    ):
        without_ipv4(rome, milan)
        assert (await join(rome.member, milan.member)).without == ""
        for site, last in ((rome, 6), (milan, 5)):
            assert await site.reaches(last) == 3
            place = ids.tenant_namespace(site.names.peer_id)
            found = await site.member.admin.get(
                CONFIGURATIONS, site.names.peer_id, place, decode=Configuration
            )
            assert found.status.remote is not None
            seen = found.status.remote.cidr
            assert seen.pod
            assert seen.external
            assert all(":" in each for each in (*seen.pod, *seen.external)), seen
        await part(rome, milan)
