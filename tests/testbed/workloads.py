"""Objects that the tests offload, as a user would write them, and where they are."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

Manifest = dict[str, Any]

# A fake node runs any image at once; a real one gets the tests' own.
CONTAINER: Manifest = {
    "name": "main",
    "image": "localhost/busybox:1",
    "imagePullPolicy": "Never",
    "command": ["/bin/sleep", "1000000"],
    "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}},
}


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class _Conditioned(msgspec.Struct, frozen=True):
    status: _Status = _Status()


_conditioned = msgspec.json.Decoder(_Conditioned)


def is_ready(body: bytes) -> bool:
    """True if a pod or a node, as JSON, has the condition Ready."""
    conditions = _conditioned.decode(body).status.conditions
    return any(one.type == "Ready" and one.status == "True" for one in conditions)


def core(namespace: str, resource: str, name: str = "") -> str:
    """The path of a namespaced collection of the core group, or of one object in it."""
    return "/".join(filter(None, (f"/api/v1/namespaces/{namespace}/{resource}", name)))


def group(api: str, namespace: str, resource: str, name: str = "") -> str:
    """The same for `group/version`."""
    return "/".join(filter(None, (f"/apis/{api}/namespaces/{namespace}/{resource}", name)))


def deployments(namespace: str, name: str = "") -> str:
    """The path of the Deployments of a namespace, or of one."""
    return group("apps/v1", namespace, "deployments", name)


def slices(namespace: str, name: str = "") -> str:
    """The path of the EndpointSlices of a namespace, or of one."""
    return group("discovery.k8s.io/v1", namespace, "endpointslices", name)


def pod_spec() -> Manifest:
    """A pod that sleeps."""
    return {"containers": [copy.deepcopy(CONTAINER)], "terminationGracePeriodSeconds": 1}


def pod(name: str, **more: Any) -> Manifest:
    """A bare pod; `more` goes into its spec."""
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": {**pod_spec(), **more}}


def deployment(name: str, replicas: int) -> Manifest:
    """A stock Deployment."""
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec()},
        },
    }


def service(name: str) -> Manifest:
    """A Service of the pods labelled `app=name`."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return {"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": ports}}
