"""A hub and two leaves with real kubelets, all with the same ranges of both families."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import permutations

import pytest

from tests.node.peered.second import Flow, aliased
from tests.testbed import image
from tests.testbed.api import wait_until
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up
from tests.testbed.joined import Joined
from tests.testbed.node import node_pod
from tests.testbed.workloads import core

pytestmark = pytest.mark.node

HUB, LEAVES = "turin", ("rome", "milan")
PAIRS = [pair for leaf in LEAVES for pair in permutations((HUB, leaf))]


@pytest.fixture(scope="module")
def clusters() -> Iterator[Joined]:
    """All three, each leaf peered with the hub."""
    try:
        made = Joined(HUB, *LEAVES)
    except Unavailable as reason:
        give_up(reason)
    made.start()
    try:
        for leaf in LEAVES:
            made.peer(made.members[leaf], made.members[HUB])
        yield made
    finally:
        made.destroy()


@pytest.fixture(scope="module")
def pods(clusters: Joined) -> dict[str, str]:
    """A pod in each: the addresses in their own clusters."""
    found = {}
    for name, member in clusters.members.items():
        member.create(core("default", "pods"), node_pod("echo"))
        wait_until(name, lambda member=member: "echo" in member.ready_pods("default"), 60)
        found[name] = str(member.pods("default")["echo"]["status"]["podIP"])
    return found


def test_pods_of_the_hub_and_of_each_leaf_reach_each_other_at_once(
    clusters: Joined, pods: dict[str, str]
) -> None:
    """Four flows of twenty packets a second; one leaf's daemon is killed and begun again."""
    assert len(set(pods.values())) == 1, "they are to have the same addresses"
    flows = {
        (here, there): Flow(clusters.members[here], "echo", aliased(clusters, here, there, pods))
        for here, there in PAIRS
    }
    for flow in flows.values():
        flow.start()
    clusters.members["rome"].crash()
    clusters.members["rome"].daemon.start()
    for pair, flow in flows.items():
        found = flow.end()
        print(f"{pair[0]} to {pair[1]}: {found}")
        assert found.sent > 20, found
        assert found.lost == 0, found


def test_no_leaf_knows_of_another(clusters: Joined, pods: dict[str, str]) -> None:
    """Nor does what the hub calls the other one's pods lead there, unless it names the hub's."""
    tried = 0
    for here, there in permutations(LEAVES):
        assert there not in clusters.members[here].liqod("network", "status").stdout
        address = aliased(clusters, HUB, there, pods)
        if address != aliased(clusters, here, HUB, pods):
            ping = ("exec", "echo", "--", "busybox", "ping", "-c", "2", "-W", "1", address)
            said = clusters.members[here].plane.kubectl(*ping, check=False)
            assert " 100% packet loss" in said, said
            tried += 1
    assert tried


@pytest.mark.parametrize("leaf", LEAVES)
def test_everything_reaches_everything(clusters: Joined, leaf: str) -> None:
    words = ("test", "network", "--image", image.NAME, "--outside", "", "-o", "json")
    rows = json.loads(clusters.members[leaf].liqod(*words, timeout=300).stdout)
    verdicts = {f"{row['source']} → {row['target']}": row["verdict"] for row in rows}
    assert set(verdicts.values()) == {"ok", "skipped"}, verdicts
    kinds = " ".join(verdicts)
    for each in (f"pod {leaf}/{leaf} → pod {HUB}", f"pod {HUB} → pods {leaf}"):
        assert each in kinds, kinds
