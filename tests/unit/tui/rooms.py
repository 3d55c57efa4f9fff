"""Two peers with room, one of them in groups, pods that wait here and there, and one mark."""

from __future__ import annotations

from typing import Any

from liqod.model.view.roomrows import FreeGroup, MarkRow, NodeRoom, RoomSums, WaitGroup
from liqod.model.view.state import LiveState
from tests.unit.model.states import NOW, peer, state

GROUPS = (
    FreeGroup(3, "zone=a", "", {"cpu": "9"}, ({"cpu": "3", "memory": "8Gi"},)),
    FreeGroup(1, "zone=b", "gpu=yes:NoSchedule", {"cpu": "1"}, ({"cpu": "1", "memory": "1Gi"},)),
)
MILAN = NodeRoom(
    peer="milan",
    allocatable={"cpu": "8", "memory": "16Gi"},
    told=True,
    free={"cpu": "10", "memory": "42000000Ki"},
    largest=({"cpu": "3", "memory": "8Gi"},),
    groups=GROUPS,
    at=NOW - 300,
)
TURIN = NodeRoom(peer="turin", allocatable={"cpu": "4", "memory": "8Gi"})
HERE = WaitGroup(
    "shop", "big-0", "StatefulSet big", 2, "", "", "Unschedulable", "no node has cpu 40",
    since=NOW - 90,
)  # fmt: skip
THERE = WaitGroup(
    "shop", "web-1", "ReplicaSet web", 12, "milan", "milan", "ImageUnavailable", "no such image",
    "Unknown", NOW - 30,
)  # fmt: skip
MARK = MarkRow(
    "shop", "ReplicaSet web", "milan", "Unschedulable", "no machine", NOW - 60, NOW + 540, 2,
    {"cpu": "4", "pods": "1"},
)  # fmt: skip


def scene(*, milan: dict[str, Any] | None = None, **changes: Any) -> LiveState:
    """All of them, and the daemon that tells of them.

    Args:
        milan: what is different of the peer milan.
    """
    values: dict[str, Any] = {
        "rooms": {"": NodeRoom(allocatable={"cpu": "16"}), "milan": MILAN, "turin": TURIN},
        "waits": {"shop/big-0": HERE, "shop/web-1": THERE},
        "avoided": {"shop/u/milan": MARK},
        "room": RoomSums(nodes=2, here=2, there=12, waits=2, marks=1),
        **changes,
    }
    peers = peer("milan", **{"daemon": "up", **(milan or {})}), peer("turin", daemon="up")
    return state(*peers, **values)
