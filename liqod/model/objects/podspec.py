"""The spec of the pod that a local pod becomes at a peer: ``ShadowPod.spec.pod``.

Made at creation; later changes that Kubernetes allows are applied to it
(:mod:`liqod.model.objects.podchanges`), and so are ephemeral containers, until they end. Fields
that concern this cluster's own machinery are left out: node, scheduler, priority, service account,
host namespaces, readiness gates. The API server that the pod uses is set by its annotation
``liqo.io/api-server-support`` and by settings: the peer's own, this cluster's (:mod:`.homeapi`), or
none. Unless it is the peer's, ``kube-root-ca.crt`` has the name of its reflection, and without an
address of this cluster's API server no token is in any volume. Pods and patches are plain JSON;
arguments are not changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from liqod.apimachinery import labels
from liqod.model import ids
from liqod.model.crossing.fields import COPIED, unselected
from liqod.model.objects import homeapi, restarts, selectors
from liqod.model.objects.homeapi import HomeApi

Json = dict[str, Any]

PLATFORM: Final = frozenset(
    {labels.OS, labels.ARCH, "beta.kubernetes.io/os", "beta.kubernetes.io/arch"}
)
"""Node labels whose selectors mean the same in every cluster, and so cross."""

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
"""Labels that distinguish pods of one workload, or of one revision of it."""


def shadow_spec(
    pod: Mapping[str, Any],
    *,
    consumer: str,
    patch: Mapping[str, Any] | None = None,
    home: HomeApi | None = None,
) -> Json:
    """The spec of the remote pod.

    Args:
        pod: the local pod.
        consumer: this cluster's id.
        patch: ``spec.offloadingPatch`` of the virtual node it is bound to.
        home: its access to the local API server.
    """
    local, patch = pod["spec"], patch or {}
    spec: Json = {name: local[name] for name in COPIED if local.get(name) is not None}
    spread = local.get("topologySpreadConstraints")
    if spread:
        spec["topologySpreadConstraints"] = [unselected(each) for each in spread]
    home = home or HomeApi()
    wanted = homeapi.access(pod, home.mode)
    remote_api = wanted == labels.API_SERVER_REMOTE
    with_tokens = wanted == labels.API_SERVER_HOME and bool(home.host)
    spec["automountServiceAccountToken"] = remote_api
    account = remote_account(pod)
    if account:
        spec["serviceAccountName"] = account
    debugging = _ephemeral(pod)
    if debugging:
        spec["ephemeralContainers"] = debugging
    if not remote_api:
        spec |= _with_home_names(spec, pod, consumer, with_tokens=with_tokens)
    if with_tokens:
        spec |= homeapi.led_home(spec, home)
    if spec.get("volumes"):
        name = pod["metadata"]["name"]
        spec["volumes"] = [_claimed(each, name) for each in spec["volumes"]]
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
    """The ephemeral containers that have not ended: a new remote pod runs none a second time."""
    status = pod.get("status") or {}
    over = {
        each["name"]
        for each in status.get("ephemeralContainerStatuses") or ()
        if restarts.has_ended(each)
    }
    return [
        each for each in pod["spec"].get("ephemeralContainers") or () if each["name"] not in over
    ]


# --- API access -----------------------------------------------------------------------------------


def _with_home_names(
    spec: Json, pod: Mapping[str, Any], consumer: str, *, with_tokens: bool
) -> Json:
    """Volumes and containers with the name at the peer of this cluster's CA.

    Its tokens are in a Secret at the peer, or else in no volume.
    """
    changed: Json = {}
    if spec.get("volumes"):
        kept = pod if with_tokens else None
        changed["volumes"] = [_volume(each, consumer, kept) for each in spec["volumes"]]
    account = homeapi.account(pod)
    for group in ("containers", "initContainers", "ephemeralContainers"):
        if spec.get(group):
            changed[group] = [_container(each, account, consumer) for each in spec[group]]
    return changed


def _volume(volume: Json, consumer: str, kept: Mapping[str, Any] | None) -> Json:
    """A volume; ``kept`` is the pod where it keeps its tokens."""
    projected = volume.get("projected")
    if not projected:
        return _renamed(volume, "configMap", consumer)
    given = projected.get("sources") or ()
    has_token = any("serviceAccountToken" in source for source in given)
    if kept is not None and has_token:
        given = [homeapi.projected(kept, volume["name"], source) for source in given]
    sources = [
        _renamed(source, "configMap", consumer)
        for source in given
        if "serviceAccountToken" not in source
    ]
    return {**volume, "projected": {**projected, "sources": sources}}


def _claimed(volume: Json, pod: str) -> Json:
    """An ephemeral volume as the local claim of its template, which follows its pod: named after
    both (``core/v1`` EphemeralVolumeSource)."""
    if "ephemeral" not in volume:
        return volume
    name = volume["name"]
    return {"name": name, "persistentVolumeClaim": {"claimName": f"{pod}-{name}"}}


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
    """The holder of a reference to a ConfigMap, with the ConfigMap's name at the peer."""
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
    """The node affinity of the virtual node, narrowed to the platforms that the pod requires."""
    node = dict(patch)
    required = ((local.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    platform = _platform_terms(required.get("nodeSelectorTerms") or ())
    added = (patch.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if platform:
        terms = selectors.product(platform, added) if added else platform
        node[_REQUIRED] = {"nodeSelectorTerms": terms}
    return node


def _platform_terms(terms: Sequence[Json]) -> list[Json]:
    """The terms reduced to os and arch; none where one of the alternatives requires neither."""
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
    """Anti-affinity by the pod's annotations, among similar pods at the peer."""
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
    """The ServiceAccount at the peer; empty for the default one, which has no token."""
    if homeapi.access(pod) != labels.API_SERVER_REMOTE:
        return ""
    annotations = pod["metadata"].get("annotations") or {}
    chosen = annotations.get(labels.REMOTE_SERVICE_ACCOUNT)
    return str(chosen or pod["spec"].get("serviceAccountName") or "")


def remote_runtime_class(pod: Mapping[str, Any], patch: Mapping[str, Any]) -> str:
    """The runtime class at the peer: by annotation, by the pod, by the virtual node."""
    annotations = pod["metadata"].get("annotations") or {}
    annotated: str = annotations.get(labels.REMOTE_RUNTIME_CLASS) or ""
    if annotated:
        return annotated
    for name in (pod["spec"].get("runtimeClassName"), patch.get("runtimeClassName")):
        if name and name != labels.RUNTIME_CLASS:
            return str(name)
    return ""
