"""Unpeering leaves nothing on any node, nor in the API servers, whatever went before."""

from __future__ import annotations

import pytest

from liqod.network.failover.fence import Fence
from tests.node.peered.second import INTERNAL
from tests.node.shop import Shop
from tests.testbed import inventory
from tests.testbed.api import wait_until
from tests.testbed.inventory import Item
from tests.testbed.joined import Joined, traces

pytestmark = pytest.mark.node

LEFT_DEADLINE = 60.0
OF_CANDIDATES = {Item("secrets", "liqo", "liqod-gateway")}
"""Objects that nodes with one gateway among them have in common, with any peer or none."""


def test_unpeering_leaves_nothing(clusters: Joined, shop: Shop) -> None:
    rome, milan = shop.rome, shop.milan
    shop.close()
    for cluster, member in clusters.members.items():
        for pod in member.pods("default"):
            member.plane.kubectl("delete", "pod", pod, "--grace-period", "0", "--force")
        clusters.before[cluster] |= {
            each for each in member.inventory() if each.name == f"{cluster}-2"
        } - {Item("internalnodes.networking.liqo.io", "", f"{cluster}-2")}
    rome.liqod("unpeer", "milan", "--yes")
    milan.liqod("unpeer", "rome", "--yes")
    milan.liqod("delete", "peering-user", "--consumer-cluster-id", "rome", "--yes")

    for name, member in clusters.members.items():
        wait_until(
            f"nothing left at {name}: {left(clusters, name)}",
            lambda name=name: not left(clusters, name),
            30,
        )
        had = {each for each in OF_CANDIDATES & member.inventory() if name in clusters.workers}
        inventory.wait_for(member.api, clusters.before[name] | had, LEFT_DEADLINE)
        assert not member.names(INTERNAL)


def left(clusters: Joined, name: str) -> list[str]:
    """Traces on a cluster's nodes, but for the fence of candidates, which is no peer's."""
    fence = f"table {Fence(name).table}"
    return [each for each in traces(clusters, name) if each != fence]
