"""The status of a local pod whose remote pod is made again, or ends."""

import pytest

from liqod.model.objects import conditions, podstatus
from liqod.model.objects.patches import merged
from liqod.model.objects.podstatus import (
    ABORTED,
    DISRUPTED,
    REMOTE_GONE,
    REMOTE_POD,
    RESTARTED,
    RemotePodRecord,
    is_disrupted_there,
)
from tests.unit.model.pods import (
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


def test_the_remote_pod_is_known_by_the_conditions_reason():
    pod = local()
    pod["status"] = after(pod, remote_pod(running(), uid="1"))
    (told,) = (each for each in pod["status"]["conditions"] if each["type"] == REMOTE_POD)
    assert told["reason"] == "1:0"
    told["message"] = "in other words"
    pod["status"] = after(pod, remote_pod(running(), uid="2"))
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1


@pytest.mark.parametrize("reason", [None, DISRUPTED])
def test_a_count_of_a_version_without_that_reason_goes_on(reason: str | None):
    """Its message alone says it; and the reason, where the remote pod is disrupted."""
    pod = local()
    pod["status"] = after(pod, remote_pod(running(), uid="2"))
    (told,) = (each for each in pod["status"]["conditions"] if each["type"] == REMOTE_POD)
    told["reason"], told["message"] = reason, "pod 2 there, made again 4 times"
    assert is_disrupted_there(pod) == (reason is not None)
    pod["status"] = after(pod, remote_pod(running(), uid="3"))
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 5
    assert (conditions.find(pod["status"]["conditions"], REMOTE_POD) or {})["reason"] == "3:5"


@pytest.mark.parametrize("reason", ["", "1", "1:", ":1", "1:x", f"1:{'9' * 5000}", "1:2:3"])
def test_a_reason_that_somebody_else_wrote_is_no_record(reason: str):
    told = {"type": REMOTE_POD, "status": "True", "reason": reason, "message": ""}
    assert RemotePodRecord.of({"status": {"conditions": [told]}}) == RemotePodRecord()


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
