"""The status of a local pod: what API servers refuse never comes out, and others keep theirs."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from liqod.model import labels
from liqod.model.objects import conditions, podstatus
from liqod.model.objects.patches import merged
from liqod.model.objects.podstatus import ABORTED, REMOTE_GONE, REMOTE_POD, RESTARTED
from tests.unit.model.pods import (
    NODE,
    NOW,
    THEN,
    after,
    condition,
    finished,
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


def test_an_unreachable_peer_makes_unready():
    pod = local(marks={labels.REMOTE_UNAVAILABLE: "true"})
    found = conditions.find(after(pod, remote_pod(running()))["conditions"], "Ready") or {}
    assert (found["status"], found["lastTransitionTime"]) == ("False", NOW)


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


# --- re-creation and ends -------------------------------------------------------------------------


def test_restarts_count_remote_pods():
    pod = local()
    pod["status"] = after(pod, remote_pod(running(count=2)))
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 2
    for times, uid in ((1, "2"), (1, "2"), (2, "3")):
        pod["status"] = after(pod, remote_pod(running(count=1), uid=uid))
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 1 + times
        remote_pods = conditions.find(pod["status"]["conditions"], REMOTE_POD) or {}
        assert remote_pods["message"] == f"pod {uid} there, made again {times} times"


def test_containers_that_the_peer_added_are_not_shown():
    got = after(local(), remote_pod(running(), running("proxy")))
    assert [each["name"] for each in got["containerStatuses"]] == ["web"]


@pytest.mark.parametrize(
    ("policy", "before", "now_there", "fails"),
    [
        ("Always", finished(), running(), False),
        ("Never", finished(), running(), True),
        ("Never", finished(code=1), running(), True),
        ("Never", finished(), finished(), False),
        ("OnFailure", finished(), running(), True),
        ("OnFailure", finished(code=1), running(), False),
        ("Never", running(), running(), False),
    ],
)
def test_back_from_terminated_is_failed(policy, before, now_there, fails):
    names = ("web", "side")
    status = {"phase": "Running", "containerStatuses": [before, running("side")]}
    pod = local(status, policy, names)
    result = run(pod, remote_pod(now_there, running("side")))
    assert result.failed is fails
    if fails:
        got = merged(pod["status"], result.status)
        assert (got["phase"], got["reason"]) == ("Failed", RESTARTED)
        assert "container web" in got["message"]
        assert got["containerStatuses"][0]["state"] == before["state"]
        assert got["containerStatuses"][1]["state"]["terminated"]["exitCode"] == 1


def test_a_new_remote_pod_that_has_not_started_is_back_from_terminated_too():
    pod = local(policy="Never", names=("web", "side"))
    pod["status"] = after(pod, remote_pod(finished(), running("side")))
    assert not run(pod, remote_pod(running("side"), uid="1")).failed
    assert run(pod, remote_pod(uid="2", phase="Pending")).failed


AGAIN_ON_42 = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
ALL_BUT_0 = [{"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}}]


@pytest.mark.parametrize(
    ("policy", "own", "code", "fails"),
    [
        ("Never", {"restartPolicy": "OnFailure"}, 1, False),
        ("Never", {"restartPolicy": "OnFailure"}, 0, True),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": AGAIN_ON_42}, 42, False),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": AGAIN_ON_42}, 1, True),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": ALL_BUT_0}, 0, False),
        ("Always", {"restartPolicy": "Never"}, 1, True),
        ("OnFailure", {"restartPolicy": "Always"}, 0, False),
    ],
)
def test_a_containers_own_policy_and_rules_stand_for_the_pods(policy, own, code, fails):
    status = {"phase": "Running", "containerStatuses": [finished(code=code), running("side")]}
    pod = local(status, policy, ("web", "side"))
    pod["spec"]["containers"][0] |= own
    assert run(pod, remote_pod(running(), running("side"))).failed is fails


def test_sidecars_may_run_again():
    sidecar = [{"name": "proxy", "restartPolicy": "Always"}]
    status = {"initContainerStatuses": [finished("proxy")]}
    pod = local(status, "Never", initContainers=sidecar)
    there = remote_pod(running(), initContainerStatuses=[running("proxy")])
    assert not run(pod, there).failed


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminal_phase_here_is_final(phase):
    pod = local({"phase": phase})
    assert run(pod, remote_pod(running())).status is None
    assert run(pod, None, shadow_phase="Succeeded").status is None
    assert podstatus.waiting(pod, "x", "y") is None


@pytest.mark.parametrize(("phase", "code"), [("Succeeded", 0), ("Failed", 1)])
def test_the_shadows_phase_stands_where_the_remote_pod_is_gone(phase, code):
    status = {
        "phase": "Running",
        "containerStatuses": [running(), finished("side", 3)],
        "conditions": [condition("Ready"), condition("mine")],
    }
    got = after(local(status), None, shadow_phase=phase)
    assert (got["phase"], got["reason"]) == (phase, REMOTE_GONE)
    web, side = got["containerStatuses"]
    assert web["state"] == {
        "terminated": {
            "exitCode": code,
            "reason": REMOTE_GONE,
            "startedAt": THEN,
            "finishedAt": NOW,
        }
    }
    assert side["state"]["terminated"]["exitCode"] == 3
    assert conditions.is_status(got["conditions"], "Ready", "False")
    assert conditions.is_status(got["conditions"], "mine")


def test_nothing_is_known_without_a_remote_pod():
    assert run(local({"phase": "Running"}), None).status is None
    assert run(local(), None, shadow_phase="Pending").status is None


def test_waiting_says_why_once():
    pod = local()
    patch = podstatus.waiting(pod, "OverQuota", "no room")
    assert patch == {"reason": "OverQuota", "message": "no room"}
    pod["status"] |= patch
    assert podstatus.waiting(pod, "OverQuota", "no room") is None


def test_ended_by_us():
    pod = local({"phase": "Running", "containerStatuses": [running() | {"started": True}]})
    patch = podstatus.ended(pod, "Failed", ABORTED, "the namespace left", now=NOW)
    assert patch["phase"] == "Failed"
    assert patch["containerStatuses"][0]["started"] is False
