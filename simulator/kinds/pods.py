"""Pods: what admission adds to them, their first status, and what of them never changes."""

from copy import deepcopy
from typing import Any

from simulator.catalog import Resource
from simulator.kinds.base import Strategy, Surroundings, default, keep, section
from simulator.kinds.podspecs import default_spec
from simulator.texts import suffix
from simulator.wire.failures import (
    ApiError,
    Cause,
    forbidden_field,
    invalid,
    required,
    wrong,
)

Json = dict[str, Any]

ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions"
    " to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it"
    " was previously negative)"
)


class PodStrategy(Strategy):
    """Pods, with the plugins ServiceAccount, Priority and DefaultTolerationSeconds."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        spec = section(obj, "spec")
        default_spec(spec)
        default(spec, enableServiceLinks=True)

    def admit(self, obj: Json, around: Surroundings) -> None:
        """As the base class says."""
        spec = obj["spec"]
        _admit_account(obj, spec, around)
        _admit_runtime_class(obj, spec, around)
        _admit_tolerations(spec)
        _admit_priority(obj, spec, around)

    def create(self, resource: Resource, obj: Json, around: Surroundings) -> None:
        """As the base class says."""
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastProbeTime": None,
                    "lastTransitionTime": None,
                }
            ]

    def update_status(self, resource: Resource, new: Json, old: Json) -> None:
        """As the base class says; a QoS class never changes and owners are not touched here."""
        super().update_status(resource, new, old)
        keep(new["metadata"], old["metadata"], "ownerReferences")
        quality = (old.get("status") or {}).get("qosClass")
        if quality:
            section(new, "status")["qosClass"] = quality

    def update_part(self, resource: Resource, part: str, new: Json, old: Json) -> None:
        """As the base class says: resources of containers, or more ephemeral containers."""
        asked = new["spec"]
        new["spec"], new["status"] = deepcopy(old["spec"]), deepcopy(old.get("status") or {})
        new["metadata"] = {**deepcopy(old["metadata"])}
        causes = (_resize if part == "resize" else _debug)(new["spec"], asked)
        if causes:
            raise invalid(resource, old["metadata"]["name"], causes)

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """As the base class says."""
        if old is not None:
            return _check_update(obj["spec"], old["spec"])
        return _check_spec(obj["spec"])


def _resize(spec: Json, asked: Json) -> list[Cause]:
    before = qos_class(spec)
    for group in ("initContainers", "containers"):
        wanted = {each["name"]: each for each in asked.get(group) or ()}
        for container in spec.get(group) or ():
            keep(container, wanted.get(container["name"], container), "resources")
    after = qos_class(spec)
    if after == before:
        return []
    return [wrong("spec", after, "Pod QOS Class may not change as a result of resizing")]


def _debug(spec: Json, asked: Json) -> list[Cause]:
    before = {each["name"]: each for each in spec.get("ephemeralContainers") or ()}
    spec["ephemeralContainers"] = asked.get("ephemeralContainers") or []
    after = {each.get("name"): each for each in spec["ephemeralContainers"]}
    path = "spec.ephemeralContainers"
    if any(after.get(name) != each for name, each in before.items()):
        return [forbidden_field(path, "existing ephemeral containers may not be changed")]
    return [required(f"{path}.image") for each in after.values() if not each.get("image")]


def _check_spec(spec: Json) -> list[Cause]:
    causes = []
    if not spec.get("containers"):
        causes.append(required("spec.containers"))
    if spec.get("ephemeralContainers"):
        causes.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    for group in ("initContainers", "containers"):
        names: set[str] = set()
        for index, container in enumerate(spec.get(group) or ()):
            path = f"spec.{group}[{index}]"
            name = container.get("name")
            if not name:
                causes.append(required(f"{path}.name"))
            elif name in names:
                duplicate = f'Duplicate value: "{name}"'
                causes.append(Cause(f"{path}.name", duplicate, "FieldValueDuplicate"))
            names.add(name)
            if not container.get("image"):
                causes.append(required(f"{path}.image"))
            for at, mount in enumerate(container.get("volumeMounts") or ()):
                if mount.get("name") not in volumes:
                    missing = f'Not found: "{mount.get("name")}"'
                    field = f"{path}.volumeMounts[{at}].name"
                    causes.append(Cause(field, missing, "FieldValueNotFound"))
    if spec.get("restartPolicy") not in ("Always", "OnFailure", "Never"):
        causes.append(wrong("spec.restartPolicy", spec.get("restartPolicy"), "not supported"))
    return causes


def _check_update(new: Json, old: Json) -> list[Cause]:
    """Only what the real server lets change may have changed."""
    mended = deepcopy(new)
    for group in ("initContainers", "containers"):
        before = {each["name"]: each for each in old.get(group) or ()}
        for container in mended.get(group) or ():
            known = before.get(container.get("name"), {})
            keep(container, known, "image")
    keep(mended, old, "activeDeadlineSeconds")
    missing = [each for each in old.get("tolerations") or () if not _among(each, new)]
    if missing:
        return [forbidden_field("spec.tolerations", "existing toleration can not be modified")]
    keep(mended, old, "tolerations")
    gates = {each["name"] for each in old.get("schedulingGates") or ()}
    added = {each["name"] for each in new.get("schedulingGates") or ()} - gates
    if not added:
        keep(mended, old, "schedulingGates")
    if gates and not old.get("nodeName"):
        keep(mended, old, "nodeSelector")
        keep(mended, old, "affinity")
    if (old.get("terminationGracePeriodSeconds") or 0) < 0:
        keep(mended, old, "terminationGracePeriodSeconds")
    return [] if mended == old else [forbidden_field("spec", _FIXED)]


def _among(toleration: Json, spec: Json) -> bool:
    """True if a toleration is still there; its seconds may have changed."""

    def core(each: Json) -> Json:
        return {key: value for key, value in each.items() if key != "tolerationSeconds"}

    return any(core(each) == core(toleration) for each in spec.get("tolerations") or ())


def _admit_account(obj: Json, spec: Json, around: Surroundings) -> None:
    default(spec, serviceAccountName="default")
    spec["serviceAccount"] = spec["serviceAccountName"]
    meta = obj["metadata"]
    namespace, name = meta.get("namespace", ""), spec["serviceAccountName"]
    found = around.find("serviceaccounts", namespace, name)
    if found is None:
        raise ApiError(
            403,
            "Forbidden",
            f'pods "{meta.get("name") or meta.get("generateName", "")}" is forbidden: error looking'
            f' up service account {namespace}/{name}: serviceaccount "{name}" not found',
            details={"name": meta.get("name", ""), "kind": "pods"},
        )
    account = found.decode()
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = account["imagePullSecrets"]
    mounted = spec.get("automountServiceAccountToken")
    if mounted is None:
        mounted = account.get("automountServiceAccountToken", True)
    if mounted:
        _mount_token(spec)


def _mount_token(spec: Json) -> None:
    volume = ""
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        mounts = container.setdefault("volumeMounts", []) or []
        if any(mount.get("mountPath") == ACCOUNT_PATH for mount in mounts):
            continue
        volume = volume or f"kube-api-access-{suffix()}"
        mounts.append({"name": volume, "readOnly": True, "mountPath": ACCOUNT_PATH})
        container["volumeMounts"] = mounts
    if not volume:
        return
    sources: list[Json] = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {
            "configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }
        },
        {
            "downwardAPI": {
                "items": [
                    {
                        "path": "namespace",
                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                    }
                ]
            }
        },
    ]
    projected = {"name": volume, "projected": {"sources": sources, "defaultMode": 420}}
    spec["volumes"] = [*(spec.get("volumes") or ()), projected]


def _admit_runtime_class(obj: Json, spec: Json, around: Surroundings) -> None:
    name = spec.get("runtimeClassName")
    if not name:
        return
    found = around.find("runtimeclasses.node.k8s.io", "", name)
    if found is None:
        raise ApiError(
            403,
            "Forbidden",
            f'pods "{obj["metadata"].get("name", "")}" is forbidden: pod rejected: RuntimeClass'
            f' "{name}" not found',
        )
    runtime = found.decode()
    if runtime.get("overhead"):
        spec["overhead"] = runtime["overhead"]["podFixed"]
    scheduling = runtime.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **scheduling["nodeSelector"]}
    for toleration in scheduling.get("tolerations") or ():
        tolerations = spec.setdefault("tolerations", [])
        if toleration not in tolerations:
            tolerations.append(toleration)


def _admit_tolerations(spec: Json) -> None:
    tolerations = spec.get("tolerations") or []
    for key in _TOLERATED:
        known = any(
            each.get("key") in (key, None, "") and each.get("effect") in ("NoExecute", None, "")
            for each in tolerations
        )
        if not known:
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            )
    spec["tolerations"] = tolerations


def _admit_priority(obj: Json, spec: Json, around: Surroundings) -> None:
    name = spec.get("priorityClassName")
    value, policy = 0, "PreemptLowerPriority"
    if name in ("system-node-critical", "system-cluster-critical"):
        value = 2000001000 if name == "system-node-critical" else 2000000000
    elif name:
        found = around.find("priorityclasses.scheduling.k8s.io", "", name)
        if found is None:
            raise ApiError(
                403,
                "Forbidden",
                f'pods "{obj["metadata"].get("name", "")}" is forbidden: no PriorityClass with name'
                f" {name} was found",
            )
        priority = found.decode()
        value, policy = priority["value"], priority["preemptionPolicy"]
    if spec.get("priority") not in (None, value):
        raise ApiError(
            403,
            "Forbidden",
            f'pods "{obj["metadata"].get("name", "")}" is forbidden: the integer value of priority'
            f" ({spec['priority']}) must not be provided in pod spec; priority admission controller"
            f" computed {value} from the given PriorityClass name",
        )
    spec["priority"] = value
    default(spec, preemptionPolicy=policy)


def qos_class(spec: Json) -> str:
    """The quality of service class that a pod spec gets."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    resources = [container.get("resources") or {} for container in containers]
    if not any(each.get("requests") or each.get("limits") for each in resources):
        return "BestEffort"
    for each in resources:
        limits, requests = each.get("limits") or {}, each.get("requests") or {}
        for name in ("cpu", "memory"):
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                return "Burstable"
    return "Guaranteed"
