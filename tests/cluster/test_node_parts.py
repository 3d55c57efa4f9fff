"""A virtual node for each machine of a provider, by the stock schedulers of both clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.testbed import evidence
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.errors import Unavailable
from tests.testbed.federation import Federation, Member
from tests.testbed.fixtures import give_up, start_all
from tests.testbed.workloads import CONTAINER, core, deployment, deployments, group, pod

pytestmark = [pytest.mark.cluster, pytest.mark.placement]

NODES = "/api/v1/nodes"
SLICE = group("authentication.liqo.io/v1beta1", "liqo-tenant-milan", "resourceslices", "milan")
ROOM = 8
"""CPUs of each machine."""


@pytest.fixture
def pair() -> Iterator[tuple[Member, Member]]:
    """Rome borrows from milan, which has three machines and tells what is free on each."""
    try:
        planes = [
            ControlPlane(name, Settings(pod_cidr=f"10.{211 + index}.0.0/16"))
            for index, name in enumerate(("rome", "milan"))
        ]
    except Unavailable as reason:
        give_up(reason)
    federation = Federation()
    try:
        start_all(planes)
        rome = federation.join(planes[0], {})
        tells = {"provider": {"show_free": True, "show_labels": ["pool"]}}
        milan = federation.join(planes[1], tells, nodes=3, pods=ROOM)
        for number, name in enumerate(("red", "red", "blue")):
            milan.patch(f"{NODES}/milan-{number}", {"metadata": {"labels": {"pool": name}}})
        federation.peer(rome, milan, cpu="24", memory="24Gi", pods="24")
        yield rome, milan
    finally:
        federation.close()
        for plane in planes:
            evidence.remove(plane.name, plane.logs)
            plane.destroy()


def sized(cpu: str) -> dict[str, Any]:
    return {**CONTAINER, "resources": {"requests": {"cpu": cpu}}}


def allocatable(rome: Member) -> dict[str, str]:
    """The CPUs of each virtual node, by its name."""
    found = rome.api.get(f"{NODES}?labelSelector=liqo.io/type=virtual-node")["items"]
    return {each["metadata"]["name"]: each["status"]["allocatable"]["cpu"] for each in found}


def test_no_pod_is_sent_that_no_machine_has_room_for(pair: tuple[Member, Member]) -> None:
    rome, milan = pair
    milan.create(core("default", "pods"), pod("own", nodeName="milan-0", containers=[sized("5")]))
    rome.patch(SLICE, {"metadata": {"annotations": {"liqod.io/virtual-nodes": "nodes"}}})
    wait_until(
        "a virtual node for each machine",
        lambda: sorted(allocatable(rome).values()) == ["3", "8", "8"],
        60,
    )
    assert not {f"milan-{number}" for number in range(3)} & allocatable(rome).keys()
    rome.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    rome.liqod("offload", "namespace", "shop", "--pod-offloading-strategy", "Remote")
    wanted = deployment("web", 6)
    wanted["spec"]["template"]["spec"]["containers"] = [sized("4")]
    rome.create(deployments("shop"), wanted)
    wait_until("the pods that fit", lambda: len(rome.ready_pods("shop")) == 4, 60)
    bound = [each["spec"].get("nodeName") for each in rome.pods("shop").values()]
    assert sorted(bound.count(name) for name in set(filter(None, bound))) == [2, 2]
    there = [each["spec"]["nodeName"] for each in milan.pods("shop-rome").values()]
    assert sorted(there) == ["milan-1", "milan-1", "milan-2", "milan-2"]

    rome.patch(SLICE, {"metadata": {"annotations": {"liqod.io/virtual-nodes": "whole"}}})
    wait_until("one node", lambda: list(allocatable(rome)) == ["milan"], 120)
    wait_until("the pods again", lambda: len(rome.ready_pods("shop")) == 4, 60)
