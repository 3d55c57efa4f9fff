"""The spec of the pod that a local pod becomes at a peer: ``ShadowPod.spec.pod``.

Made at creation; of what Kubernetes lets one change later each change is brought there
(:mod:`liqod.model.objects.podchanges`), and so are ephemeral containers, until they end. What
speaks of this cluster's own machinery stays here: node, scheduler, priority, service account, host
namespaces, readiness gates. Access to an API server is off unless the pod asks for the peer's own
(annotation ``liqo.io/api-server-support: remote``): tokens of the home cluster are taken out of
projected volumes, and ``kube-root-ca.crt`` is referred to by the name it is reflected under. Pods
and patches are plain JSON; nothing that is passed in is changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from liqod.model import ids, labels
from liqod.model.crossing.fields import COPIED, unselected
from liqod.model.objects import selectors

Json = dict[str, Any]

PLATFORM: Final = frozenset(
    {labels.OS, labels.ARCH, "beta.kubernetes.io/os", "beta.kubernetes.io/arch"}
)
"""Node labels whose selectors mean the same in every cluster, and so travel."""

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_PER_POD: Final = frozenset(
    {
        "controller-revision-hash",
        "pod-template-hash",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        labels.SHADOW_POD,
    }
)
"""Labels that tell pods of one workload, or of one revision of it, apart."""


def api_access(pod: Mapping[str, Any]) -> str:
    """Which API server the pod reaches from over there: ``disabled`` or ``remote``."""
    annotations = pod["metadata"].get("annotations") or {}
    chosen = annotations.get(labels.API_SERVER_SUPPORT)
    return labels.API_SERVER_REMOTE if chosen == "remote" else labels.API_SERVER_DISABLED


def shadow_spec(
    pod: Mapping[str, Any], *, consumer: str, patch: Mapping[str, Any] | None = None
) -> Json:
    """The spec of the pod over there.

    Args:
        pod: the local pod.
        consumer: this cluster's id.
        patch: ``spec.offloadingPatch`` of the virtual node it is bound to.
    """
    local, patch = pod["spec"], patch or {}
    spec: Json = {name: local[name] for name in COPIED if local.get(name) is not None}
    spread = local.get("topologySpreadConstraints")
    if spread:
        spec["topologySpreadConstraints"] = [unselected(each) for each in spread]
    remote_api = api_access(pod) == labels.API_SERVER_REMOTE
    spec["automountServiceAccountToken"] = remote_api
    account = remote_account(pod)
    if account:
        spec["serviceAccountName"] = account
    debugging = _ephemeral(pod)
    if debugging:
        spec["ephemeralContainers"] = debugging
    if not remote_api:
        spec |= _without_home_api(spec, local, consumer)
    if local.get("hostNetwork"):
        spec |= _without_host_ports(spec)
    tolerations = _tolerations(local, patch)
    if tolerations:
        spec["tolerations"] = tolerations
    node_selector = _node_selector(local, patch)
    if node_selector:
        spec["nodeSelector"] = node_selector
    affinity = _affinity(pod, patch)
    if affinity:
        spec["affinity"] = affinity
    runtime_class = remote_runtime_class(pod, patch)
    if runtime_class:
        spec["runtimeClassName"] = runtime_class
    return spec


def _ephemeral(pod: Mapping[str, Any]) -> list[Json]:
    """The ephemeral containers that have not ended: what is made anew there runs none a second
    time."""
    status = pod.get("status") or {}
    over = {
        each["name"]
        for each in status.get("ephemeralContainerStatuses") or ()
        if (each.get("state") or {}).get("terminated") is not None
    }
    return [
        each for each in pod["spec"].get("ephemeralContainers") or () if each["name"] not in over
    ]


# --- API access -----------------------------------------------------------------------------------


def _without_home_api(spec: Json, local: Mapping[str, Any], consumer: str) -> Json:
    """Volumes and containers without the home cluster's tokens and with its CA's other name."""
    changed: Json = {}
    if spec.get("volumes"):
        changed["volumes"] = [_volume(each, consumer) for each in spec["volumes"]]
    account = local.get("serviceAccountName") or "default"
    for group in ("containers", "initContainers", "ephemeralContainers"):
        if spec.get(group):
            changed[group] = [_container(each, account, consumer) for each in spec[group]]
    return changed


def _volume(volume: Json, consumer: str) -> Json:
    projected = volume.get("projected")
    if projected:
        sources = [
            _renamed(source, "configMap", consumer)
            for source in projected.get("sources") or ()
            if "serviceAccountToken" not in source
        ]
        return {**volume, "projected": {**projected, "sources": sources}}
    return _renamed(volume, "configMap", consumer)


def _container(container: Json, account: str, consumer: str) -> Json:
    changed = dict(container)
    if container.get("env"):
        changed["env"] = [_variable(each, account, consumer) for each in container["env"]]
    if container.get("envFrom"):
        sources = container["envFrom"]
        changed["envFrom"] = [_renamed(each, "configMapRef", consumer) for each in sources]
    return changed


def _variable(variable: Json, account: str, consumer: str) -> Json:
    source = variable.get("valueFrom")
    if not source:
        return variable
    if (source.get("fieldRef") or {}).get("fieldPath") == "spec.serviceAccountName":
        return {"name": variable["name"], "value": account}
    return {**variable, "valueFrom": _renamed(source, "configMapKeyRef", consumer)}


def _renamed(holder: Json, key: str, consumer: str) -> Json:
    """The holder of a reference to a ConfigMap, which is by the name it has over there."""
    reference = holder.get(key)
    if not reference or reference.get("name") != labels.ROOT_CA:
        return holder
    return {**holder, key: {**reference, "name": ids.root_ca_name(consumer)}}


# --- The host -------------------------------------------------------------------------------------


def _without_host_ports(spec: Json) -> Json:
    """Containers without the host ports that the API server gave them for ``hostNetwork``."""
    changed: Json = {}
    for group in ("containers", "initContainers"):
        if spec.get(group):
            changed[group] = [_without_host_port(each) for each in spec[group]]
    return changed


def _without_host_port(container: Json) -> Json:
    ports = [
        {k: v for k, v in port.items() if k != "hostPort" or v != port.get("containerPort")}
        for port in container.get("ports") or ()
    ]
    return {**container, "ports": ports} if ports else container


# --- Where it may run -----------------------------------------------------------------------------


def _tolerations(local: Mapping[str, Any], patch: Mapping[str, Any]) -> list[Json]:
    kept = [
        each
        for each in local.get("tolerations") or ()
        if each.get("key") != labels.VIRTUAL_NODE_TAINT
    ]
    return [*kept, *(each for each in patch.get("tolerations") or () if each not in kept)]


def _node_selector(local: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, str]:
    wanted: dict[str, str] = local.get("nodeSelector") or {}
    platform = {key: value for key, value in wanted.items() if key in PLATFORM}
    return {**platform, **(patch.get("nodeSelector") or {})}


def _affinity(pod: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    affinity: Json = {}
    node = _node_affinity(pod["spec"], (patch.get("affinity") or {}).get("nodeAffinity") or {})
    if node:
        affinity["nodeAffinity"] = node
    apart = _anti_affinity(pod)
    if apart:
        affinity["podAntiAffinity"] = apart
    return affinity


def _node_affinity(local: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    """What the virtual node adds, narrowed to the platforms that the pod itself asks for."""
    node = dict(patch)
    required = ((local.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    platform = _platform_terms(required.get("nodeSelectorTerms") or ())
    added = (patch.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if platform:
        terms = selectors.product(platform, added) if added else platform
        node[_REQUIRED] = {"nodeSelectorTerms": terms}
    return node


def _platform_terms(terms: Sequence[Json]) -> list[Json]:
    """The terms reduced to os and arch; none where one of the alternatives asks for neither."""
    reduced: list[Json] = []
    for term in terms:
        expressions = [
            each for each in term.get("matchExpressions") or () if each.get("key") in PLATFORM
        ]
        if not expressions:
            return []
        if {"matchExpressions": expressions} not in reduced:
            reduced.append({"matchExpressions": expressions})
    return reduced


def _anti_affinity(pod: Mapping[str, Any]) -> Json:
    """Anti-affinity by the pod's annotations, among its like over there."""
    annotations = pod["metadata"].get("annotations") or {}
    preset = annotations.get(labels.ANTI_AFFINITY_PRESET)
    if preset == "propagate":
        return _unselected((pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {})
    if preset not in ("soft", "hard"):
        return {}
    chosen = annotations.get(labels.ANTI_AFFINITY_LABELS, "")
    names = frozenset(name.strip() for name in chosen.split(",") if name.strip())
    marks = {
        key: value
        for key, value in (pod["metadata"].get("labels") or {}).items()
        if (key in names if names else key not in _PER_POD)
    }
    term = {"labelSelector": {"matchLabels": marks}, "topologyKey": labels.HOSTNAME}
    if not marks:
        # An empty selector would hold every pod of the namespace apart.
        return {}
    if preset == "hard":
        return {_REQUIRED: [term]}
    return {_PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}


def _unselected(apart: Json) -> Json:
    """The pod's own anti-affinity, without label keys that its selectors have already."""
    changed: Json = {**apart}
    if apart.get(_REQUIRED):
        changed[_REQUIRED] = [unselected(each) for each in apart[_REQUIRED]]
    if apart.get(_PREFERRED):
        changed[_PREFERRED] = [
            {**each, "podAffinityTerm": unselected(each.get("podAffinityTerm") or {})}
            for each in apart[_PREFERRED]
        ]
    return changed


def remote_account(pod: Mapping[str, Any]) -> str:
    """The ServiceAccount over there; empty for the default one, which has no token."""
    if api_access(pod) != labels.API_SERVER_REMOTE:
        return ""
    annotations = pod["metadata"].get("annotations") or {}
    chosen = annotations.get(labels.REMOTE_SERVICE_ACCOUNT)
    return str(chosen or pod["spec"].get("serviceAccountName") or "")


def remote_runtime_class(pod: Mapping[str, Any], patch: Mapping[str, Any]) -> str:
    """The runtime class over there: by annotation, by the pod, by the virtual node."""
    annotations = pod["metadata"].get("annotations") or {}
    annotated: str = annotations.get(labels.REMOTE_RUNTIME_CLASS) or ""
    if annotated:
        return annotated
    for name in (pod["spec"].get("runtimeClassName"), patch.get("runtimeClassName")):
        if name and name != labels.RUNTIME_CLASS:
            return str(name)
    return ""
