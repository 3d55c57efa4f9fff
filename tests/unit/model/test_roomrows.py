"""The rows on room: what providers tell, bounded; why pods wait, by who decided; marks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.inspect.protocol import SERVER_LIMIT
from liqod.model.objects import returnmarks
from liqod.model.objects.podsight import LivePod
from liqod.model.objects.returnmarks import ReturnMark
from liqod.model.peering import freecapacity
from liqod.model.peering.freecapacity import FreeCapacity, FreeNode, NodeGroup
from liqod.model.view import podwaits, roomrows
from liqod.model.view.podwaits import PodWait
from liqod.model.view.roomrows import RoomSums, SeenWord, WaitGroup
from liqod.model.view.rows import NodeRow

GI = 1024**3 * 10**9
MADE = "2027-01-15T07:00:00Z"
LATER = "2027-01-15T07:30:00Z"


def word(*groups: NodeGroup, **more: Any) -> str:
    return msgspec.json.encode(FreeCapacity(groups, **more)).decode()


def node(name: str = "milan", **changes: Any) -> NodeRow:
    values: dict[str, Any] = {
        "name": name, "peer": "milan", "ready": True, "message": "",
        "resources": {"cpu": "4", "memory": "8Gi"}, "pods": 0, "pods_ready": 0, **changes,
    }  # fmt: skip
    return NodeRow(**values)


def test_a_providers_word_is_shown_in_all_and_by_group() -> None:
    free = [{"cpu": cpu * 10**9, "memory": 10 * GI} for cpu in (1, 8, 3)]
    zones = ("a", "b", "b")
    nodes = [FreeNode({"zone": z}, (), each) for z, each in zip(zones, free, strict=True)]
    text = freecapacity.tell(nodes, ["zone"], autoscales=True)
    told = roomrows.told_room(text)
    assert told is not None
    assert (told.free["cpu"], told.largest[0]["cpu"], told.autoscales) == ("12", "8", True)
    assert [(each.nodes, each.labels) for each in told.groups] == [(2, "zone=b"), (1, "zone=a")]
    found = roomrows.rooms([node()], {"milan": {labels.FREE_CAPACITY: text}}, {})["milan"]
    assert (found.told, found.free, found.allocatable["cpu"]) == (True, told.free, "4")
    assert found.older  # nobody has seen it change


@pytest.mark.parametrize("text", ["", "{", word(NodeGroup(1, free={"cpu": "-3"}))])
def test_what_is_not_told_or_cannot_be_believed_has_no_numbers(text: str) -> None:
    found = roomrows.rooms([node()], {"milan": {labels.FREE_CAPACITY: text}}, {})["milan"]
    assert (found.told, found.free, found.largest, found.groups) == (False, {}, (), ())
    assert found.allocatable == {"cpu": "4", "memory": "8Gi"}


def test_a_part_of_which_nothing_is_told_any_more_says_since_when() -> None:
    notes = {labels.FREE_CAPACITY: word(NodeGroup(1)), labels.NOT_TOLD_SINCE: MADE}
    assert roomrows.rooms([node()], {"milan": notes}, {})["milan"].not_told_since == 1_799_996_400
    notes[labels.NOT_TOLD_SINCE] = "yesterday"
    assert roomrows.rooms([node()], {"milan": notes}, {})["milan"].not_told_since


def test_the_worst_words_of_all_peers_are_within_a_message() -> None:
    names = {f"{number}{'n' * 95}": "999999999999n" for number in range(4)}
    marks = {"\U0001f600" * 90: "v"}
    groups = tuple(
        NodeGroup(1, marks, ("\U0001f600" * 90,), {**names, f"{n}": "1"}, (names, names))
        for n in range(8)
    )
    text = word(*groups)
    assert freecapacity.LONGEST * 0.75 < len(text) < freecapacity.LONGEST
    many = [node(f"n{number:04}", message="m" * 9000) for number in range(1000)]
    found = roomrows.rooms(many, {each.name: {labels.FREE_CAPACITY: text} for each in many}, {})
    assert len(found) == roomrows.MOST_NODES
    assert found["n0000"].groups
    assert (found["n0599"].groups, found["n0599"].more) == ((), 8)
    assert len(msgspec.json.encode(found)) < SERVER_LIMIT * 3 / 4


def test_machines_by_themselves_are_bounded_and_the_rest_is_counted() -> None:
    machines = (
        NodeGroup(1, free={"cpu": f"{number}"}, key=f"{number:08x}") for number in range(20)
    )
    told = roomrows.told_room(word(*machines))
    assert told is not None
    assert [each.free["cpu"] for each in told.groups] == [f"{n}" for n in range(19, 11, -1)]
    assert (told.more, told.free["cpu"], told.largest[0]) == (12, "190", {"cpu": "19"})


def test_a_word_keeps_its_time_while_it_is_the_same() -> None:
    first = roomrows.seen_words({}, {"milan": 1, "turin": 5}, 100.0)
    assert first == {"milan": SeenWord(1, 100.0), "turin": SeenWord(5, 100.0)}
    then = roomrows.seen_words(first, {"milan": 1, "turin": 6}, 200.0)
    assert then == {"milan": SeenWord(1, 100.0), "turin": SeenWord(6, 200.0, changed=True)}
    assert roomrows.seen_words(then, {}, 300.0) == {}
    kept = roomrows.seen_words(then, {"turin": 6}, 300.0)
    assert kept["turin"].changed


def pod(
    name: str = "web-1", node: str = "", *, spec: dict[str, Any] | None = None, **status: Any
) -> LivePod:
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    meta = {"name": name, "namespace": "shop", "creationTimestamp": MADE}
    body = {
        "metadata": {**meta, "ownerReferences": [owner]},
        "spec": {"nodeName": node, **(spec or {})},
        "status": {"phase": "Pending", **status},
    }
    return msgspec.convert(body, LivePod)


def said(type_: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    told = {"type": type_, "status": status, "reason": reason, "message": message}
    return {**told, "lastTransitionTime": LATER}


SCHEDULED = said("PodScheduled", "False", "Unschedulable", "0/2 nodes are available")
STAYS = said("liqod.io/Offloaded", "False", "ClaimMissing", "the claim is not there yet")
PULL = {"name": "c", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
MAKING = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
PLACED = said("PodScheduled", "True", "")


@pytest.mark.parametrize(
    ("found", "cause", "message", "step"),
    [
        (pod(conditions=[SCHEDULED]), "Unschedulable", "0/2 nodes are available", ""),
        (
            pod(conditions=[SCHEDULED, STAYS]),
            "ClaimMissing",
            "the claim is not there yet; 0/2 nodes are available",
            "",
        ),
        (
            pod(spec={"schedulingGates": [{"name": "a"}, {"name": "b"}]}, conditions=[SCHEDULED]),
            "SchedulingGated",
            "it has the scheduling gates a, b",
            "",
        ),
        (pod(), "NotSeen", "no scheduler has looked at it yet", ""),
        (
            pod(node="milan", reason="Unschedulable", message="no machine"),
            "Unschedulable",
            "no machine",
            "",
        ),
        (
            pod(
                node="milan",
                reason="Unschedulable",
                message="later words",
                conditions=[said("liqod.io/Returning", "Unknown", "Unschedulable", "no machine")],
            ),
            "Unschedulable",
            "no machine",
            "Unknown",
        ),
        (
            pod(conditions=[said("liqod.io/Returning", "True", "Refused", "no")], node="milan"),
            "Refused",
            "no",
            "True",
        ),
        (
            pod(node="milan", conditions=[PLACED]),
            "NotStarted",
            "the peer has not said anything of it yet",
            "",
        ),
        (
            pod(node="milan", containerStatuses=[PULL]),
            "ImageUnavailable",
            "no such image",
            "",
        ),
    ],
)
def test_the_cause_is_that_of_who_decided(
    found: LivePod, cause: str, message: str, step: str
) -> None:
    told = podwaits.waiting(found)
    assert told is not None
    assert (told.cause, told.message, told.step) == (cause, message, step)
    assert told.owner == "ReplicaSet web"


@pytest.mark.parametrize(
    "found",
    [
        pod(node="milan", conditions=[PLACED], containerStatuses=[MAKING]),
        pod(node="milan", phase="Running", reason="Unschedulable"),
        pod(phase="Succeeded"),
        pod(phase="Failed", node="milan", reason="Evicted"),
    ],
)
def test_a_pod_that_starts_or_has_does_not_wait(found: LivePod) -> None:
    assert podwaits.waiting(found) is None


def test_a_pod_waits_since_that_was_decided_else_since_it_was_made() -> None:
    late, early = podwaits.waiting(pod(conditions=[SCHEDULED])), podwaits.waiting(pod())
    assert late is not None
    assert early is not None
    assert (late.since, early.since) == (1_799_998_200, 1_799_996_400)


def test_ten_thousand_pods_of_a_controller_are_one_row() -> None:
    made = [
        PodWait("shop", f"web-{n}", "ReplicaSet web", "milan", "Unschedulable", "no", "", 9.0 + n)
        for n in range(10_000)
    ]
    rows, sums = podwaits.wait_groups(made, {"milan": "of-milan"})
    assert [*rows] == ["shop/web-0"]
    (only,) = rows.values()
    assert (only.pods, only.peer, only.since) == (10_000, "of-milan", 9.0)
    assert sums == RoomSums(there=10_000, waits=1)


def test_of_very_many_rows_the_largest_are_shown_and_all_are_counted() -> None:
    made = [PodWait("shop", f"own-{n:05}", "", "", "NotSeen", "", "", 0.0) for n in range(10_000)]
    twins = [PodWait("x", f"t-{n}", "Job t", "", "NotSeen", "", "", 5.0) for n in range(2)]
    rows, sums = podwaits.wait_groups([*made, *twins], {})
    assert len(rows) == roomrows.MOST_WAITS
    assert next(iter(rows.values())) == WaitGroup(
        "x", "t-0", "Job t", 2, "", "", "NotSeen", since=5
    )
    assert sums == RoomSums(here=10_002, waits=10_001)
    marks = [("shop", mark(f"{n:05}")) for n in range(300)]
    avoided, count = podwaits.mark_rows(marks)
    assert (len(avoided), count) == (roomrows.MOST_MARKS, 300)


def mark(owner: str, **changes: Any) -> ReturnMark:
    values: dict[str, Any] = {
        "owner": owner, "kind": "ReplicaSet", "name": "web", "cluster": "milan",
        "cause": "Unschedulable", "message": "no machine", "since": MADE, "until": LATER,
        "times": 3, "asked": {"cpu": "4", "pods": "1"}, **changes,
    }  # fmt: skip
    return ReturnMark(**values)


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A time zone in which the last day there is begins before it does in UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_a_mark_of_the_last_day_there_is_ends_no_view() -> None:
    late = {"since": "9999-12-31T23:59:59", "until": "9999-12-31T23:59:59"}
    notes = {labels.RETURNED: returnmarks.render([mark("u", **late)]) or ""}
    (kept,) = returnmarks.in_force(returnmarks.read(notes), LATER)
    assert len(podwaits.mark_rows([("shop", kept)])[0]) == 1


def test_a_mark_is_bounded_whoever_wrote_it() -> None:
    long = mark("o" * 9000, name="n" * 9000, message="m" * 9000, cause="c" * 9000)
    rows, _ = podwaits.mark_rows([("shop", long)])
    assert len(msgspec.json.encode(rows)) < 2000
    (row,) = podwaits.mark_rows([("shop", mark("u"))])[0].values()
    assert (row.times, row.until - row.since, row.asked["cpu"]) == (3, 1800.0, "4")
