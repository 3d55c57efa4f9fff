"""A pod at a peer, and the parts of its remote pod's status that come back."""

import copy
from datetime import datetime, timedelta
from typing import ClassVar

import pytest

from liqod.apimachinery.kinds import NODES
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.model.network.remapping import Remapped
from liqod.model.objects.podstatus import merge
from liqod.plugins.contracts import NOTHING, Absence, Plan, Refusal
from liqod.plugins.reflectors import pods
from liqod.resources import SHADOW_PODS
from simulator.suites import NOW, ReflectorContract
from tests.unit.plugins.reflected import (
    NEED,
    NO_REMOTE_POD,
    NODE,
    RUNNING,
    UID,
    Json,
    absent,
    found,
    look,
    names,
    pod,
    remote_pod,
    shadow,
    terminating,
    view,
)


class TestPodsKeepTheContract(ReflectorContract):
    reflector = pods.REFLECTOR
    sources = (pod(), RUNNING, terminating(RUNNING))
    local = (NODE,)
    remote = (remote_pod(),)


class TestPodsAskForTheirShadow(ReflectorContract):
    reflector = pods.REFLECTOR
    sources = (RUNNING,)
    remote = (shadow(),)
    fulfilled: ClassVar = {NEED: {"status": {"phase": "Running"}}, look(pods.SOON): {}}


def test_a_pod_becomes_a_shadow_pod():
    (made,) = pods.outgoing(pod(), view()).remote
    assert (made["kind"], made["metadata"]["name"]) == ("ShadowPod", "web")
    assert made["spec"]["pod"]["containers"] == [{"name": "web", "image": "nginx"}]
    assert "nodeName" not in made["spec"]["pod"]


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "volume v"),
        ({"volumes": [{"name": "v", "ephemeral": {}}]}, "ephemeral"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resource claims"),
    ],
)
def test_a_pod_that_cannot_go_says_why_once(spec, word):
    odd = pod(spec=spec)
    plan = pods.outgoing(odd, view())
    assert plan.remote == ()
    assert plan.status is not None
    assert plan.status["reason"] == "OffloadingUnsupported"
    (condition,) = plan.status["conditions"]
    assert condition["type"] == "liqod.io/Offloaded"
    assert word in condition["message"]
    told = pod({"phase": "Pending", **plan.status}, spec=spec)
    assert pods.outgoing(told, view()).status is None


def test_the_status_of_the_remote_pod_is_merged():
    plan = pods.incoming(pod(), (remote_pod(),), view())
    expected = merge(pod(), remote_pod(), node_address="127.0.0.1", now=NOW, cross=Remapped)
    assert plan.status == expected.status
    assert plan.debounce == 0.0


def test_a_pod_that_runs_is_no_longer_said_not_to_be_offloaded():
    told = copy.deepcopy(RUNNING)
    told["status"]["conditions"].append({"type": "liqod.io/Offloaded", "status": "False"})
    plan = pods.incoming(told, (remote_pod(),), view())
    assert plan.status is not None
    assert "liqod.io/Offloaded" not in {each["type"] for each in plan.status["conditions"]}


def test_a_status_of_small_matter_waits_for_the_next():
    starting = remote_pod("Pending", ready=False, podIP=None, podIPs=None)
    plan = pods.incoming(pod(), (starting,), view())
    assert plan.status is not None
    assert plan.debounce == pods.DEBOUNCE


def test_a_kubelet_that_starts_a_pod_with_a_probe_has_one_status_written_if_it_is_soon_ready():
    """Its writes once all containers run: Running, then Ready after the first probe."""
    runs = pods.incoming(pod(), (remote_pod(ready=False),), view())
    assert runs.status is not None
    assert runs.status["phase"] == "Running"
    assert runs.debounce == pods.DEBOUNCE
    is_ready = pods.incoming(pod(), (remote_pod(),), view())
    assert is_ready.debounce == 0.0
    # What was Ready and is no more is told at once, and so is an end.
    assert pods.incoming(RUNNING, (remote_pod(ready=False),), view()).debounce == 0.0
    assert pods.incoming(pod(), (remote_pod("Failed", ready=False),), view()).debounce == 0.0


