"""Pods and their remote pods, for the tests of merging statuses."""

import copy
from typing import Any

from liqod.model.network.remapping import remap_received
from liqod.model.objects.patches import merged
from liqod.model.objects.podstatus import merge

NOW = "2026-11-21T03:00:00Z"
THEN = "2026-11-21T01:57:17Z"
NODE = "192.0.2.1"


def running(name="web", count=0, ready=True):
    state = {"running": {"startedAt": THEN}}
    return {"name": name, "ready": ready, "restartCount": count, "state": state, "lastState": {}}


def finished(name="web", code=0, count=0):
    state = {"terminated": {"exitCode": code, "reason": "Completed", "startedAt": THEN}}
    return {"name": name, "ready": False, "restartCount": count, "state": state, "lastState": {}}


def condition(kind, status="True", **more):
    return {"type": kind, "status": status, "lastTransitionTime": THEN, **more}


def local(status=None, policy="Always", names=("web",), marks=None, **spec) -> dict[str, Any]:
    containers = [{"name": name} for name in names]
    return {
        "metadata": {"name": "web", "labels": marks or {}},
        "spec": {"containers": containers, "restartPolicy": policy, "nodeName": "lz", **spec},
        "status": {"phase": "Pending", "qosClass": "Burstable", **(status or {})},
    }


def remote_pod(*containers, uid="1", ready="True", phase="Running", **status) -> dict[str, Any]:
    found = [condition("Initialized"), condition("Ready", ready)]
    found += [condition("ContainersReady", ready), condition("PodScheduled")]
    return {
        "metadata": {"name": "web", "uid": uid},
        "spec": {},
        "status": {
            "phase": phase,
            "qosClass": "BestEffort",
            "startTime": THEN,
            "podIP": "10.10.0.5",
            "podIPs": [{"ip": "10.10.0.5"}],
            "hostIP": "10.0.0.7",
            "conditions": found,
            "containerStatuses": list(containers),
            **status,
        },
    }


def cross(address):
    return remap_received(address, None, ("10.20.0.0/16",))


def run(pod, other, **options):
    before = copy.deepcopy((pod, other))
    result = merge(pod, other, node_address=NODE, now=NOW, **({"cross": cross} | options))
    assert (pod, other) == before
    return result


def after(pod, other, **options) -> dict[str, Any]:
    result = run(pod, other, **options)
    assert result.status is None or result.status
    return dict(merged(pod["status"], result.status or {}))
