"""Pods, their ShadowPods and remote pods, and what the reflector of pods is shown of them."""

import copy
from typing import Any

import msgspec

from liqod.apimachinery.kinds import PODS
from liqod.plugins.contracts import Absence, RemoteObject
from liqod.plugins.reflectors import pods
from liqod.resources import SHADOW_PODS
from simulator.suites import NAMES, NOW, StaticView

Json = dict[str, Any]
UID = {"liqod.io/local-uid": "uid-web"}


def pod(status: Json | None = None, **more: Any) -> Json:
    meta = {"name": "web", "namespace": "shop", "uid": "uid-web", "labels": {"app": "web"}}
    spec = {"nodeName": "milan", "containers": [{"name": "web", "image": "nginx"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, **more.pop("metadata", {})},
        "spec": {**spec, **more.pop("spec", {})},
        "status": status if status is not None else {"phase": "Pending"},
    }


def remote_pod(phase: str = "Running", *, ready: bool = True, **status: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "uid": "uid-twin", "annotations": UID},
        "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        "status": {
            "phase": phase,
            "podIP": "10.30.0.7",
            "podIPs": [{"ip": "10.30.0.7"}],
            "conditions": [
                {"type": "Ready", "status": "True" if ready else "False"},
                {"type": "ContainersReady", "status": "True" if ready else "False"},
            ],
            "containerStatuses": [{"name": "web", "ready": ready, "restartCount": 0}],
            **status,
        },
    }


def shadow(created: str = "2026-01-02T03:04:00Z", **meta: Any) -> Json:
    return {
        "apiVersion": SHADOW_PODS.api_version,
        "kind": "ShadowPod",
        "metadata": {
            "name": "web",
            "uid": "uid-shadow",
            "resourceVersion": "7",
            "creationTimestamp": created,
            "annotations": UID,
            **meta,
        },
    }


RUNNING = pod(
    {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "liqod.io/Twin", "status": "True", "message": "pod uid-twin there"},
        ],
        "containerStatuses": [{"name": "web", "ready": True, "restartCount": 0}],
    }
)
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "milan"},
    "spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]},
}
NEED = RemoteObject(kind=SHADOW_PODS, name="web", version="7")


def look(lasts: float) -> RemoteObject:
    return RemoteObject(kind=PODS, name="web", lasts=lasts, patient=lasts != pods.SOON)


LASTS = (pods.SOON, pods.PACE, pods.SLOW_PACE)
NO_REMOTE_POD: dict[Any, Any] = {look(lasts): {} for lasts in LASTS}
LAST_LOOK = RemoteObject(kind=PODS, name="web", version=NOW, lasts=pods.SOON)


def found(phase: str = "Pending", **status: Any) -> Json:
    """A remote pod as it is read beside the watch."""
    made = remote_pod(phase, ready=False, **status)
    marks = {"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan"}
    return {**made, "metadata": {**made["metadata"], "labels": marks}}


def names(**changes: Any) -> Any:
    return msgspec.structs.replace(NAMES, **changes)


def view(**options: Any) -> StaticView:
    return StaticView(pods.REFLECTOR, **options)


def absent(absence: Absence) -> StaticView:
    return view(names=names(absence=absence, remote_namespace=""))


def terminating(base: Json) -> Json:
    made = copy.deepcopy(base)
    made["metadata"]["deletionTimestamp"] = NOW
    return made