def over(code: int) -> list[Json]:
    """The status of a container that has ended."""
    state = {"terminated": {"exitCode": code, "containerID": "containerd://1"}}
    return [{"name": "web", "ready": False, "restartCount": 0, "state": state}]


@pytest.mark.parametrize(
    ("policy", "code", "waits"),
    [
        ("Never", 0, True),
        ("Never", 1, True),
        ("OnFailure", 0, True),
        ("OnFailure", 1, False),
        ("Always", 0, False),
    ],
)
def test_a_kubelet_that_ends_a_pod_has_one_status_written_if_its_phase_follows_soon(
    policy: str, code: int, waits: bool
):
    """Its writes once all containers have ended for good: no longer Ready, then the phase."""
    running = pod(RUNNING["status"], spec={"restartPolicy": policy})
    ends = remote_pod(ready=False, containerStatuses=over(code))
    plan = pods.incoming(running, (ends,), view())
    assert plan.status is not None
    assert plan.debounce == (pods.LAST_WORD if waits else 0.0)
    ended = remote_pod("Succeeded", ready=False, containerStatuses=over(code))
    assert pods.incoming(running, (ended,), view()).debounce == 0.0


def test_a_remote_pod_of_another_pod_of_that_name_is_not_looked_at():
    other = remote_pod()
    other["metadata"]["annotations"] = {"liqod.io/local-uid": "uid-before"}
    assert pods.incoming(pod(), (other,), view()) == Plan(requeue_after=pods.SLOW_START)


def test_no_address_is_shown_where_addresses_do_not_cross():
    plan = pods.incoming(pod(), (remote_pod(),), view(names=names(pod_network="none")))
    assert plan.status is not None
    assert not plan.status.get("podIP")


JOINED = PeerRanges(
    own=ClusterCidrs(pod=("10.10.0.0/16",)),
    peer=ClusterCidrs(pod=("10.10.0.0/16", "fd00:10::/64")),
    seen=ClusterCidrs(pod=("10.71.0.0/16", "fd00:71::/64")),
)


def test_the_address_of_a_pod_behind_a_tunnel_is_its_alias():
    named = names(pod_network="tunnel", ranges=JOINED)
    both = [{"ip": "10.10.0.9"}, {"ip": "fd00:10::9"}]
    plan = pods.incoming(pod(), (remote_pod(podIP="10.10.0.9", podIPs=both),), view(names=named))
    assert plan.status is not None
    assert plan.status["podIP"] == "10.71.0.9"
    assert plan.status["podIPs"] == [{"ip": "10.71.0.9"}, {"ip": "fd00:71::9"}]
    assert plan.reasons == ()


def test_no_address_behind_a_tunnel_is_shown_before_its_ranges_are_known():
    plan = pods.incoming(pod(), (remote_pod(),), view(names=names(pod_network="tunnel")))
    assert plan.status is not None
    assert not plan.status.get("podIP")


@pytest.mark.parametrize("address", ["10.11.0.9", "10.71.0.9", "192.168.0.1", "169.254.169.254"])
def test_an_address_outside_of_the_peers_ranges_is_left_out_with_the_reason(address):
    named = names(pod_network="tunnel", ranges=JOINED)
    plan = pods.incoming(pod(), (remote_pod(podIP=address, podIPs=[]),), view(names=named))
    assert plan.status is not None
    assert "podIP" not in plan.status
    assert address in plan.reasons[0].message


