"""The state machine of fake nodes: the next step of a kubelet with a pod. Pure.

Annotations on a pod steer it, for tests and demos:

- ``simulator.liqod.io/start-delay``: seconds until it runs, instead of the node's.
- ``simulator.liqod.io/completes-after``: seconds of running after which it ends.
- ``simulator.liqod.io/exit-code``: what it ends with; 0 unless said otherwise.
- ``simulator.liqod.io/ready``: ``false`` for a pod that runs and is never ready.
- ``simulator.liqod.io/stop-delay``: seconds that it takes to stop, within its grace.
"""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

Json = dict[str, Any]

PREFIX = "simulator.liqod.io/"
_TERMINAL = ("Succeeded", "Failed")
_OURS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


class Lived(msgspec.Struct):
    """A fake kubelet's record of a pod.

    Attributes:
        uid: which pod it is.
        seen: when it came, in seconds of the agent's clock.
        started: when it began to run; None before.
        leaving: when its deletion began; None before.
        address: its IP; ``""`` before it runs.
        removed: whether its deletion has been completed by this kubelet.
    """

    uid: str
    seen: float
    started: float | None = None
    leaving: float | None = None
    address: str = ""
    removed: bool = False


class Wait(msgspec.Struct, frozen=True):
    """Nothing to do before so many seconds have passed."""

    seconds: float


Step = Wait | Literal["run", "finish", "remove"] | None
"""The next step: wait, show it running, show it ended, complete its deletion, or nothing."""


def step(pod: Json, lived: Lived, now: float, *, delay: float) -> Step:
    """The next step with a pod at this moment; None for nothing at all.

    Args:
        delay: seconds from coming to running.
    """
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return _leave(pod, lived, now)
    if status.get("phase") in _TERMINAL:
        return None
    if lived.started is None:
        left = lived.seen + _number(pod, "start-delay", delay) - now
        return Wait(left) if left > 0 else "run"
    if status.get("phase") != "Running" or not _shown(pod, lived):
        return "run"
    ends = completes_after(pod)
    if ends is None:
        return None
    left = lived.started + ends - now
    return Wait(left) if left > 0 else "finish"


def _shown(pod: Json, lived: Lived) -> bool:
    """True if the pod shows what its kubelet knows; readiness gates may have changed it."""
    status = pod["status"]
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    ready = "True" if is_ready(pod) else "False"
    return status.get("podIP") == lived.address and conditions.get("Ready") == ready


def _leave(pod: Json, lived: Lived, now: float) -> Step:
    if lived.removed:
        return None
    if lived.leaving is None:
        lived.leaving = now
    grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    takes = min(grace, _number(pod, "stop-delay", 0.0))
    left = lived.leaving + takes - now
    return Wait(left) if left > 0 else "remove"


def _annotation(pod: Json, name: str) -> str:
    found: str = (pod["metadata"].get("annotations") or {}).get(PREFIX + name, "")
    return found


def _number(pod: Json, name: str, default: float) -> float:
    text = _annotation(pod, name)
    return float(text) if text else default


def is_ready(pod: Json) -> bool:
    """True if a running pod is ready: its gates are open and its annotation does not deny it."""
    conditions = {
        each["type"]: each["status"] for each in (pod.get("status") or {}).get("conditions") or ()
    }
    gates = pod["spec"].get("readinessGates") or ()
    open_gates = all(conditions.get(gate["conditionType"]) == "True" for gate in gates)
    return open_gates and _annotation(pod, "ready") != "false"


def running(pod: Json, address: str, host: str, now: str) -> Json:
    """The status of a pod that runs."""
    ready = is_ready(pod)
    started = _annotation(pod, "ready") != "false"
    spec = pod["spec"]
    begun = (pod.get("status") or {}).get("startTime") or now
    status: Json = {
        "phase": "Running",
        "conditions": _conditions(pod, ready, started, now),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": begun,
        "containerStatuses": [
            _container(each, {"running": {"startedAt": begun}}, started)
            for each in spec["containers"]
        ],
        "observedGeneration": pod["metadata"].get("generation", 0),
    }
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _container(each, *_init_state(each, now)) for each in spec["initContainers"]
        ]
    return status


def _init_state(container: Json, now: str) -> tuple[Json, bool]:
    if container.get("restartPolicy") == "Always":
        return {"running": {"startedAt": now}}, True
    return {"terminated": _terminated(0, now, now)}, True


