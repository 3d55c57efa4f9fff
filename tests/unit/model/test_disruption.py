"""Pods that may leave now: in steps, so that only a part of a controller's is missing at a time."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.objects.disruption import PART, SETTLED, EvictablePod, Size, drain_step

GONE, OTHER = "milan", "rome-node"


def pod(
    name: str, node: str = GONE, *, controller: str = "rs", kind: str = "ReplicaSet", **more: Any
):
    ready = more.pop("ready", True)
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    if more.pop("unschedulable", False):
        conditions.append({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"})
    owner = {"kind": kind, "name": controller, "uid": controller, "controller": True}
    metadata = {"name": name, "namespace": "shop", "ownerReferences": [owner] if controller else []}
    if more.pop("ending", False):
        metadata["deletionTimestamp"] = "2026-11-21T03:00:00Z"
    value = {
        "metadata": metadata,
        "spec": {"nodeName": node},
        "status": {"phase": more.pop("phase", "Running"), "conditions": conditions},
    }
    assert not more
    return msgspec.convert(value, EvictablePod)


def names(pods: list[EvictablePod]) -> list[str]:
    return [each.metadata.name for each in pods]


def test_one_of_a_few_goes_and_the_others_wait_for_its_replacement():
    here = [pod("a"), pod("b"), pod("c")]
    first = drain_step(here, {GONE}, {}, 0.0)
    assert (names(first.go), names(first.held)) == (["a"], ["b", "c"])
    # Its controller has not made another yet, then it has, then that one is ready.
    second = drain_step(here[1:], {GONE}, first.sizes, 1.0)
    assert (names(second.go), names(second.held)) == ([], ["b", "c"])
    starting = drain_step([*here[1:], pod("d", OTHER, ready=False)], {GONE}, second.sizes, 2.0)
    assert names(starting.go) == []
    ready = drain_step([*here[1:], pod("d", OTHER)], {GONE}, starting.sizes, 3.0)
    assert (names(ready.go), names(ready.held)) == (["b"], ["c"])


def test_one_that_has_gone_is_missing_until_it_is_replaced_or_not_wanted_any_more():
    here = [pod("a"), pod("b"), pod("c")]
    sizes = drain_step(here, {GONE}, {}, 0.0).sizes
    for now in (1.0, 2.0, SETTLED - 1):
        found = drain_step(here[1:], {GONE}, sizes, now)
        assert names(found.go) == []
        sizes = found.sizes
    scaled = drain_step(here[1:], {GONE}, sizes, SETTLED)
    assert names(scaled.go) == ["b"]


def test_a_pod_of_a_stateful_set_that_ends_is_missing_for_as_long_as_that_takes():
    web = {"controller": "sts", "kind": "StatefulSet"}
    here = [pod("web-0", **web), pod("web-1", **web), pod("web-2", ending=True, **web)]
    sizes = {"sts": Size(3, 0.0)}
    for now in (1.0, SETTLED + 1, 3 * SETTLED):
        found = drain_step(here, {GONE}, sizes, now)
        assert (names(found.go), names(found.held)) == ([], ["web-0", "web-1"])
        sizes = dict(found.sizes)
    gone = drain_step(here[:2], {GONE}, sizes, 3 * SETTLED + 1)
    assert names(gone.go) == []


def test_a_quarter_of_many_goes_at_once():
    many = [pod(str(number)) for number in range(100)]
    assert len(drain_step(many, {GONE}, {}, 0.0).go) == 100 // PART


def test_a_replacement_without_a_node_is_not_waited_for():
    waiting = [pod("d", "", ready=False, unschedulable=True)]
    assert names(
        drain_step([pod("b"), pod("c"), *waiting], {GONE}, {"rs": Size(3, 0.0)}, 1.0).go
    ) == ["b"]


def test_one_that_does_not_serve_goes_and_one_that_nobody_makes_again_too():
    found = drain_step([pod("a", ready=False), pod("b"), pod("c", controller="")], {GONE}, {}, 0.0)
    assert sorted(names(found.go)) == ["a", "b", "c"]


def test_what_stays_stays():
    staying = [
        pod("daemon", kind="DaemonSet"),
        pod("done", phase="Succeeded"),
        pod("ending", ending=True),
        pod("elsewhere", OTHER),
    ]
    assert drain_step(staying, {GONE}, {}, 0.0)[:2] == ([], [])


def test_controllers_do_not_wait_for_each_other():
    found = drain_step([pod("a"), pod("b", controller="other")], {GONE}, {}, 0.0)
    assert names(found.go) == ["a", "b"]


@given(st.lists(st.tuples(st.sampled_from((GONE, OTHER)), st.booleans()), max_size=40))
def test_no_more_than_a_part_is_ever_missing(group: list[tuple[str, bool]]):
    pods = [pod(str(number), node, ready=ready) for number, (node, ready) in enumerate(group)]
    found = drain_step(pods, {GONE}, {}, 0.0)
    serving = [each for each in pods if each.ready]
    lost = [each for each in found.go if each.ready]
    missing = sum(not each.ready for each in pods if each.spec.node_name == OTHER)
    assert len(lost) + missing <= max(1, len(pods) // PART, missing)
    assert set(names(found.go)) | set(names(found.held)) == {
        each.metadata.name for each in pods if each.spec.node_name == GONE
    }
    assert len(serving) >= len(lost)