@pytest.mark.parametrize(
    "address", ["10.10.0.9", "10.20.0.9", "127.0.0.1", "169.254.0.1", "192.0.2.1"]
)
def test_an_address_that_is_ours_is_refused_by_name(address):
    named = names(node_addresses=frozenset({"192.0.2.1"}))
    claimed = remote_pod(podIP=address, podIPs=[{"ip": address}])
    plan = pods.incoming(pod(), (claimed,), view(names=named))
    assert plan.status is not None
    assert "podIP" not in plan.status
    assert address in plan.reasons[0].message


@pytest.mark.parametrize("absence", [Absence.AWAITED, Absence.BRIEF, Absence.LASTING])
def test_a_pod_that_never_ran_waits_without_a_mapping(absence):
    plan = pods.outgoing(pod(), absent(absence))
    assert plan.status is not None
    assert plan.status["reason"] == "OffloadingBackOff"
    again = pod({"phase": "Pending", **plan.status})
    assert pods.outgoing(again, absent(absence)).status is None


@pytest.mark.parametrize("absence", [Absence.UNKNOWN, Absence.AWAITED, Absence.BRIEF])
def test_a_pod_that_ran_is_not_given_up_on_partial_knowledge(absence):
    assert pods.outgoing(RUNNING, absent(absence)) == Plan(hold=True)


def test_a_pod_that_ran_is_given_up_after_the_grace_time():
    plan = pods.outgoing(RUNNING, absent(Absence.LASTING))
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["reason"]) == ("Failed", "OffloadingAborted")


@pytest.mark.parametrize(("phase", "held"), [("Succeeded", True), ("Running", False)])
def test_what_is_over_here_does_not_run_on_there(phase, held):
    over = pod({"phase": "Failed", "reason": "OffloadingAborted"})
    assert pods.outgoing(over, view(remote=[remote_pod(phase)])) == Plan(hold=held)
    assert pods.incoming(over, (remote_pod(phase),), view()) == NOTHING
    # Without a pod there are no logs to keep, and nothing may be made from what is left.
    assert pods.outgoing(over, view()) == NOTHING


@pytest.mark.parametrize(
    ("status", "reason"), [(403, "OffloadingRefused"), (422, "OffloadingInvalid")]
)
def test_a_refusal_is_shown_as_the_reason(status, reason):
    refusal = Refusal(status, "exceeded quota", SHADOW_PODS, True)
    plan = pods.incoming(pod(), (), view(refusals=(refusal,)))
    assert plan.status is not None
    assert plan.status["reason"] == reason
    assert "exceeded quota" in plan.status["message"]


def test_a_shadow_pod_without_a_pod_is_given_time():
    fresh = shadow(created="2026-01-02T03:04:04Z")
    plan = pods.incoming(pod(), (), view(remote=[fresh]))
    assert (plan.needs, plan.requeue_after) == ((), pods.SLOW_START - 1)


@pytest.mark.parametrize("ahead", [3600.0, -20.0])
def test_the_age_of_a_shadow_pod_is_told_by_the_peers_own_clock(ahead):
    now = datetime.fromisoformat(NOW) + timedelta(seconds=ahead)
    for age, asked in ((1, ()), (10, (NEED,))):
        made = shadow(created=(now - timedelta(seconds=age)).isoformat())
        found = view(remote=[made], ahead=ahead, fulfilled={NEED: {}, **NO_REMOTE_POD})
        plan = pods.incoming(pod(), (), found)
        assert plan.status is None
        assert plan.requeue_after == (pods.SILENCE if asked else pods.SLOW_START) - age
    late = shadow(created=(now - timedelta(seconds=30)).isoformat())
    plan = pods.incoming(
        pod(), (), view(remote=[late], ahead=ahead, fulfilled={NEED: {}, **NO_REMOTE_POD})
    )
    assert "does its daemon run?" in str(plan.status)