def ended(pod: Json, now: str) -> Json:
    """The status of a pod whose containers have ended for good."""
    code = int(_number(pod, "exit-code", 0))
    begun = (pod.get("status") or {}).get("startTime") or now
    reason = "PodCompleted" if code == 0 else "PodFailed"
    return {
        "phase": "Succeeded" if code == 0 else "Failed",
        "conditions": _conditions(pod, False, False, now, reason),
        "containerStatuses": [
            _container(each, {"terminated": _terminated(code, begun, now)}, False)
            for each in pod["spec"]["containers"]
        ],
    }


def _terminated(code: int, begun: str, now: str) -> Json:
    reason = "Completed" if code == 0 else "Error"
    return {"exitCode": code, "reason": reason, "startedAt": begun, "finishedAt": now}


def _container(container: Json, state: Json, ready: bool) -> Json:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": f"simulated://{container.get('image', '')}",
        "containerID": f"simulated://{container['name']}",
        "ready": ready,
        "started": "running" in state,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }


def _conditions(pod: Json, ready: bool, started: bool, now: str, reason: str = "") -> list[Json]:
    """Ours, with their times kept where they have not changed, and everybody else's."""
    known = {each["type"]: each for each in (pod.get("status") or {}).get("conditions") or ()}
    facts = {
        "PodReadyToStartContainers": not reason,
        "Initialized": True,
        "Ready": ready,
        "ContainersReady": started,
    }
    result = [each for kind, each in known.items() if kind not in _OURS]
    for kind, holds in facts.items():
        text = "True" if holds else "False"
        before = known.get(kind, {})
        same = before.get("status") == text
        condition = {
            "type": kind,
            "status": text,
            "lastProbeTime": None,
            "lastTransitionTime": before.get("lastTransitionTime") if same else now,
        }
        if not holds:
            condition["reason"] = reason or (
                "ReadinessGatesNotReady" if kind == "Ready" and started else "ContainersNotReady"
            )
        result.append(condition)
    return result


def completes_after(pod: Json) -> float | None:
    """Seconds of running after which a pod ends, or None."""
    text = _annotation(pod, "completes-after")
    return float(text) if text else None


def needed(spec: Json) -> list[tuple[str, str]]:
    """The ConfigMaps and Secrets without which a pod cannot start: (kind, name), each once."""
    found: dict[tuple[str, str], None] = {}

    def note(kind: str, source: Json | None, field: str = "name") -> None:
        if source and not source.get("optional") and source.get(field):
            found[kind, source[field]] = None

    for volume in spec.get("volumes") or ():
        note("ConfigMap", volume.get("configMap"))
        note("Secret", volume.get("secret"), "secretName")
        for source in (volume.get("projected") or {}).get("sources") or ():
            note("ConfigMap", source.get("configMap"))
            note("Secret", source.get("secret"))
    for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
        for source in container.get("envFrom") or ():
            note("ConfigMap", source.get("configMapRef"))
            note("Secret", source.get("secretRef"))
        for variable in container.get("env") or ():
            value = variable.get("valueFrom") or {}
            note("ConfigMap", value.get("configMapKeyRef"))
            note("Secret", value.get("secretKeyRef"))
    return list(found)


def events(pod: Json, now: str) -> Iterator[Json]:
    """The Events of a pod that starts, as a kubelet words them: four for each container."""
    meta, node = pod["metadata"], pod["spec"]["nodeName"]
    for container in pod["spec"]["containers"]:
        name, image = container["name"], container.get("image", "")
        said = {
            "Pulling": f'Pulling image "{image}"',
            "Pulled": f'Successfully pulled image "{image}" in 1.062s (1.062s including waiting). '
            "Image size: 72099501 bytes.",
            "Created": f"Container created: {name}",
            "Started": f"Container started: {name}",
        }
        for reason, message in said.items():
            yield {
                "metadata": {
                    "name": f"{meta['name']}.{name}.{reason.lower()}.{meta['uid'][:8]}",
                    "namespace": meta["namespace"],
                },
                "involvedObject": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": meta["namespace"],
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "resourceVersion": meta.get("resourceVersion", ""),
                    "fieldPath": f"spec.containers{{{name}}}",
                },
                "type": "Normal",
                "reason": reason,
                "message": message,
                "source": {"component": "kubelet", "host": node},
                "reportingComponent": "kubelet",
                "reportingInstance": node,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            }
