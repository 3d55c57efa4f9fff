"""The state machine of fake nodes, moment by moment."""

import pytest

from simulator.nodes import kubelet
from simulator.nodes.kubelet import Lived, Wait, step


def pod(phase="Pending", deleted=None, annotations=None, **more):
    meta = {
        "name": "p",
        "annotations": {f"simulator.liqod.io/{k}": v for k, v in (annotations or {}).items()},
    }
    if deleted is not None:
        meta |= {"deletionTimestamp": "x", "deletionGracePeriodSeconds": deleted}
    spec = {"containers": [{"name": "c", "image": "i"}], **more}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def shown(started=0.0, **more):
    """A running pod, and what is remembered of it."""
    found = pod("Running", **more)
    found["status"] = kubelet.running(found, "10.0.0.1", "172.0.0.1", "now")
    return found, Lived("u", 0.0, started=started, address="10.0.0.1")


def test_from_coming_to_running():
    lived = Lived("u", 10.0)
    assert step(pod(), lived, 10.0, delay=2.0) == Wait(2.0)
    assert step(pod(), lived, 11.5, delay=2.0) == Wait(0.5)
    assert step(pod(), lived, 12.0, delay=2.0) == "run"
    assert step(pod(annotations={"start-delay": "9"}), lived, 12.0, delay=2.0) == Wait(7.0)
    found, lived = shown()
    assert step(found, lived, 20.0, delay=2.0) is None


def test_status_that_somebody_else_changed_is_shown_again():
    found, lived = shown()
    found["status"]["podIP"] = "10.0.0.9"
    assert step(found, lived, 20.0, delay=0) == "run"


def test_completion():
    found, lived = shown(started=5.0, annotations={"completes-after": "3", "exit-code": "2"})
    assert step(found, lived, 6.0, delay=0) == Wait(2.0)
    assert step(found, lived, 8.0, delay=0) == "finish"
    status = kubelet.ended(found, "later")
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 2
    assert step(pod("Failed"), lived, 9.0, delay=0) is None


@pytest.mark.parametrize(
    ("grace", "takes", "left"), [(30, "", 0), (30, "4", 4), (2, "4", 2), (0, "4", 0)]
)
def test_stopping(grace, takes, left):
    annotations = {"stop-delay": takes} if takes else {}
    found, lived = pod("Running", deleted=grace, annotations=annotations), Lived("u", 0.0)
    expected = Wait(float(left)) if left else "remove"
    assert step(found, lived, 10.0, delay=0) == expected
    assert step(found, lived, 40.0, delay=0) == "remove"
    lived.removed = True
    assert step(found, lived, 41.0, delay=0) is None


def test_readiness_gates_are_decided_elsewhere():
    found, lived = shown(readinessGates=[{"conditionType": "x/y"}])
    conditions = {each["type"]: each for each in found["status"]["conditions"]}
    assert conditions["Ready"]["status"] == "False"
    assert conditions["Ready"]["reason"] == "ReadinessGatesNotReady"
    assert conditions["ContainersReady"]["status"] == "True"
    assert step(found, lived, 9.0, delay=0) is None
    found["status"]["conditions"].append({"type": "x/y", "status": "True"})
    assert step(found, lived, 9.0, delay=0) == "run"
    status = kubelet.running(found, "10.0.0.1", "172.0.0.1", "now")
    assert {"type": "x/y", "status": "True"} in status["conditions"]
    assert kubelet.is_ready({**found, "status": status})


def test_times_of_conditions_are_kept():
    found, _ = shown()
    again = kubelet.running(found, "10.0.0.1", "172.0.0.1", "later")
    assert {each["lastTransitionTime"] for each in again["conditions"]} == {"now"}
    assert again["startTime"] == "now"


def test_never_ready():
    found, _ = shown(annotations={"ready": "false"})
    conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
    assert conditions["Ready"] == conditions["ContainersReady"] == "False"
    assert found["status"]["containerStatuses"][0]["ready"] is False


def test_init_containers():
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always"}
    found, _ = shown(initContainers=[{"name": "i", "image": "i"}, sidecar])
    first, second = found["status"]["initContainerStatuses"]
    assert "terminated" in first["state"]
    assert "running" in second["state"]


def test_what_a_pod_needs():
    spec = {
        "containers": [
            {
                "name": "c",
                "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
                "env": [
                    {"name": "x", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}},
                    {
                        "name": "y",
                        "valueFrom": {"secretKeyRef": {"name": "no", "key": "k", "optional": True}},
                    },
                ],
            }
        ],
        "volumes": [
            {"name": "1", "configMap": {"name": "c"}},
            {"name": "2", "secret": {"secretName": "d"}},
            {"name": "3", "secret": {"secretName": "no", "optional": True}},
            {"name": "4", "projected": {"sources": [{"configMap": {"name": "e"}}]}},
        ],
    }
    assert kubelet.needed(spec) == [
        ("ConfigMap", "c"),
        ("Secret", "d"),
        ("ConfigMap", "e"),
        ("ConfigMap", "a"),
        ("Secret", "b"),
    ]
