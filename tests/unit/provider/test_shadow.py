"""The actions that follow from a ShadowPod and its Pod together."""

from typing import Any

import msgspec
import pytest

from liqod.apimachinery.labels import APPLIED_HASH, APPLIED_KEYS, DELETION_GRACE, LOCAL_UID
from liqod.provider.workloads.graceperiods import GracePeriods
from liqod.provider.workloads.shadow import (
    FOLLOWED,
    LOST,
    NAME_TAKEN,
    WRONG_ORIGIN,
    GuestPod,
    Shadow,
    ShadowPlan,
    ShadowStatus,
    alike,
    decide,
    follow,
    is_unplaced,
    only_status,
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


def pod(of: Shadow, phase: str = "Running", **more: Any) -> GuestPod:
    metadata = {**pod_metadata(of.metadata), **more.pop("metadata", {})}
    spec = more.pop("spec", {})
    body = {"metadata": metadata, "spec": spec, "status": {"phase": phase, **more}}
    return msgspec.json.decode(msgspec.json.encode(body), type=GuestPod)


def ended(at: str | None) -> dict[str, Any]:
    return {"state": {"terminated": {"finishedAt": at}}}


def test_one_that_notes_how_its_pod_is_to_end_has_it_ended_and_never_made():
    going = shadow(annotations={DELETION_GRACE: "2"}, status={"phase": "Running"})
    assert decide(going, None, "rome") == ShadowPlan()
    assert decide(going, pod(shadow()), "rome") == ShadowPlan(holds=True, remove=True)


def test_without_a_pod_one_is_made():
    assert decide(shadow(), None, "rome") == ShadowPlan(make=True)


def test_a_running_one_that_lost_its_pod_is_made_again():
    assert decide(shadow(status={"phase": "Running"}), None, "rome") == ShadowPlan(make=True)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminal_phase_is_final(phase: str):
    assert decide(shadow(status={"phase": phase}), None, "rome") == ShadowPlan()


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_running_one_that_must_not_run_twice_and_lost_its_pod_has_failed(policy: str):
    spec = {"pod": {"restartPolicy": policy}}
    plan = decide(shadow(spec=spec, status={"phase": "Running"}), None, "rome")
    assert not plan.make
    assert plan.doubtful
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["reason"]) == ("Failed", LOST)
    # One that never ran is made.
    assert decide(shadow(spec=spec), None, "rome") == ShadowPlan(make=True)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_end_is_taken_back_where_the_pod_lives(phase: str):
    one = shadow(status={"phase": phase, "reason": "x", "message": "y"})
    status = {"phase": "Running", "reason": None, "message": None}
    assert decide(one, pod(one), "rome") == ShadowPlan(holds=True, status=status, doubtful=True)
    assert decide(one, pod(one, phase), "rome") == ShadowPlan()
    going = pod(one, metadata={"deletionTimestamp": "2026-11-21T02:00:00Z"})
    assert decide(one, going, "rome") == ShadowPlan(holds=True)


def test_the_pod_of_one_that_is_being_deleted_goes_whatever_holds_that():
    leaving = shadow(metadata={"deletionTimestamp": "2026-11-21T02:00:00Z"})
    assert decide(leaving, None, "rome") == ShadowPlan()
    assert decide(leaving, pod(leaving), "rome") == ShadowPlan(holds=True, remove=True)
    going = pod(leaving, metadata={"deletionTimestamp": "2026-11-21T02:00:00Z"})
    assert decide(leaving, going, "rome") == ShadowPlan(holds=True)


def test_another_origin_is_told_and_not_made():
    plan = decide(shadow(labels={ORIGIN: "milan"}), None, "rome")
    assert not plan.make
    assert plan.status is not None
    assert plan.status["reason"] == WRONG_ORIGIN
    assert plan.status["phase"] == "Pending"


@pytest.mark.parametrize(
    ("policy", "notes", "told"),
    [
        ("Always", {LOCAL_UID: "uid-web"}, False),
        ("OnFailure", {LOCAL_UID: "uid-web"}, True),
        ("Never", {LOCAL_UID: "uid-web"}, True),
        ("Always", {}, True),  # Liqo's
    ],
)
def test_running_is_told_of_what_runs_once_and_to_liqo(policy, notes, told):
    one = shadow(annotations=notes, spec={"pod": {"restartPolicy": policy}})
    assert decide(one, pod(one, "Pending"), "rome") == ShadowPlan(holds=True)
    status = {"phase": "Running"} if told else None
    assert decide(one, pod(one), "rome") == ShadowPlan(holds=True, status=status)
    said = shadow(annotations=notes, status={"phase": "Running"})
    assert decide(said, pod(said), "rome") == ShadowPlan(holds=True)


