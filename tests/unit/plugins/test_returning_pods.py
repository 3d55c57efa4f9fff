"""How a pod returns from a peer that cannot start it: when, what it waits for, and who stays."""

import copy
from datetime import datetime, timedelta
from typing import Any

import pytest

from liqod.apimachinery.kinds import PODS
from liqod.model.objects import conditions, podreturns, returnmarks
from liqod.model.objects.podreturns import ReturnTimes
from liqod.model.objects.returnmarks import ReturnMark
from liqod.plugins.contracts import NOTHING, Absence, Plan, RemoteObject, VirtualNode
from liqod.plugins.reflectors import pods
from liqod.resources import NAMESPACE_OFFLOADINGS, SHADOW_PODS
from simulator.suites import NOW
from tests.unit.plugins.reflected import (
    NEED,
    Json,
    found,
    look,
    names,
    pod,
    remote_pod,
    shadow,
    terminating,
    view,
)

EARLY, AGO, LATER = "2026-01-02T02:00:00Z", "2026-01-02T02:54:05Z", "2026-01-02T03:40:00Z"
OWNED: Json = {
    "creationTimestamp": "2026-01-02T02:50:00Z",
    "ownerReferences": [
        {"kind": "ReplicaSet", "name": "web-5d8", "uid": "uid-owner", "controller": True}
    ],
}
TIMES = ReturnTimes(unschedulable=600.0, scaling=1200.0, image=300.0, refused=120.0)
UNPLACED: Json = {
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available",
        }
    ],
    "containerStatuses": [],
}
WAITS: Json = {
    "containerStatuses": [
        {
            "name": "web",
            "ready": False,
            "restartCount": 0,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
        }
    ]
}


def shown(**options: Any) -> Any:
    return view(names=names(returns=TIMES), **options)


def returning(status: str, cause: str, since: str, **meta: Any) -> Json:
    said = {"type": "liqod.io/Returning", "status": status, "reason": cause, "message": "words"}
    said["lastTransitionTime"] = since
    return pod({"phase": "Pending", "conditions": [said]}, metadata={**OWNED, **meta})


def condition(plan: Plan) -> Json:
    assert plan.status is not None
    return dict(conditions.find(plan.status["conditions"], "liqod.io/Returning") or {})


def pending(status: Json) -> dict[RemoteObject, Json]:
    """The answers with a remote pod that is still Pending."""
    read = found("Pending", **status)
    return {NEED: {"status": {}}, **{look(lasts): read for lasts in (2.0, 15.0, 60.0)}}


def refused() -> dict[RemoteObject, Json]:
    said = {"phase": "Pending", "reason": "QuotaExceeded", "message": "no more cpu"}
    return {NEED: {"status": said}}


def asked_again(since: str = EARLY, **status: Any) -> dict[RemoteObject, Json]:
    """The answer to the last question before a pod returns, whose time began then."""
    need = RemoteObject(kind=SHADOW_PODS, name="web", version=since, lasts=2.0)
    return {need: {"status": status}}


CASES = [
    (podreturns.UNSCHEDULABLE, pending(UNPLACED)),
    (podreturns.IMAGE, pending(WAITS)),
    (podreturns.REFUSED, refused()),
]


@pytest.mark.parametrize(("cause", "answers"), CASES)
def test_the_time_of_each_cause_begins_when_it_is_first_seen(cause: str, answers: Any):
    plan = pods.incoming(pod(metadata=OWNED), (), shown(remote=[shadow()], fulfilled=answers))
    assert condition(plan)["status"] == "Unknown"
    assert condition(plan)["reason"] == cause
    assert condition(plan)["lastTransitionTime"] == NOW
    assert plan.requeue_after == TIMES.of(cause)
    assert not plan.reasons


@pytest.mark.parametrize(("cause", "answers"), CASES)
def test_it_returns_when_the_time_is_over_and_not_before(cause: str, answers: Any):
    limit = TIMES.of(cause)

    def after(seconds: float) -> Plan:
        since = (datetime.fromisoformat(NOW) - timedelta(seconds=seconds)).isoformat()
        here = returning("Unknown", cause, since)
        known = {**answers, **asked_again(since, reason="QuotaExceeded")}
        return pods.incoming(here, (), shown(remote=[shadow()], fulfilled=known))

    early = after(limit - 1)
    assert early.requeue_after == 1
    assert not early.reasons
    due = after(limit)
    assert condition(due)["status"] == "False"


