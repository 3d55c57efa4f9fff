"""The text of the peers' overview for one object."""

import pytest

from liqod.apimachinery.meta import ObjectMeta
from liqod.model.objects.conditions import Condition
from liqod.model.objects.partial import Node, NodeStatus
from liqod.model.view.viewrows import usefulness

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