@pytest.mark.parametrize("notes", [{LOCAL_UID: "uid-web"}, {}])
def test_a_reason_that_no_longer_holds_is_taken_back(notes):
    status = {"phase": "Pending", "reason": "OverQuota", "message": "m"}
    waited = shadow(annotations=notes, status=status)
    plan = decide(waited, pod(waited, "Pending"), "rome")
    assert plan.status == {"reason": None, "message": None}
    plan = decide(waited, pod(waited), "rome")
    assert plan.status == {"phase": "Running", "reason": None, "message": None}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_end_of_a_pod_is_frozen(phase: str):
    one = shadow(status={"phase": "Running"})
    assert decide(one, pod(one, phase), "rome") == ShadowPlan(status={"phase": phase})


def test_a_pod_of_somebody_else_is_left_alone():
    one = shadow()
    theirs = pod(one, metadata={"ownerReferences": [], "annotations": {}})
    plan = decide(one, theirs, "rome")
    assert plan.metadata is None
    assert not plan.make
    assert plan.status is not None
    assert plan.status["reason"] == NAME_TAKEN


def test_the_pod_of_an_earlier_shadow_pod_is_waited_for():
    old, new = shadow(uid="u1"), shadow(uid="u2")
    assert decide(new, pod(old), "rome") == ShadowPlan(holds=True, remove=True)
    going = pod(old, metadata={"deletionTimestamp": "2026-11-21T02:00:00Z"})
    assert decide(new, going, "rome") == ShadowPlan(holds=True)


def test_a_pod_goes_with_its_shadow_pod():
    one = shadow()
    assert orphaned(pod(one)) == ShadowPlan(holds=True, remove=True)
    assert orphaned(pod(one, "Failed")) == ShadowPlan(remove=True)
    going = pod(one, metadata={"deletionTimestamp": "2026-11-21T02:00:00Z"})
    assert orphaned(going) == ShadowPlan(holds=True)
    stray: dict[str, object] = {"ownerReferences": []}
    assert orphaned(pod(one, metadata=stray)) == ShadowPlan(holds=True, remove=True)
    theirs = {**stray, "annotations": {}}
    assert orphaned(pod(one, metadata=theirs)) == ShadowPlan(holds=True)


def test_a_pod_that_was_taken_from_its_shadow_pod_is_taken_back():
    one = shadow(annotations={"liqod.io/local-uid": "a", "liqod.io/source": "pods/web-1"})
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u7"}
    plan = decide(one, pod(one, metadata={"ownerReferences": [other]}), "rome")
    assert plan.metadata is not None
    assert [each["uid"] for each in plan.metadata["ownerReferences"]] == ["u7", "u1"]
    # Another that stands for an earlier pod of that name goes, and a copy is somebody's own.
    earlier = shadow(annotations={"liqod.io/local-uid": "b", "liqod.io/source": "pods/web-1"})
    assert decide(one, pod(earlier, metadata={"ownerReferences": []}), "rome").remove
    copy = pod(one, metadata={"ownerReferences": [], "name": "web-1-debug"})
    assert not orphaned(copy).remove


def test_a_pod_that_terminates_is_left_to_it():
    one = shadow(status={"phase": "Running"}, labels={"new": "label"})
    going = pod(shadow(), metadata={"deletionTimestamp": "2026-11-21T02:00:00Z"})
    assert decide(one, going, "rome") == ShadowPlan(holds=True)


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
    once = {"restartPolicy": "Never"}
    assert outcome(pod(shadow(), "Failed", metadata=DELETION, spec=once, **statuses)) == end


@pytest.mark.parametrize("spec", [{}, {"restartPolicy": "Always"}])
def test_what_is_restarted_where_it_ends_is_ended_by_a_deletion_unless_it_says_why(
    spec: dict[str, str],
):
    # A kubelet's last word: deleted just now and without a grace, after its containers ended.
    last = {"deletionTimestamp": "2026-11-21T02:00:30Z", "deletionGracePeriodSeconds": 0}
    of = {"metadata": last, "spec": spec, "containerStatuses": [ended("2026-11-21T02:00:05Z")]}
    assert outcome(pod(shadow(), "Failed", **of)) is None
    assert outcome(pod(shadow(), "Failed", reason="DeadlineExceeded", **of)) == "Failed"


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