@pytest.mark.parametrize(
    ("cause", "answers", "limit"),
    [(*case, limit) for case, limit in zip(CASES, (1200.0, 300.0, 120.0), strict=True)],
)
def test_a_peer_that_adds_nodes_has_longer_for_a_pod_that_finds_no_place(
    cause: str, answers: Any, limit: float
):
    here = pod(metadata=OWNED)
    name = here["spec"]["nodeName"]
    known = names(returns=TIMES, nodes={name: VirtualNode(name=name, slice=name, scales=True)})
    plan = pods.incoming(here, (), view(names=known, remote=[shadow()], fulfilled=answers))
    assert condition(plan)["reason"] == cause
    assert plan.requeue_after == limit


def test_another_cause_has_a_time_of_its_own():
    here = returning("Unknown", podreturns.UNSCHEDULABLE, EARLY)
    options: Json = {"remote": [shadow()], "fulfilled": pending(WAITS)}
    plan = pods.incoming(here, (), shown(**options))
    assert condition(plan)["reason"] == podreturns.IMAGE
    assert condition(plan)["lastTransitionTime"] == NOW


def test_who_starts_before_has_no_condition_any_more():
    here = returning("Unknown", podreturns.IMAGE, EARLY)
    plan = pods.incoming(here, (remote_pod(),), shown(remote=[shadow(), remote_pod()]))
    assert plan.status is not None
    assert plan.status["phase"] == "Running"
    assert condition(plan) == {}


def offloading(**notes: str) -> Json:
    return {
        "apiVersion": NAMESPACE_OFFLOADINGS.api_version,
        "kind": "NamespaceOffloading",
        "metadata": {"name": "offloading", "namespace": "shop", "annotations": notes},
    }


def marks(*, since: str, until: str) -> Json:
    mark = ReturnMark("uid-owner", "ReplicaSet", "web-5d8", "milan", "Refused", "", since, until)
    return offloading(**{"liqod.io/returned": returnmarks.render([mark]) or ""})


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ({"annotations": {"liqod.io/return": "false"}}, ()),
        ({}, (offloading(**{"liqod.io/return": "false"}),)),
        ({"ownerReferences": []}, ()),
        ({"creationTimestamp": LATER}, (marks(since=EARLY, until=LATER),)),
    ],
    ids=["by its own word", "by its namespace's", "without a controller", "made since the mark"],
)
def test_who_stays(here: Json, there: Any):
    source = returning("Unknown", podreturns.UNSCHEDULABLE, EARLY, **here)
    known = {**pending(UNPLACED), **asked_again()}
    options: Json = {"remote": [shadow()], "fulfilled": known, "local": there}
    plan = pods.incoming(source, (), shown(**options))
    after = (plan.status or {}).get("conditions")
    assert not conditions.is_status(after, "liqod.io/Returning", "False")
    assert [each.code for each in plan.reasons] in ([], ["CannotReturn"])


def test_who_has_no_controller_is_told():
    source = returning("Unknown", podreturns.UNSCHEDULABLE, EARLY, ownerReferences=[])
    options: Json = {"remote": [shadow()], "fulfilled": pending(UNPLACED)}
    plan = pods.incoming(source, (), shown(**options))
    assert [each.code for each in plan.reasons] == ["CannotReturn"]
    assert "no controller" in plan.reasons[0].message


@pytest.mark.parametrize(
    ("here", "there", "returns"),
    [
        ({}, {}, False),
        ({"liqod.io/return": "true"}, {}, True),
        ({}, {"liqod.io/return": "true"}, True),
        ({"liqod.io/return": "true"}, {"liqod.io/return": "false"}, False),
    ],
)
def test_a_jobs_pod_returns_where_that_is_asked_for_only(here: Json, there: Json, returns: bool):
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": "1", "controller": True}
    meta: Json = {"ownerReferences": [job], "annotations": here}
    source = returning("Unknown", podreturns.UNSCHEDULABLE, EARLY, **meta)
    known = {**pending(UNPLACED), **asked_again()}
    options: Json = {"fulfilled": known, "local": [offloading(**there)]}
    plan = pods.incoming(source, (), shown(remote=[shadow()], **options))
    after = (plan.status or {}).get("conditions")
    assert conditions.is_status(after, "liqod.io/Returning", "False") is returns
    if not returns and not there:
        assert [each.code for each in plan.reasons] == ["CannotReturn"]
        assert "liqod.io/return=true" in plan.reasons[0].message


