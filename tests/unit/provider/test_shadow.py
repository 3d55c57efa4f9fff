"""What a ShadowPod and its Pod say together."""

from typing import Any

import msgspec
import pytest

from liqod.provider.shadow import (
    FOLLOWED,
    NAME_TAKEN,
    WRONG_ORIGIN,
    Made,
    Plan,
    Shadow,
    decide,
    follow,
    orphaned,
    outcome,
    pod_metadata,
)

ORIGIN = "offloading.liqo.io/origin"


def shadow(*, labels: dict[str, str] | None = None, annotations=None, uid="u1", **more: Any):
    metadata = {
        "name": "web-1",
        "namespace": "shop-rome",
        "uid": uid,
        "labels": {ORIGIN: "rome", "app": "web", **(labels or {})},
        "annotations": annotations or {},
        **more.pop("metadata", {}),
    }
    return msgspec.json.decode(msgspec.json.encode({"metadata": metadata, **more}), type=Shadow)


def pod(of: Shadow, phase: str = "Running", **more: Any) -> Made:
    metadata = {**pod_metadata(of.metadata), **more.pop("metadata", {})}
    body = {"metadata": metadata, "status": {"phase": phase, **more}}
    return msgspec.json.decode(msgspec.json.encode(body), type=Made)


def ended(at: str | None) -> dict[str, Any]:
    return {"state": {"terminated": {"finishedAt": at}}}


def test_without_a_pod_one_is_made():
    assert decide(shadow(), None, "rome") == Plan(make=True)


def test_a_running_one_that_lost_its_pod_is_made_again():
    assert decide(shadow(status={"phase": "Running"}), None, "rome") == Plan(make=True)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminal_phase_is_final(phase: str):
    assert decide(shadow(status={"phase": phase}), None, "rome") == Plan()


def test_nothing_is_made_for_one_that_is_being_deleted():
    leaving = shadow(metadata={"deletionTimestamp": "2026-11-21T02:00:00Z"})
    assert decide(leaving, None, "rome") == Plan()
    assert decide(leaving, pod(leaving), "rome") == Plan(holds=True)


def test_another_origin_is_told_and_not_made():
    plan = decide(shadow(labels={ORIGIN: "milan"}), None, "rome")
    assert not plan.make
    assert plan.status is not None
    assert plan.status["reason"] == WRONG_ORIGIN
    assert plan.status["phase"] == "Pending"


def test_pending_costs_no_write_and_running_one():
    one = shadow()
    assert decide(one, pod(one, "Pending"), "rome") == Plan(holds=True)
    assert decide(one, pod(one), "rome") == Plan(holds=True, status={"phase": "Running"})
    told = shadow(status={"phase": "Running"})
    assert decide(told, pod(told), "rome") == Plan(holds=True)


def test_a_reason_that_no_longer_holds_is_taken_back():
    waited = shadow(status={"phase": "Pending", "reason": "OverQuota", "message": "m"})
    plan = decide(waited, pod(waited, "Pending"), "rome")
    assert plan.status == {"reason": None, "message": None}
    plan = decide(waited, pod(waited), "rome")
    assert plan.status == {"phase": "Running", "reason": None, "message": None}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_end_of_a_pod_is_frozen(phase: str):
    one = shadow(status={"phase": "Running"})
    assert decide(one, pod(one, phase), "rome") == Plan(status={"phase": phase})


def test_a_pod_of_somebody_else_is_left_alone():
    one = shadow()
    theirs = pod(one, metadata={"ownerReferences": []})
    plan = decide(one, theirs, "rome")
    assert plan.metadata is None
    assert not plan.make
    assert plan.status is not None
    assert plan.status["reason"] == NAME_TAKEN


def test_the_pod_of_an_earlier_shadow_pod_is_waited_for():
    old, new = shadow(uid="u1"), shadow(uid="u2")
    assert decide(new, pod(old), "rome") == Plan(holds=True, remove=True)
    going = pod(old, metadata={"deletionTimestamp": "2026-11-21T02:00:00Z"})
    assert decide(new, going, "rome") == Plan(holds=True)


def test_a_pod_goes_with_its_shadow_pod():
    one = shadow()
    assert orphaned(pod(one)) == Plan(holds=True, remove=True)
    assert orphaned(pod(one, "Failed")) == Plan(remove=True)
    going = pod(one, metadata={"deletionTimestamp": "2026-11-21T02:00:00Z"})
    assert orphaned(going) == Plan(holds=True)
    assert orphaned(pod(one, metadata={"ownerReferences": []})) == Plan(holds=True)


def test_a_pod_that_terminates_is_left_to_it():
    one = shadow(status={"phase": "Running"}, labels={"new": "label"})
    going = pod(shadow(), metadata={"deletionTimestamp": "2026-11-21T02:00:00Z"})
    assert decide(one, going, "rome") == Plan(holds=True)


DELETION = {"deletionTimestamp": "2026-11-21T02:00:30Z", "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("statuses", "end"),
    [
        ({"containerStatuses": [ended("2026-11-21T01:59:59Z")]}, "Failed"),
        ({"containerStatuses": [ended("2026-11-21T02:00:05Z")]}, None),
        ({"containerStatuses": [ended(None)]}, None),
        ({}, None),
        (
            {
                "containerStatuses": [
                    ended("2026-11-21T01:00:00Z"),
                    {"state": {"running": {"startedAt": "2026-11-21T01:00:00Z"}}},
                ]
            },
            None,
        ),
        (
            {
                "initContainerStatuses": [ended("2026-11-21T01:00:00Z")],
                "containerStatuses": [{"state": {"waiting": {"reason": "PodInitializing"}}}],
            },
            "Failed",
        ),
    ],
)
def test_a_deletion_is_no_end_of_its_own(statuses: dict[str, Any], end: str | None):
    assert outcome(pod(shadow(), "Failed", metadata=DELETION, **statuses)) == end


def test_labels_and_annotations_follow_and_go():
    before = shadow(labels={"tier": "front"}, annotations={"note": "a"})
    live = pod(before).metadata
    assert follow(before.metadata, live) is None
    after = shadow(labels={"app": "shop"}, annotations={"note": "b"})
    patch = follow(after.metadata, live)
    assert patch is not None
    assert patch["labels"] == {"app": "shop", "tier": None}
    assert patch["annotations"]["note"] == "b"
    assert "tier" not in patch["annotations"][FOLLOWED]


def test_what_others_put_on_the_pod_stays():
    one = shadow()
    live = pod_metadata(one.metadata)
    live["labels"] = {**live["labels"], "mesh": "yes"}
    assert follow(one.metadata, pod(one, metadata=live).metadata) is None


def test_a_label_taken_off_the_pod_comes_back():
    one = shadow()
    live = pod_metadata(one.metadata)
    live["labels"] = {key: value for key, value in live["labels"].items() if key != "app"}
    patch = follow(one.metadata, pod(one, metadata=live).metadata)
    assert patch is not None
    assert patch["labels"] == {"app": "web"}


def test_a_shadow_pod_cannot_forge_our_marks():
    forged = shadow(labels={"liqo.io/managed-by": "me"}, annotations={FOLLOWED: "x"})
    made = pod_metadata(forged.metadata)
    assert made["labels"]["liqo.io/managed-by"] == "shadowpod"
    assert made["annotations"][FOLLOWED] != "x"
    assert follow(forged.metadata, pod(forged).metadata) is None
