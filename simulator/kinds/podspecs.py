"""Defaults of pod specs and templates, as ``k8s.io/kubernetes/pkg/apis/core/v1`` sets them.

They matter beyond looks: liqod compares what it wants with what a server made of it.
"""

from typing import Any

from simulator.kinds.base import default, section

Json = dict[str, Any]

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_MODED = ("secret", "configMap", "projected", "downwardAPI")


def default_template(template: Json) -> None:
    """A pod template: its spec, and the metadata that is always shown."""
    section(template, "metadata")
    default_spec(section(template, "spec"))


def default_spec(spec: Json) -> None:
    """A pod spec, in place."""
    default(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            _default_container(container)
            if spec.get("hostNetwork"):
                for port in container.get("ports") or ():
                    default(port, hostPort=port.get("containerPort"))
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def _default_container(container: Json) -> None:
    tag = str(container.get("image", "")).rpartition("/")[2].partition("@")[0].partition(":")[2]
    pinned = "@" in str(container.get("image", ""))
    latest = tag in ("", "latest") and not pinned
    default(
        container,
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if latest else "IfNotPresent",
        resources={},
    )
    limits = container["resources"].get("limits")
    if limits:
        requests = section(container["resources"], "requests")
        for name, amount in limits.items():
            requests.setdefault(name, amount)
    for port in container.get("ports") or ():
        default(port, protocol="TCP")
    for variable in container.get("env") or ():
        field = (variable.get("valueFrom") or {}).get("fieldRef")
        if field:
            default(field, apiVersion="v1")
    for name in _PROBES:
        if container.get(name):
            _default_probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        _default_action(hook)


def _default_probe(probe: Json) -> None:
    default(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    _default_action(probe)
    if probe.get("grpc"):
        default(probe["grpc"], service="")


def _default_action(action: Any) -> None:
    if isinstance(action, dict) and action.get("httpGet"):
        default(action["httpGet"], scheme="HTTP", path="/")


def _default_volume(volume: Json) -> None:
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}
    for kind in _MODED:
        if volume.get(kind) is not None:
            default(volume[kind], defaultMode=420)
    if volume.get("hostPath") is not None:
        default(volume["hostPath"], type="")
    projected = volume.get("projected") or {}
    for source in projected.get("sources") or ():
        if source.get("serviceAccountToken") is not None:
            default(source["serviceAccountToken"], expirationSeconds=3600)
        _default_fields(source.get("downwardAPI"))
    _default_fields(volume.get("downwardAPI"))


def _default_fields(downward: Json | None) -> None:
    for item in (downward or {}).get("items") or ():
        if item.get("fieldRef"):
            default(item["fieldRef"], apiVersion="v1")
