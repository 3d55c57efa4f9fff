"""Two daemons that meet by a narrow proxy, at once, and while one is killed: real control planes.

As in :mod:`.test_meeting`, nobody reaches milan's API server where it says that it is.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.test_meeting import (
    TENANT,
    apart,
    nothing_is_left,
    runs_a_pod,
    said,
    with_settings,
)
from tests.testbed.api import wait_until
from tests.testbed.clusters import FOREIGN_CLUSTERS, Clusters
from tests.testbed.federation import Member
from tests.testbed.narrowproxy import NarrowProxy
from tests.testbed.processes import free_ports

pytestmark = [pytest.mark.cluster, pytest.mark.handshake]

__all__ = ["apart"]


@pytest.fixture
def proxy(clusters: Clusters) -> Iterator[NarrowProxy]:
    """The only way from rome to milan, whose name nobody but this knows."""
    port, dead = free_ports(2)
    nowhere = {"advertise": f"https://127.0.0.1:{dead}"}
    met_at = {"host": "127.0.0.1", "port": port, "advertise": ["milan.example:443"]}
    made = NarrowProxy(clusters.rome.folder, milan=port)
    try:
        with (
            with_settings(clusters.rome, {"handshake": {"proxy": made.url}}),
            with_settings(clusters.milan, {"api_server": nowhere, "handshake": met_at}),
        ):
            yield made
    finally:
        made.close()


def invited(host: Member) -> str:
    """An invitation of a cluster's, as a line of standard input."""
    return host.liqod("invite", "--cpu", "2", "--memory", "4Gi", "--pods", "9").stdout


def test_a_proxy_that_lets_port_443_pass_and_nothing_else_is_way_enough(
    clusters: Clusters, proxy: NarrowProxy
) -> None:
    rome, milan = clusters.rome, clusters.milan
    done = rome.liqod("peer", "-", given=invited(milan))
    assert done.stdout == "peered: milan is the node milan here\n"
    assert rome.node_is_ready("milan")
    assert milan.api.get(TENANT)["spec"]["proxyURL"].endswith("@milan.example:443")
    runs_a_pod(clusters)
    nothing_is_left(clusters)
    assert proxy.requests() == {"CONNECT milan.example:443"}


def test_both_invite_and_ask_each_other_at_once(apart: Clusters) -> None:
    rome, milan = apart.rome, apart.milan
    lines = {rome: invited(milan), milan: invited(rome)}
    with ThreadPoolExecutor(2) as pool:
        asking = {
            member: pool.submit(member.liqod, "peer", "-", given=line)
            for member, line in lines.items()
        }
        for member, other in ((rome, milan), (milan, rome)):
            told = f"peered: {other.name} is the node {other.name} here\n"
            assert asking[member].result().stdout == told
            assert member.node_is_ready(other.name)
    for member, other in ((rome, milan), (milan, rome)):
        seen = f"{FOREIGN_CLUSTERS}/{other.name}"
        member.comes_to(seen, lambda found: found["status"]["role"] == "ConsumerAndProvider")
    runs_a_pod(apart)
    nothing_is_left(apart)


def test_the_accepting_daemon_is_killed_and_begun_anew_meanwhile(apart: Clusters) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    rome, milan = apart.rome, apart.milan
    line = invited(milan)
    with ThreadPoolExecutor(1) as pool:
        peering = pool.submit(rome.liqod, "peer", "-", given=line)
        for _ in range(2):
            # A command takes 0.5 s to begin, and a peering as long.
            time.sleep(chance.uniform(0.4, 1.5))
            milan.crash()
            milan.daemon.start(60)
        assert peering.result().stdout == "peered: milan is the node milan here\n", f"seed {seed}"
    wait_until(f"the node (seed {seed})", lambda: rome.node_is_ready("milan"), 40)
    [entry] = said(milan, "inbox")
    done = f"/apis/peering.liqod.io/v1alpha1/namespaces/liqo/incomingpeerings/{entry['name']}"
    milan.comes_to(done, lambda found: found["status"]["phase"] == "Done")
    nothing_is_left(apart)