def test_then_it_is_asked_why():
    assert pods.incoming(pod(), (), view(remote=[shadow()])).needs == (look(pods.PACE),)
    seen = view(remote=[shadow()], fulfilled=NO_REMOTE_POD)
    assert pods.incoming(pod(), (), seen).needs == (NEED,)
    status = {"phase": "Pending", "reason": "QuotaExceeded", "message": "pods: 1 of 1 used"}
    answered = view(remote=[shadow()], fulfilled={NEED: {"status": status}})
    plan = pods.incoming(pod(), (), answered)
    assert plan.status == {"reason": "QuotaExceeded", "message": "milan: pods: 1 of 1 used"}


UNPLACED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/2 nodes are available: insufficient cpu",
}


def test_a_remote_pod_that_stays_pending_says_why():
    waits = found(conditions=[UNPLACED])
    plan = pods.incoming(pod(), (), view(remote=[shadow()], fulfilled={look(pods.PACE): waits}))
    assert plan.status is not None
    assert plan.status["reason"] == "Unschedulable"
    assert plan.status["message"] == "0/2 nodes are available: insufficient cpu"
    # Later it is looked at less often.
    old = shadow(created="2026-01-02T03:00:00Z")
    assert pods.incoming(pod(), (), view(remote=[old])).needs == (look(pods.SLOW_PACE),)


def test_what_is_not_marked_as_its_remote_pod_says_nothing_of_it():
    for marks in ({}, {"offloading.liqo.io/origin": "turin"}):
        theirs = found("Running")
        theirs["metadata"]["labels"] = marks
        seen = view(remote=[shadow()], fulfilled={look(pods.PACE): theirs})
        assert pods.incoming(pod(), (), seen) == Plan(needs=(NEED,))


def test_a_ready_pod_whose_remote_pod_starts_anew_is_ready_no_more():
    seen = view(remote=[shadow()], fulfilled={look(pods.SOON): found()})
    plan = pods.incoming(RUNNING, (), seen)
    assert plan.status is not None
    (ready,) = [each for each in plan.status["conditions"] if each["type"] == "Ready"]
    assert ready["status"] == "False"
    # While it is not there at all, nothing new is known of it.
    made_again = view(remote=[shadow()], fulfilled={NEED: {}, **NO_REMOTE_POD})
    assert pods.incoming(RUNNING, (), made_again) == NOTHING


def test_a_provider_that_says_nothing_is_doubted_after_a_while():
    fresh = shadow(created="2026-01-02T03:03:55Z")
    asked = pods.incoming(pod(), (), view(remote=[fresh], fulfilled={NEED: {}, **NO_REMOTE_POD}))
    assert asked == Plan(requeue_after=pods.SILENCE - 10)
    silent = shadow(created="2026-01-02T03:03:00Z")
    plan = pods.incoming(pod(), (), view(remote=[silent], fulfilled={NEED: {}, **NO_REMOTE_POD}))
    assert plan.status is not None
    assert plan.status["message"] == "milan has made no pod of it yet: does its daemon run?"
    assert plan.status["reason"] == "OffloadingBackOff"


def test_the_end_that_is_frozen_there_ends_the_pod_here():
    answered = view(
        remote=[shadow()], fulfilled={NEED: {"status": {"phase": "Succeeded"}}, **NO_REMOTE_POD}
    )
    plan = pods.incoming(RUNNING, (), answered)
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["reason"]) == ("Succeeded", "RemotePodTerminated")


def test_nodes_are_read_to_see_who_is_out_of_service():
    assert NODES in {reads.kind for reads in pods.REFLECTOR.reads}


def test_what_the_peer_left_out_or_lost_is_told():
    local = pod()
    local["spec"]["hostUsers"] = False
    there = remote_pod()
    there["metadata"]["annotations"] = {**UID, "liqod.io/left-out": "a.io/b c.io/d"}
    there["spec"] = {"containers": []}
    told = {
        reason.code: reason.message for reason in pods.incoming(local, (there,), view()).reasons
    }
    assert told["LeftOut"] == "milan takes no annotations a.io/b, c.io/d: left out"
    assert told["FieldLost"].startswith("the remote pod at milan runs without the pod's hostUsers")
