"""The status of a local pod: what API servers refuse never comes out, and others keep theirs."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from liqod.model.objects import conditions, podstatus
from liqod.model.objects.patches import merged
from liqod.model.objects.podready import UNAVAILABLE
from liqod.model.objects.podstatus import (
    REMOTE_POD,
)
from tests.unit.model.pods import (
    NODE,
    NOW,
    THEN,
    after,
    condition,
    local,
    remote_pod,
    run,
    running,
)

OBJECTS = Path(__file__).parents[2] / "fixtures" / "objects"


def items(name: str) -> dict[str, dict[str, Any]]:
    found = yaml.safe_load((OBJECTS / name).read_text())["items"]
    return {each["metadata"]["name"]: each for each in found}


def test_a_real_remote_pod_gives_what_liqo_gave_but_for_the_scheduler_and_qos():
    here, there = items("consumer/ns-demo-pods.yaml"), items("provider/ns-demo-ly-pods.yaml")
    for name, other in there.items():
        expected = here[name]["status"]
        fresh = copy.deepcopy(here[name])
        fresh["status"] = {"phase": "Pending", "qosClass": expected.get("qosClass")}
        got = after(fresh, other)
        for field in ("phase", "startTime", "podIP", "podIPs", "containerStatuses"):
            assert got[field] == expected[field]
        assert got["initContainerStatuses"] == expected["initContainerStatuses"]
        for kind in ("Initialized", "Ready", "ContainersReady"):
            assert conditions.is_status(got["conditions"], kind)


def test_first_merge():
    pod = local({"conditions": [condition("PodScheduled")], "reason": "x", "message": "y"})
    got = after(pod, remote_pod(running()))
    assert got["phase"] == "Running"
    assert got["qosClass"] == "Burstable"
    assert (got["podIP"], got["podIPs"]) == ("10.10.0.5", [{"ip": "10.10.0.5"}])
    assert (got["hostIP"], got["hostIPs"]) == (NODE, [{"ip": NODE}])
    assert "reason" not in got
    assert "message" not in got
    assert [each["type"] for each in got["conditions"]] == [
        "PodScheduled",
        "Initialized",
        "ContainersReady",
        "Ready",
        REMOTE_POD,
    ]
    pod["status"] = got
    assert run(pod, remote_pod(running())).status is None


def test_rests_on_what_an_api_server_makes_of_it():
    pod = local()
    got = after(pod, remote_pod(running()))
    for each in got["conditions"]:
        each["lastProbeTime"] = None
    pod["status"] = got
    assert run(pod, remote_pod(running())).status is None


# --- addresses ------------------------------------------------------------------------------------


def test_no_addresses_where_they_do_not_cross():
    got = after(local(), remote_pod(running()), cross=None)
    assert "podIP" not in got
    assert "podIPs" not in got
    pod = local({"podIP": "10.10.0.5", "podIPs": [{"ip": "10.10.0.5"}]})
    assert "podIP" not in after(pod, remote_pod(running()), cross=None)


@pytest.mark.parametrize(
    ("named", "shown", "refused"),
    [
        (["10.10.0.5", "fd00::5"], ["10.10.0.5", "fd00::5"], set()),
        (["10.20.0.5"], [], {"10.20.0.5"}),
        (["10.20.0.5", "fd00::5"], ["fd00::5"], {"10.20.0.5"}),
        (["10.10.0.5", "10.10.0.6"], ["10.10.0.5"], set()),
        (["127.0.0.1"], [], {"127.0.0.1"}),
        ([], [], set()),
    ],
)
def test_addresses(named, shown, refused):
    there = remote_pod(
        running(), podIP=named[0] if named else "", podIPs=[{"ip": a} for a in named]
    )
    result = run(local(), there)
    got = merged({}, result.status)
    assert [each["ip"] for each in got.get("podIPs", [])] == shown
    assert got.get("podIP") == (shown[0] if shown else None)
    assert result.refused.keys() == refused


# --- conditions -----------------------------------------------------------------------------------


def test_the_disruption_of_a_remote_pod_goes_with_the_remote_pod():
    pod, disrupted = local(), remote_pod(running())
    disrupted["status"]["conditions"].append(condition("DisruptionTarget", reason="Preempted"))
    pod["status"] = after(pod, disrupted)
    assert conditions.is_status(pod["status"]["conditions"], "DisruptionTarget")
    assert run(pod, disrupted).status is None
    pod["status"] = after(pod, remote_pod(running(), uid="2"))
    assert conditions.find(pod["status"]["conditions"], "DisruptionTarget") is None
    pod["status"]["conditions"].append(condition("DisruptionTarget", reason="MadeHere"))
    pod["status"] = after(pod, disrupted)
    found = conditions.find(pod["status"]["conditions"], "DisruptionTarget") or {}
    assert found["reason"] == "MadeHere"
    pod["status"] = after(pod, remote_pod(running()))
    assert conditions.find(pod["status"]["conditions"], "DisruptionTarget") == found


def test_conditions_of_others_survive():
    others = [
        condition("PodScheduled"),
        condition("example.org/gate", "False", reason="Mine"),
        condition("DisruptionTarget", reason="EvictionByEvictionAPI"),
    ]
    got = after(local({"conditions": others}), remote_pod(running()))
    assert [each for each in got["conditions"] if each in others] == others


def test_a_disruption_over_there_is_shown_here():
    there = remote_pod(running())
    there["status"]["conditions"].append(condition("DisruptionTarget", reason="Preempted"))
    got = after(local(), there)
    assert conditions.is_status(got["conditions"], "DisruptionTarget")


@pytest.mark.parametrize(
    ("gates", "here", "there", "ready"),
    [
        ([], [], "True", "True"),
        ([], [], "False", "False"),
        (["g"], [], "True", "False"),
        (["g"], [condition("g")], "True", "True"),
        (["g"], [condition("g", "False")], "True", "False"),
        (["g"], [condition("g")], "False", "False"),
    ],
)
def test_gates_are_decided_at_home(gates, here, there, ready):
    pod = local({"conditions": here}, readinessGates=[{"conditionType": g} for g in gates])
    got = after(pod, remote_pod(running(), ready=there))
    assert conditions.is_status(got["conditions"], "Ready", ready)
    assert conditions.is_status(got["conditions"], "ContainersReady", there)


def test_gates_that_the_peer_added_are_decided_there():
    there = remote_pod(running())
    there["spec"]["readinessGates"] = [{"conditionType": "theirs"}, {"conditionType": "mine"}]
    pod = local({"conditions": [condition("mine")]}, readinessGates=[{"conditionType": "mine"}])
    found = conditions.find(after(pod, there)["conditions"], "Ready") or {}
    assert (found["status"], found["reason"]) == ("False", "ReadinessGatesNotReady")
    assert '"theirs"' in found["message"]
    there["status"]["conditions"].append(condition("theirs"))
    assert conditions.is_status(after(pod, there)["conditions"], "Ready")


def ready_of(status):
    found = conditions.find(status["conditions"], "Ready") or {}
    return found["status"], found.get("reason"), found["lastTransitionTime"]


def test_what_nothing_gets_through_to_is_not_ready_and_is_again_from_when_it_does():
    pod = local()
    lost = after(pod, remote_pod(running()), unreachable="nothing gets through")
    assert ready_of(lost) == ("False", UNAVAILABLE, NOW)
    assert conditions.is_status(lost["conditions"], "ContainersReady")
    pod["status"] = lost
    assert run(pod, remote_pod(running()), unreachable="nothing gets through").status is None
    assert run(pod, remote_pod(running()), unreachable=None).status is None  # not known yet
    assert ready_of(after(pod, remote_pod(running()))) == ("True", None, NOW)
    # Of what is not Ready there anyway that is what is said.
    got = after(pod, remote_pod(running(ready=False), ready="False"), unreachable="nothing")
    assert ready_of(got)[:2] == ("False", None)
    assert ready_of(after(local(), remote_pod(running()), unreachable=None))[0] == "True"


def test_withdrawn_and_given_back_by_what_is_known_here_alone():
    pod = local()
    assert podstatus.withdrawn(pod, "nothing gets through", now=NOW) is None  # it never was Ready
    others = [condition("example.org/gate", "False"), condition("example.org/more")]
    pod["status"] |= after(local({"conditions": others}), remote_pod(running()))
    whole = pod["status"]
    assert podstatus.withdrawn(pod, "", now=NOW) is None
    assert podstatus.withdrawn(pod, None, now=NOW) is None
    patch = podstatus.withdrawn(pod, "nothing gets through", now=NOW) or {}
    assert ready_of(patch) == ("False", UNAVAILABLE, NOW)
    rest = [each for each in whole["conditions"] if each["type"] != "Ready"]
    assert [each for each in patch["conditions"] if each["type"] != "Ready"] == rest
    pod["status"] = {**whole, **patch}
    # As merging would have it, so that neither undoes the other.
    assert run(pod, remote_pod(running()), unreachable="nothing gets through").status is None
    assert podstatus.withdrawn(pod, "nothing gets through", now=NOW) is None
    assert podstatus.withdrawn(pod, None, now=NOW) is None
    assert ready_of(podstatus.withdrawn(pod, "", now=NOW) or {}) == ("True", None, NOW)
    closed = copy.deepcopy(pod)
    closed["spec"]["readinessGates"] = [{"conditionType": "example.org/gate"}]
    assert podstatus.withdrawn(closed, "", now=NOW) is None
    over = copy.deepcopy(pod)
    over["status"]["phase"] = "Failed"
    assert podstatus.withdrawn(over, "", now=NOW) is None


def test_a_pod_that_is_not_ready_for_another_reason_keeps_that():
    said = [condition("ContainersReady"), condition("Ready", "False", reason="NodeLost")]
    pod = local({"conditions": said})
    for unreachable in ("nothing gets through", None, ""):
        assert podstatus.withdrawn(pod, unreachable, now=NOW) is None


@pytest.mark.parametrize(
    ("gates", "open_there", "status"),
    [((), (), "False"), (("theirs",), ("theirs",), "False"), (("mine",), (), "True")],
)
def test_a_pod_whose_node_is_lost_there_is_not_ready(gates, open_there, status):
    there = remote_pod(running())
    found = there["status"]["conditions"]
    # Kubernetes says so of Ready alone; a gate that is closed there explains it otherwise.
    found[:] = [each for each in found if each["type"] != "Ready"]
    found += [condition("Ready", "False"), *map(condition, open_there)]
    there["spec"]["readinessGates"] = [{"conditionType": each} for each in gates]
    pod = local({"conditions": [condition("mine")]}, readinessGates=[{"conditionType": "mine"}])
    got = after(pod, there)
    assert ready_of(got)[0] == status
    if status == "False":
        assert ready_of(got)[1:] == ("NodeLost", THEN)


def test_times_move_with_the_status_only():
    old = "2026-11-20T00:00:00Z"
    before = [condition("Ready") | {"lastTransitionTime": old}]
    got = after(local({"conditions": before}), remote_pod(running()))
    assert (conditions.find(got["conditions"], "Ready") or {})["lastTransitionTime"] == old
    got = after(local({"conditions": before}), remote_pod(running(), ready="False"))
    assert (conditions.find(got["conditions"], "Ready") or {})["lastTransitionTime"] == THEN


def test_why_the_peer_has_no_place_for_it():
    there = remote_pod(phase="Pending")
    there["status"]["conditions"] = [
        condition("PodScheduled", "False", reason="Unschedulable", message="0/3 nodes")
    ]
    got = after(local(), there)
    assert (got["reason"], got["message"]) == ("Unschedulable", "0/3 nodes")
    assert not conditions.is_status(got["conditions"], "PodScheduled", "False")
