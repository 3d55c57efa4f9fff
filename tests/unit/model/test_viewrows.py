"""The text of the peers' overview for one object."""

from typing import Any

import msgspec
import pytest

from liqod.apimachinery.meta import ObjectMeta
from liqod.model.objects.conditions import Condition
from liqod.model.objects.partial import Node, NodeStatus
from liqod.model.objects.podsight import LivePod
from liqod.model.view.objectfacts import node_problem
from liqod.model.view.rows import Amount
from liqod.model.view.viewrows import CountedPod, counted, quotas, usefulness
from liqod.resources import ResourceSlice, VirtualNode

READY = Condition(type="Ready", status="True")
GONE = Condition(type="Ready", status="False", message="milan does not answer")
NO_ROOM = "it has room for no pods: the slice was granted none"


@pytest.mark.parametrize(
    ("condition", "allocatable", "problem"),
    [
        (READY, {"cpu": "4", "pods": "110"}, ""),
        (READY, {"cpu": "4", "pods": 1}, ""),
        (READY, {"cpu": "4", "pods": "0"}, NO_ROOM),
        (READY, {"cpu": "4"}, NO_ROOM),
        (READY, {"pods": "many"}, NO_ROOM),
        (GONE, {}, "milan does not answer"),
    ],
)
def test_a_virtual_node_without_room_for_pods_is_no_good_one(
    condition: Condition, allocatable: dict[str, int | str], problem: str
) -> None:
    node = Node(ObjectMeta(name="milan"), status=NodeStatus((condition,), (), allocatable))
    assert usefulness(node) == ("milan", problem)


def test_a_part_of_a_peer_without_a_share_for_now_is_no_problem() -> None:
    meta = ObjectMeta(name="milan-0a1b2c3d", labels={"liqod.io/part": "0a1b2c3d"})
    node = Node(meta, status=NodeStatus((READY,), (), {"pods": "0"}))
    assert usefulness(node) == ("milan-0a1b2c3d", "")


def test_one_node_for_a_peer_that_tells_of_no_parts_is_no_problem() -> None:
    said = {"type": "Node", "status": "Running", "reason": "NotTold", "message": "of none"}
    told = {"metadata": {"name": "milan"}, "status": {"conditions": [said]}}
    assert node_problem(msgspec.convert(told, VirtualNode), "") == ""
    said["reason"] = "NameTaken"
    assert node_problem(msgspec.convert(told, VirtualNode), "") == "of none"


def test_what_waits_at_the_peer_is_counted_apart_from_what_is_used() -> None:
    spec = {"clusterID": "milan", "resourceQuota": {"hard": {"cpu": "8", "pods": "20"}}}
    node = msgspec.convert({"metadata": {"name": "m"}, "spec": spec}, VirtualNode)

    def pod(phase: str, reason: str = "") -> CountedPod:
        containers = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
        body = {
            "metadata": {},
            "spec": {"nodeName": "m", "containers": containers},
            "status": {"phase": phase, "reason": reason},
        }
        return counted(msgspec.convert(body, LivePod))

    pods = [pod("Running"), pod("Pending"), pod("Pending", "Unschedulable")]
    found = quotas([], [node], [*pods, pod("Pending", "OverQuota")])
    assert found["milan"]["cpu"] == Amount("8", "6", 0.75, "6")
    assert found["milan"]["pods"] == Amount("20", "2", 0.1, "2")
    assert quotas([], [node], pods[:2])["milan"]["cpu"].waits == ""


def virtual(name: str, hard: dict[str, str]) -> VirtualNode:
    spec = {"clusterID": "milan", "resourceQuota": {"hard": hard}}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, VirtualNode)


def granted(name: str, resources: dict[str, str], **metadata: Any) -> ResourceSlice:
    body = {
        "metadata": {"name": name, **metadata},
        "spec": {"providerClusterID": "milan", "consumerClusterID": "rome"},
        "status": {"resources": resources},
    }
    return msgspec.convert(body, ResourceSlice)


def test_what_is_granted_is_the_slices_however_many_virtual_nodes_show_parts_of_it() -> None:
    parts = [virtual("milan-1", {"cpu": "3"}), virtual("milan-2", {"cpu": "1500m"})]
    slices = [granted("milan", {"cpu": "8", "pods": "20"}), granted("gpu", {"cpu": "2"})]
    marks = {"liqo.io/replicated": "true", "liqo.io/originID": "milan"}
    lent = granted("rome", {"cpu": "64"}, labels=marks)
    found = quotas([*slices, lent], parts, [])
    assert {name: each.granted for name, each in found["milan"].items()} == {
        "cpu": "10",
        "pods": "20",
    }


def test_virtual_nodes_count_for_a_peer_without_a_slice_alone() -> None:
    made = [virtual("a", {"cpu": "3"}), virtual("b", {"cpu": "1"}), virtual("c", {"cpu": "many"})]
    assert quotas([], made, [])["milan"]["cpu"].granted == "4"
    assert quotas([granted("milan", {})], made, [])["milan"] == {}
