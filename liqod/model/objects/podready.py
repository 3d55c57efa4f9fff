"""Decides the condition Ready of a local pod: by its remote pod, its gates and its reachability."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from liqod.model.objects import conditions

Json = dict[str, Any]

READY: Final = "Ready"
CONTAINERS_READY: Final = "ContainersReady"
NODE_LOST: Final = "NodeLost"
"""Kubernetes' reason for a pod whose node at the peer does not answer."""
UNAVAILABLE: Final = "RemoteUnavailable"
"""Liqo's reason for a pod that was Ready at a peer that cannot be reached."""


def is_withdrawn(local: Mapping[str, Any]) -> bool:
    """True if a pod is not Ready only because it cannot be reached."""
    known = conditions.find((local.get("status") or {}).get("conditions"), READY) or {}
    return known.get("reason") == UNAVAILABLE


def as_reached(local: Mapping[str, Any], ready: Json, unreachable: str | None) -> Json:
    """The condition Ready, which no pod has that nothing gets through to."""
    unknown = unreachable is None and is_withdrawn(local)
    if ready.get("status") != "True" or not (unreachable or unknown):
        return ready
    before = conditions.find((local.get("status") or {}).get("conditions"), READY) or {}
    message = unreachable or before.get("message") or ""
    return {"type": READY, "status": "False", "reason": UNAVAILABLE, "message": message}


def ready_of(local: Mapping[str, Any], remote_pod: Mapping[str, Any]) -> Json:
    """Ready: the remote pod is, except for gates, and every gate of the local pod is open."""
    there = (remote_pod.get("status") or {}).get("conditions") or ()
    their_ready = conditions.find(there, READY) or {}
    containers = conditions.find(there, CONTAINERS_READY) or their_ready
    if containers.get("status") != "True":
        return {**plain(containers), "type": READY, "status": containers.get("status") or "False"}
    theirs = _closed(_gates(remote_pod), there)
    if their_ready.get("status", "True") != "True" and not theirs:
        # Its node is lost: Kubernetes then sets it on the pod, and leaves its containers' statuses.
        words = {"reason": NODE_LOST, "message": "its node at the peer does not answer"}
        said = {key: value for key, value in plain(their_ready).items() if value}
        return {**words, **said, "status": "False"}
    own = _gates(local)
    closed = _closed(own, (local.get("status") or {}).get("conditions"))
    closed += [gate for gate in theirs if gate not in own]
    if closed:
        message = "; ".join(f'readiness gate "{gate}" is not open' for gate in closed)
        reason = "ReadinessGatesNotReady"
        return {"type": READY, "status": "False", "reason": reason, "message": message}
    return {"type": READY, "status": "True"}


def _gates(pod: Mapping[str, Any]) -> list[str]:
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    return [gate["conditionType"] for gate in gates]


def _closed(gates: Iterable[str], found: Iterable[Mapping[str, Any]] | None) -> list[str]:
    return [gate for gate in gates if not conditions.is_status(found, gate)]


def plain(condition: Mapping[str, Any]) -> Json:
    """A condition without its time, and without the generation of a pod that is not this one."""
    left_out = ("lastTransitionTime", "lastProbeTime", "observedGeneration")
    return {key: value for key, value in condition.items() if key not in left_out}