def test_the_notes_of_the_shadow_pods_writer_stay_with_it():
    noted = shadow(annotations={APPLIED_HASH: "h", APPLIED_KEYS: "{}", "note": "a"})
    made = pod_metadata(noted.metadata)
    assert made["annotations"].keys() == {"note", FOLLOWED}
    again = shadow(annotations={APPLIED_HASH: "other", "note": "a"})
    assert follow(again.metadata, pod(noted).metadata) is None


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


def body(version: str, status: dict[str, Any], **meta: Any) -> bytes:
    metadata = {"name": "web-1", "uid": "u1", "resourceVersion": version, **meta}
    return msgspec.json.encode({"metadata": metadata, "status": status})


STARTED = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
RUNS = {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (body("1", {"phase": "Pending"}), body("2", STARTED), True),
        (body("1", {}, generation=1), body("2", {}, generation=2), True),  # it got its node
        (body("1", {"phase": "Pending"}), body("2", RUNS), False),
        (body("1", RUNS), body("2", RUNS, labels={"a": "b"}), False),
        (body("1", RUNS), body("2", RUNS, deletionTimestamp="2026-01-01T00:00:00Z"), False),
        (body("1", RUNS), body("2", RUNS, ownerReferences=[{"uid": "u2"}]), False),
        (body("1", {"phase": "Failed"}), body("2", {"phase": "Failed"}), False),
        (None, body("2", RUNS), False),
        (body("1", RUNS), None, False),
    ],
)
def test_nothing_follows_from_a_pod_that_is_bound(old, new, expected):
    assert alike(old, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (body("1", {}), body("2", {"phase": "Running"}), True),
        (body("1", {}), body("2", {"phase": "Pending"}), False),
        (body("1", {}), body("2", {"phase": "Running"}, labels={"a": "b"}), False),
        (body("1", {}, generation=1), body("2", {"phase": "Running"}, generation=2), False),
        (None, body("2", {"phase": "Running"}), False),
    ],
)
def test_nothing_follows_from_our_own_status(old, new, expected):
    assert only_status(old, new, ShadowStatus("Running")) is expected


@pytest.mark.parametrize(
    ("meta", "spec", "grace", "long"),
    [
        ({}, {"terminationGracePeriodSeconds": 30}, None, False),
        ({}, {"terminationGracePeriodSeconds": 10**12}, 3600, False),
        (
            {"deletionGracePeriodSeconds": 30, "deletionTimestamp": "2026-11-21T02:00:00Z"},
            {},
            None,
            False,
        ),
        (
            {"deletionGracePeriodSeconds": 2 * 10**9, "deletionTimestamp": "2090-01-01T00:00:00Z"},
            {},
            3600,
            True,
        ),
        (
            {"deletionGracePeriodSeconds": 10**15, "deletionTimestamp": "33658-01-01T00:00:00Z"},
            {},
            3600,
            True,
        ),
    ],
)
def test_no_pod_may_take_for_ever_to_end(meta, spec, grace, long):
    body = {"metadata": {"name": "web", **meta}, "spec": spec, "status": {"phase": "Succeeded"}}
    found = msgspec.json.decode(msgspec.json.encode(body), type=GuestPod)
    grace_periods = GracePeriods(3600)
    assert grace_periods.grace(("shop", "web"), found) == grace
    assert grace_periods.exceeds(("shop", "web"), found) is long
    outcome(found)  # a year that no calendar has is no error


def scheduled(status: str, reason: str = "") -> list[dict[str, str]]:
    return [{"type": "PodScheduled", "status": status, "reason": reason}]


def test_a_pod_that_finds_no_node_is_worth_a_look_and_one_that_has_one_is_not():
    made = pod(shadow(), "Pending")
    without = pod(shadow(), "Pending", conditions=scheduled("False", "Unschedulable"))
    assert is_unplaced(without)
    gated = pod(shadow(), "Pending", conditions=scheduled("False", "SchedulingGated"))
    bound = pod(shadow(), "Pending", conditions=scheduled("True"))
    assert not any(is_unplaced(each) for each in (made, gated, bound))
    before, after, ordinary = map(msgspec.json.encode, (made, without, bound))
    assert not alike(before, after)
    assert not alike(after, ordinary)
    assert alike(before, ordinary)