MILAN: Json = {"key": "liqo.io/remote-cluster-id", "operator": "In", "values": ["milan"]}


def asking(*terms: list[Json]) -> Json:
    required = {"nodeSelectorTerms": [{"matchExpressions": each} for each in terms]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


EU: Json = {"key": "region", "operator": "In", "values": ["eu"]}
VIRTUAL: Json = {"key": "liqo.io/type", "operator": "In", "values": ["virtual-node"]}


@pytest.mark.parametrize(
    ("spec", "selected", "returns"),
    [
        ({"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}]}, [], False),
        ({"volumes": [{"name": "a", "emptyDir": {}}]}, [], True),
        ({"nodeSelector": {"liqo.io/remote-cluster-id": "milan"}}, [], False),
        ({"nodeSelector": {"kubernetes.io/os": "linux"}}, [], True),
        (asking([MILAN]), [], False),
        (asking([EU, VIRTUAL]), [], False),
        (asking([EU, VIRTUAL]), [EU], True),
        (asking([MILAN], [VIRTUAL]), [], True),
    ],
)
def test_who_has_no_other_place_stays(spec: Json, selected: list[Json], returns: bool):
    source = returning("Unknown", podreturns.UNSCHEDULABLE, EARLY)
    source = {**source, "spec": {**source["spec"], **spec}}
    known = {**pending(UNPLACED), **asked_again()}
    space = offloading()
    if selected:
        terms = [{"matchExpressions": selected}]
        space["spec"] = {"clusterSelector": {"nodeSelectorTerms": terms}}
    plan = pods.incoming(source, (), shown(remote=[shadow()], fulfilled=known, local=[space]))
    after = (plan.status or {}).get("conditions")
    assert conditions.is_status(after, "liqod.io/Returning", "False") is returns
    assert [each.code for each in plan.reasons] == ([] if returns else ["CannotReturn"])


def test_what_was_read_before_an_outage_is_not_judged():
    source = returning("Unknown", podreturns.REFUSED, EARLY)

    def judged(**known: Any) -> Plan:
        answers = {**refused(), **known.get("answers", {})}
        return pods.incoming(source, (), shown(remote=[shadow()], fulfilled=answers))

    (need,) = asked_again()
    assert judged().needs == (need,)
    since = judged(answers=asked_again(phase="Pending"))
    assert not since.needs
    assert not conditions.is_status(
        (since.status or {}).get("conditions"), "liqod.io/Returning", "False"
    )
    still = judged(answers=asked_again(phase="Pending", reason="QuotaExceeded"))
    assert condition(still)["status"] == "False"


BEGAN: list[Json] = [
    {"state": {"running": {}}},
    {"state": {"running": {"startedAt": NOW}}},
    {"state": {"terminated": {"exitCode": 0}}},
    {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 1},
    {"lastState": {"terminated": {"exitCode": 0}}},
]


@pytest.mark.parametrize("began", BEGAN)
@pytest.mark.parametrize("unable", [False, True])
def test_no_work_that_has_begun_is_ended_for_another_container(began: Json, unable: bool):
    waits = WAITS["containerStatuses"]
    sidecar: Json = {"initContainers": [{"name": "other", "restartPolicy": "Always"}]}
    init: Json = {"initContainers": [{"name": "other"}]}
    other = {"name": "other", **began}

    def found(spec: Json, **status: Any) -> object:
        return podreturns.fault(spec, {"phase": "Pending", **status}, refused=unable)

    assert found({}, containerStatuses=[other, *waits]) is None
    assert found(sidecar, initContainerStatuses=[other], containerStatuses=waits) is None
    assert found(init, initContainerStatuses=[other], containerStatuses=waits) is not None


def test_those_of_before_the_mark_return_like_the_first():
    source = returning("Unknown", podreturns.UNSCHEDULABLE, EARLY)
    mark = marks(since="2026-01-02T03:00:00Z", until=LATER)
    known = {**pending(UNPLACED), **asked_again()}
    options: Json = {"remote": [shadow()], "fulfilled": known, "local": [mark]}
    assert condition(pods.incoming(source, (), shown(**options)))["status"] == "False"


# On its way

LOOKS = tuple(
    RemoteObject(kind=kind, name="web", version=AGO, lasts=2.0) for kind in (SHADOW_PODS, PODS)
)
LEAVES = returning("False", podreturns.IMAGE, AGO)


def test_nothing_of_it_is_wanted_there_any_more():
    for left in ([shadow()], [remote_pod()]):
        plan = pods.outgoing(LEAVES, shown(remote=left))
        assert [each.code for each in plan.reasons] == ["Returning"]
        assert plan.remote == ()
        assert not plan.hold
        assert plan.status is None
    assert pods.incoming(LEAVES, (), shown(remote=[shadow()])) == NOTHING


def test_it_has_ended_when_both_are_read_to_be_gone():
    plan = pods.outgoing(LEAVES, shown())
    assert plan.needs == LOOKS
    there = {**shadow(), "metadata": {**shadow()["metadata"]}}
    for read in ((there, {}), ({}, found()), (there, found())):
        answers = dict(zip(LOOKS, read, strict=True))
        assert pods.outgoing(LEAVES, shown(fulfilled=answers)).status is None
    gone: dict[RemoteObject, Json] = {key: {} for key in LOOKS}
    assert condition(pods.outgoing(LEAVES, shown(fulfilled=gone)))["status"] == "True"


def test_who_starts_at_the_last_moment_stays_there():
    plan = pods.outgoing(LEAVES, shown(remote=[shadow(), remote_pod()]))
    assert [each["kind"] for each in plan.remote] == ["ShadowPod"]
    assert condition(plan) == {}


@pytest.mark.parametrize("status", ["False", "True"])
def test_who_has_lost_its_controller_is_made_there_again(status: str):
    alone = returning(status, podreturns.IMAGE, AGO, ownerReferences=[])
    plan = pods.outgoing(alone, shown())
    assert condition(plan) == {}
    assert plan.status is not None
    again = {**alone, "status": {**alone["status"], **plan.status}}
    assert [each["kind"] for each in pods.outgoing(again, shown()).remote] == ["ShadowPod"]


def test_who_has_started_while_it_is_ended_there_ends():
    going = shadow(deletionTimestamp=NOW)
    plan = pods.outgoing(LEAVES, shown(remote=[going, remote_pod()]))
    assert plan.remote == ()
    assert plan.status is None


def test_who_ran_to_its_end_there_is_not_made_again():
    done = remote_pod("Succeeded", ready=False)
    going = shadow(deletionTimestamp=NOW)
    for options in ({"remote": [shadow(), done]}, {"remote": [going, done]}, {"gone": [done]}):
        plan = pods.outgoing(LEAVES, shown(**options))
        assert plan.status is not None
        assert plan.status["phase"] == "Succeeded"
        assert condition(plan) == {}


def test_who_has_ended_there_is_never_made_there_again():
    ended = returning("True", podreturns.IMAGE, AGO)
    for left in ([], [shadow()], [shadow(), remote_pod()]):
        plan = pods.outgoing(ended, shown(remote=left))
        assert plan.remote == ()
        assert not plan.hold
        assert plan.status is None


@pytest.mark.parametrize("absence", [Absence.UNKNOWN, Absence.LASTING])
def test_without_a_mapping_nothing_is_proven(absence: Absence):
    here = copy.deepcopy(LEAVES)
    shade = view(names=names(absence=absence, remote_namespace="", returns=TIMES))
    plan = pods.outgoing(here, shade)
    after = (plan.status or {}).get("conditions")
    assert not conditions.is_status(after, "liqod.io/Returning")


def test_who_is_deleted_ends_as_any_other():
    assert pods.outgoing(terminating(LEAVES), shown(remote=[shadow()])) == Plan(delete_local=True)
