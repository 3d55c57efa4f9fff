"""The replicas of a workload, by the cluster in which they are."""

from typing import Any

import pytest

from liqod.model.objects.replicagroups import ReplicaGroup, Replicas, replicas

Json = dict[str, Any]
PEERS = {"milan-1": "milan", "milan-2": "milan", "own": ""}
FULL = "0/3 nodes are available: 3 Insufficient cpu."


def owned(name: str, uid: str, owner: str, **more: Any) -> Json:
    owners = [{"kind": "any", "name": "any", "uid": owner, "controller": True}]
    return {"metadata": {"name": name, "uid": uid, "ownerReferences": owners}, **more}


def pod(name: str, owner: str, node: str = "", *, ready: bool = False, **status: Any) -> Json:
    if ready:
        status |= {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return owned(name, name, owner, spec={"nodeName": node} if node else {}, status=status)


def unplaced(name: str, owner: str) -> Json:
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": FULL}
    return pod(name, owner, phase="Pending", conditions=[why])


def workload(kind: str, status: Json | None = None, **spec: Any) -> Json:
    meta = {"name": "web", "namespace": "shop", "uid": "w"}
    return {"kind": kind, "metadata": meta, "spec": spec, "status": status or {}}


def test_the_pods_of_all_replica_sets_of_a_deployment_are_its_replicas() -> None:
    sets = [owned("web-1", "s1", "w"), owned("web-2", "s2", "w"), owned("db-1", "s3", "d")]
    pods = [
        pod("a", "s1", "own", ready=True),
        pod("b", "s2", "milan-1", ready=True),
        pod("c", "s2", "milan-2", ready=True),
        pod("d", "s2", "milan-2", phase="Pending", reason="Unschedulable", message="no room"),
        unplaced("e", "s2"),
        unplaced("f", "s2"),
        pod("other", "s3", "own", ready=True),
        pod("over", "s2", "own", phase="Failed"),
    ]
    leaving = pod("goes", "s2", "own", ready=True)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = replicas(workload("Deployment", replicas=6), sets, [*pods, leaving], PEERS)
    assert found == Replicas(
        6,
        (
            ReplicaGroup(True, "", 1, True, "", "a"),
            ReplicaGroup(True, "milan", 2, True, "", "b"),
            ReplicaGroup(True, "milan", 1, False, "no room", "d"),
            ReplicaGroup(False, "", 2, False, FULL, "e"),
        ),
        ended=1,
        unmade=0,
    )
    assert found.ready == 3


def test_what_its_controller_cannot_make_is_told_with_the_reason() -> None:
    said = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: small"}
    body = workload("ReplicaSet", {"conditions": [said]}, replicas=3)
    found = replicas(body, [], [pod("a", "w", "own", ready=True)], PEERS)
    assert (found.unmade, found.unmade_why) == (2, "exceeded quota: small")
    body["spec"]["replicas"] = 1
    assert replicas(body, [], [pod("a", "w", "own")], PEERS).unmade_why == ""


@pytest.mark.parametrize(
    ("spec", "done", "wanted"),
    [
        ({}, 0, 1),
        ({}, 1, 0),
        ({"parallelism": 3}, 0, 3),
        ({"parallelism": 3, "completions": 5}, 0, 3),
        ({"parallelism": 3, "completions": 5}, 4, 1),
        ({"parallelism": 3, "completions": 5}, 5, 0),
        ({"parallelism": 3, "completions": 5, "suspend": True}, 0, 0),
    ],
)
def test_a_job_wants_what_is_left_of_it_at_once(spec: Json, done: int, wanted: int) -> None:
    body = workload("Job", {"succeeded": done} if done else None, **spec)
    assert replicas(body, [], [], PEERS).wanted == wanted
