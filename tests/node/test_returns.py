"""Pods that a peer cannot start return, with a real kubelet and a real scheduler there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.node.test_ends import (
    THERE,
    borrowing,
    condition,
    of,
    real,
    schedulable,
)
from tests.testbed.api import wait_until
from tests.testbed.federation import Member
from tests.testbed.node import NodeCluster
from tests.testbed.workloads import deployment, deployments, group

pytestmark = [pytest.mark.node, pytest.mark.pods]

QUICK = {"return_unschedulable": 5.0, "return_image": 5.0, "return_back_off": 600.0}
SHADOWS = "shadowpods"


@pytest.fixture(scope="module")
def pair(real_node_cluster: NodeCluster) -> Iterator[tuple[Member, Member]]:
    """A borrower whose pods return soon, and a lender with one real node."""
    with borrowing(real_node_cluster, consumer=QUICK) as made:
        yield made


def unpullable(name: str) -> dict[str, Any]:
    """A Deployment whose image is nowhere."""
    made = deployment(name, 1)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container |= {"image": "registry.invalid/nothing:1", "imagePullPolicy": "Always"}
    return made


def returns(pair: tuple[Member, Member], made: dict[str, Any], cause: str) -> None:
    """The pod of a Deployment returns, and the next one of it waits here."""
    context, naples = pair
    name = made["metadata"]["name"]
    context.create(deployments("shop"), made)
    wait_until("the pod at naples", lambda: of(naples, THERE, name), 40)
    (first,) = of(naples, THERE, name)

    def replaced() -> bool:
        pods = of(context, "shop", name)
        return len(pods) == 1 and first not in pods

    wait_until("another pod in its place", replaced, 90)
    assert first not in naples.pods(THERE)
    shadows = naples.api.get(group("offloading.liqo.io/v1beta1", THERE, SHADOWS))["items"]
    assert first not in {each["metadata"]["name"] for each in shadows}
    ((_, second),) = of(context, "shop", name).items()
    assert not second["spec"].get("nodeName")

    def told() -> bool:
        ((_, pod),) = of(context, "shop", name).items()
        return condition(pod, "liqod.io/Offloaded").get("reason") == "Returned"

    wait_until("the reason that it waits", told, 20)
    said = context.liqod("status").stdout
    assert f"naples could not start a pod of ReplicaSet {name}-" in said
    assert f"({cause})" in said
    context.api.call("DELETE", deployments("shop", name) + "?propagationPolicy=Background")
    wait_until("its end", lambda: not of(context, "shop", name), 40)


def test_whose_image_cannot_be_pulled_there(pair: tuple[Member, Member]) -> None:
    returns(pair, unpullable("pulling"), "ImageUnavailable")


def test_who_finds_no_node_there(pair: tuple[Member, Member]) -> None:
    naples = pair[1]
    schedulable(naples, real(naples), there=False)
    try:
        returns(pair, deployment("placing", 1), "Unschedulable")
    finally:
        schedulable(naples, real(naples), there=True)
