"""How a pod ends here and there: who waits for whom, who is given up, and who is taken away."""

from typing import Any

import pytest

from liqod.model.objects import podends
from liqod.plugins.contracts import NOTHING, Absence, Plan
from liqod.plugins.reflectors import pods
from tests.unit.plugins.reflected import (
    LAST_LOOK,
    NODE,
    RUNNING,
    Json,
    absent,
    found,
    pod,
    remote_pod,
    shadow,
    terminating,
    view,
)


def test_a_terminating_pod_ends_there_first():
    going = terminating(RUNNING)
    for left in ([remote_pod()], [shadow()]):
        assert pods.outgoing(going, view(remote=left)) == Plan(delete_local=True)


def test_a_terminating_pod_whose_remote_pod_is_not_seen_waits_for_its_end():
    going = terminating(RUNNING)
    assert pods.outgoing(going, view()) == Plan(needs=(LAST_LOOK,))
    assert pods.outgoing(going, view(fulfilled={LAST_LOOK: found()})) == Plan()
    other = found()
    other["metadata"]["annotations"] = {"liqod.io/local-uid": "uid-of-the-next"}
    for gone in ({}, other):
        assert pods.outgoing(going, view(fulfilled={LAST_LOOK: gone})) == Plan(delete_local=True)


def test_a_terminating_pod_of_a_node_out_of_service_does_not_wait():
    plan = pods.outgoing(terminating(RUNNING), view(local=[NODE]))
    assert plan == Plan(delete_local=True, orphan_remote=True)


@pytest.mark.parametrize(
    ("source", "absence", "expected"),
    [
        (RUNNING, Absence.UNKNOWN, Plan(hold=True)),
        (RUNNING, Absence.AWAITED, Plan(hold=True)),
        (RUNNING, Absence.BRIEF, Plan(delete_local=True, orphan_remote=True)),
        (pod(), Absence.AWAITED, Plan(delete_local=True, orphan_remote=True)),
        (pod(), Absence.UNKNOWN, Plan(hold=True)),
    ],
)
def test_a_terminating_pod_without_a_mapping(source, absence, expected):
    assert pods.outgoing(terminating(source), absent(absence)) == expected


CONTROLLED: Json = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}]}
DELETED: Json = {"deletionTimestamp": "2026-01-02T03:04:06Z", "deletionGracePeriodSeconds": 1}


def disruption(reason: str = "EvictionByEvictionAPI") -> Json:
    told = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "evicting"}
    return {"conditions": [told]}


def told(remote: Json, **meta: Any) -> Json:
    """The pod here once it says what its remote pod says."""
    found = pod({"phase": "Running"}, metadata=meta)
    plan = pods.incoming(found, (remote,), view())
    assert plan.status is not None
    assert plan.debounce == 0.0
    return {**found, "status": {**found["status"], **plan.status}}


def evicted(reason: str = "EvictionByEvictionAPI", phase: str = "Running") -> Json:
    found = remote_pod(phase, **disruption(reason))
    return {**found, "metadata": {**found["metadata"], **DELETED}}


@pytest.mark.parametrize("reason", ["EvictionByEvictionAPI", "PreemptionByScheduler"])
@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_who_is_taken_away_there_ends_here_if_its_controller_makes_another(reason: str, phase: str):
    remote = evicted(reason, phase)
    here = told(remote, **CONTROLLED)
    for left in (remote,), ():
        plan = pods.incoming(here, left, view())
        assert plan.end_local
        assert [each.code for each in plan.reasons] == ["TakenAway"]
        assert "evicting" in plan.reasons[0].message
    # It says so before it is deleted; then it only follows.
    going = {**here, "metadata": {**here["metadata"], **DELETED}}
    assert not pods.incoming(going, (remote,), view()).end_local


def test_who_goes_there_with_the_same_change_that_says_so_ends_here_at_once():
    here = pod({"phase": "Running"}, metadata=CONTROLLED)
    plan = pods.incoming(here, (evicted("DeletionByTaintManager"),), view())
    assert plan.end_local
    assert podends.taken_away({"status": plan.status}) == "evicting"
    assert [each.code for each in plan.reasons] == ["TakenAway"]
    stays = remote_pod(**disruption("DeletionByTaintManager"))  # said, and not deleted yet
    assert not pods.incoming(here, (stays,), view()).end_local


def test_who_would_not_be_made_again_here_is_made_again_there():
    here = told(evicted())
    plan = pods.incoming(here, (evicted(phase="Failed"),), view())
    assert not plan.end_local
    assert "phase" not in (plan.status or {})


def test_what_a_kubelet_ends_stays_as_on_a_node_here():
    ended = remote_pod("Failed", reason="Evicted", **disruption("TerminationByKubelet"))
    here = told(ended, **CONTROLLED)
    assert here["status"]["phase"] == "Failed"
    assert pods.incoming(here, (ended,), view()) == NOTHING


NEXT: Json = {**remote_pod(), "metadata": {**remote_pod()["metadata"], "uid": "uid-second"}}


@pytest.mark.parametrize("again", [(), (NEXT,)])
def test_the_last_of_one_that_went_before_it_was_shown_ends_it_here(again: tuple[Json, ...]):
    here = told(remote_pod(), **CONTROLLED)
    plan = pods.incoming(here, again, view(gone=[evicted()]))
    assert plan.end_local
    assert [each.code for each in plan.reasons] == ["TakenAway"]
    assert plan.status is not None
    assert podends.taken_away({"status": plan.status}) == "evicting"

    # Where it was shown already that it is disrupted there, there is nothing to write.
    plan = pods.incoming(told(evicted(), **CONTROLLED), again, view(gone=[evicted()]))
    assert plan.end_local
    assert plan.status is None


@pytest.mark.parametrize(
    ("here", "gone"),
    [
        (told(remote_pod(), **CONTROLLED), remote_pod()),
        (told(remote_pod()), evicted()),
        (pod(metadata={"uid": "uid-of-the-next", **CONTROLLED}), evicted()),
        (told(remote_pod(), **CONTROLLED, **DELETED), evicted()),
    ],
    ids=["deleted by hand", "without a controller", "of the pod before", "ends already"],
)
def test_others_that_went_end_nothing_here(here: Json, gone: Json):
    for again in ((NEXT,), ()):
        shown = pods.incoming(here, again, view(gone=[gone]))
        assert shown == pods.incoming(here, again, view())
        assert not shown.end_local


def test_one_that_is_back_after_its_eviction_does_not_end():
    here = told(evicted(), **CONTROLLED)
    again = remote_pod()
    again["metadata"] = {**again["metadata"], "uid": "uid-second"}
    plan = pods.incoming(here, (again,), view())
    assert not plan.end_local
