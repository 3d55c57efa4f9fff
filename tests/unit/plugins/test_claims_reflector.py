"""The reflector of claims, by the contract suite and by values."""

from typing import Any

import msgspec

from liqod.plugins.contracts import CLAIMS, Refusal, VirtualNode
from liqod.plugins.reflectors import claims
from simulator.suites import NAMES, ReflectorContract, StaticView
from tests.unit.model.test_volumeclaims import CLAIM

STORING = msgspec.structs.replace(
    NAMES, nodes={"milan": VirtualNode(name="milan", slice="milan", storage_classes=("disks",))}
)
SOURCE: dict[str, Any] = {**CLAIM, "apiVersion": "v1", "kind": CLAIMS.name}
BOUND: dict[str, Any] = {**SOURCE, "spec": {**SOURCE["spec"], "volumeName": "pvc-1-2"}}
THERE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": CLAIMS.name,
    "metadata": {"name": "db", "annotations": {"liqod.io/claim-uid": "1-2"}},
    "spec": {"storageClassName": "disks"},
    "status": {"phase": "Bound", "capacity": {"storage": "3Gi"}},
}


class TestClaims(ReflectorContract):
    reflector = claims.REFLECTOR
    sources = (SOURCE, BOUND)
    remote = (THERE,)
    names = STORING


def view(**more: Any) -> StaticView:
    return StaticView(claims.REFLECTOR, **{"names": STORING, **more})


def test_it_is_asked_for_where_its_first_pod_lands_and_nowhere_else():
    (made,) = claims.outgoing(SOURCE, view()).remote
    assert made["spec"]["storageClassName"] == "disks"
    assert made["metadata"]["annotations"] == {"liqod.io/claim-uid": "1-2"}
    elsewhere = msgspec.structs.replace(STORING, nodes={"other": STORING.nodes["milan"]})
    assert claims.outgoing(SOURCE, view(names=elsewhere)).remote == ()
    assert claims.incoming(SOURCE, (), view(names=elsewhere)).status is None


def test_one_with_a_volume_is_kept_whatever_its_annotations_say():
    bare = {**BOUND, "metadata": {**BOUND["metadata"], "annotations": {}}}
    assert claims.outgoing(bare, view(remote=[THERE])).remote
    assert claims.outgoing(bare, view()).remote == ()


def test_one_that_is_being_deleted_keeps_its_data_until_it_is_gone():
    going = {
        **BOUND,
        "metadata": {**BOUND["metadata"], "deletionTimestamp": "2026-01-02T03:04:05Z"},
    }
    assert claims.outgoing(going, view(remote=[THERE])).hold


def test_what_was_lost_there_is_not_made_again():
    plan = claims.outgoing(BOUND, view())
    assert plan.remote == ()
    assert [each.code for each in plan.reasons] == [claims.VOLUME_LOST]


def test_another_claim_of_that_name_is_taken_away_first():
    other = {**SOURCE, "metadata": {**SOURCE["metadata"], "uid": "9-9"}}
    assert claims.outgoing(other, view(remote=[THERE])).remote == ()
    assert claims.incoming(other, (THERE,), view(remote=[THERE])).status is None


def test_what_became_of_it_is_said_here():
    status = claims.incoming(BOUND, (THERE,), view()).status
    assert status is not None
    assert status["capacity"] == {"storage": "3Gi"}
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "milan")
    first = claims.incoming(SOURCE, (THERE,), view()).status
    assert first is not None
    assert "capacity" not in first


def test_what_the_peer_refuses_is_said_here_in_its_words():
    refused = (Refusal(status=403, message="exceeded quota", kind=CLAIMS, retried=True),)
    status = claims.incoming(SOURCE, (), view(refusals=refused)).status
    assert status is not None
    (condition,) = status["conditions"]
    assert condition["status"] == "False"
    assert "exceeded quota" in condition["message"]
    plan = claims.outgoing(BOUND, view(remote=[THERE], refusals=refused))
    assert [each.code for each in plan.reasons] == [claims.VOLUME_REFUSED]
