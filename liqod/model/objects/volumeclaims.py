"""Claims of Liqo's virtual StorageClass: the volume is in the cluster of the first pod. Pure.

A claim whose pod was placed on a virtual node becomes a claim of the same name at that peer; one
whose pod was placed on a real node becomes a claim of this cluster's own class, in a namespace of
its own. In both cases the local volume of the claim is only a placeholder with a node affinity, by
which the scheduler places later pods beside the data. Names and paths are Liqo's.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.errors import ConfigError
from liqod.model.objects import quantities, selectors

Json = dict[str, Any]

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation in which the scheduler names the node of a claim's first pod."""
PROVISIONER_NOTES: Final = (
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)
"""Annotations in which the volume controller names the provisioner of a claim."""
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
PLACEHOLDER: Final = "/tmp/liqo-placeholder"  # Liqo's; no pod mounts it
CONDITION: Final = "liqod.io/VolumeAtPeer"
"""Condition of a local claim: True if a peer has a claim for it. Its reason is the peer's id."""
ONE_POD: Final = "ReadWriteOncePod"
"""The access mode of a claim that one pod uses at a time."""
LARGEST: Final = quantities.parse("1Ei")
"""The largest capacity that a peer is believed."""
MESSAGE_LIMIT: Final = 256
_NOT_VIRTUAL: Final[Json] = {
    "matchExpressions": [
        {"key": labels.TYPE, "operator": "NotIn", "values": [labels.VIRTUAL_NODE_TYPE]}
    ]
}


class ClaimView(msgspec.Struct, frozen=True):
    """The facts of a claim that placement uses: its class, and whether it is bound to a volume."""

    storage_class: str = ""
    bound: bool = False


def sight(claim: Mapping[str, Any]) -> ClaimView:
    """The facts of one claim that placement uses."""
    spec = claim.get("spec") or {}
    return ClaimView(spec.get("storageClassName") or "", bool(spec.get("volumeName")))


def names(pod: Mapping[str, Any]) -> list[str]:
    """The claims that a pod names."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    found = ((each.get("persistentVolumeClaim") or {}).get("claimName") for each in volumes)
    return [each for each in found if each]


def ephemeral(pod: Mapping[str, Any]) -> dict[str, Json]:
    """The claims that are made for a pod's ephemeral volumes, by their names."""
    meta = pod["metadata"]
    name = meta.get("name") or str(meta.get("generateName") or "").removesuffix("-")
    found: dict[str, Json] = {}
    for each in (pod.get("spec") or {}).get("volumes") or ():
        template = (each.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is not None:
            found[f"{name}-{each['name']}"] = {**template, "metadata": {}}
    return found


def ours(claim: Mapping[str, Any]) -> bool:
    """True if the volume controller has assigned a claim to Liqo's provisioner."""
    notes = claim["metadata"].get("annotations") or {}
    return any(notes.get(each) == labels.STORAGE_PROVISIONER for each in PROVISIONER_NOTES)


def selected(claim: Mapping[str, Any]) -> str:
    """The node that the scheduler has chosen for the first pod of a claim; empty for none."""
    return str((claim["metadata"].get("annotations") or {}).get(SELECTED_NODE, ""))


def volume_name(claim: Mapping[str, Any]) -> str:
    """The name of the volume that is made for a claim (as all provisioners name theirs)."""
    return f"pvc-{claim['metadata']['uid']}"


def problem(claim: Mapping[str, Any]) -> str:
    """The reason why the virtual class cannot provision a claim, a sentence; empty if it can."""
    spec = claim["spec"]
    for field in ("dataSource", "dataSourceRef", "selector", "volumeAttributesClassName"):
        if spec.get(field):
            return f"the class {spec.get('storageClassName')} makes new volumes only: no {field}"
    return ""


def requested(claim: Mapping[str, Any]) -> str:
    """The size that a claim requests."""
    return str(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0"))


def grown(status: Mapping[str, Any], size: object) -> str:
    """The capacity of a claim's status where it is more than a size; empty otherwise."""
    there = (status.get("capacity") or {}).get("storage")
    if there is None or not (quantities.is_quantity(there) and quantities.is_quantity(size)):
        return ""
    return str(there) if quantities.parse(there) > quantities.parse(str(size)) else ""


# --- At a peer ------------------------------------------------------------------------------------


def remote_spec(
    claim: Mapping[str, Any], classes: Sequence[str], there: Mapping[str, Any] | None
) -> Json:
    """The spec of the claim at a peer.

    Args:
        claim: the local claim.
        classes: the StorageClasses that the peer offers, the one to take first.
        there: the claim that the peer has already; its class cannot change.

    Raises:
        ConfigError: the peer does not offer the requested class, or any.
    """
    spec, notes = claim["spec"], claim["metadata"].get("annotations") or {}
    modes = notes.get(labels.REMOTE_ACCESS_MODES)
    made: Json = {
        "accessModes": [each.strip() for each in modes.split(",")]
        if modes
        else spec["accessModes"],
        "volumeMode": spec.get("volumeMode") or "Filesystem",
        "resources": {"requests": {"storage": requested(claim)}},
    }
    if there is not None:
        kept = (there.get("spec") or {}).get("storageClassName")
        return {**made, "storageClassName": kept} if kept else made
    if not classes:
        raise ConfigError("it offers no StorageClass")
    wanted = notes.get(labels.REMOTE_STORAGE_CLASS) or classes[0]
    if wanted not in classes:
        raise ConfigError(f"it does not offer the StorageClass {wanted}")
    return {**made, "storageClassName": wanted}


def peer_volume(claim: Mapping[str, Any], peer: str, reclaim: str) -> Json:
    """The placeholder for a volume at a peer."""
    where = {"key": labels.REMOTE_CLUSTER_ID, "operator": "In", "values": [peer]}
    return _volume(
        claim,
        reclaim,
        source={"hostPath": {"path": PLACEHOLDER}},
        size=requested(claim),
        terms=[{"matchExpressions": [where]}],
    )


def lies_at(volume: Mapping[str, Any]) -> str:
    """The peer at which the data of a volume of ours lies; empty for this cluster."""
    for term in _terms(volume):
        for each in term.get("matchExpressions") or ():
            if each.get("key") == labels.REMOTE_CLUSTER_ID and each.get("operator") == "In":
                return str((each.get("values") or [""])[0])
    return ""


def claim_condition(peer: str, taken: bool, message: str) -> Json:
    """The condition with the result of a claim at a peer."""
    return {
        "type": CONDITION,
        "status": "True" if taken else "False",
        "reason": peer,
        "message": message[:MESSAGE_LIMIT],
    }


def answer(claim: Mapping[str, Any], peer: str) -> tuple[bool, str] | None:
    """A peer's answer: True if it has the claim, and its message; None before it answers."""
    for each in (claim.get("status") or {}).get("conditions") or ():
        if each.get("type") == CONDITION and each.get("reason") == peer:
            return each.get("status") == "True", str(each.get("message", ""))
    return None


def believed(status: Mapping[str, Any]) -> Json | None:
    """The capacity that a peer's claim shows, as far as it is one; None otherwise."""
    capacity = status.get("capacity")
    size = capacity.get("storage") if isinstance(capacity, dict) else None
    if not isinstance(size, str) or len(size) > 32 or not quantities.is_quantity(size):
        return None
    return {"storage": size} if 0 < quantities.parse(size) <= LARGEST else None


# --- On this cluster's own nodes ------------------------------------------------------------------


def real_claim(claim: Mapping[str, Any], node: str, real_class: str) -> Json:
    """The claim of this cluster's own class that backs one whose pod is on a real node."""
    meta, spec = claim["metadata"], claim["spec"]
    return {
        "metadata": {
            "name": meta["uid"],
            "namespace": labels.STORAGE_NAMESPACE,
            "labels": {labels.MANAGED_BY_LIQOD: labels.TRUE},
            "annotations": {
                labels.CLAIM: f"{meta['namespace']}/{meta['name']}",
                SELECTED_NODE: node,
            },
        },
        "spec": {
            "accessModes": spec["accessModes"],
            "volumeMode": spec.get("volumeMode") or "Filesystem",
            "resources": {"requests": {"storage": requested(claim)}},
            "storageClassName": real_class,
        },
    }


def home_volume(claim: Mapping[str, Any], real: Mapping[str, Any], reclaim: str) -> Json:
    """The volume of such a claim: the source of the real volume, on real nodes only.

    Args:
        claim: the claim of the virtual class.
        real: the real volume.
        reclaim: its reclaim policy.
    """
    spec = real["spec"]
    apart = (
        *(
            "accessModes",
            "capacity",
            "claimRef",
            "mountOptions",
            "nodeAffinity",
            "storageClassName",
        ),
        *("persistentVolumeReclaimPolicy", "volumeMode", "volumeAttributesClassName"),
    )
    terms = selectors.product(_terms(real), [_NOT_VIRTUAL]) if _terms(real) else [_NOT_VIRTUAL]
    made = _volume(
        claim,
        reclaim,
        source={key: value for key, value in spec.items() if key not in apart},
        size=str((spec.get("capacity") or {}).get("storage") or requested(claim)),
        terms=terms,
    )
    if spec.get("mountOptions"):
        made["spec"]["mountOptions"] = spec["mountOptions"]
    return made


def default_class(classes: Sequence[Mapping[str, Any]]) -> str:
    """The default StorageClass of a cluster, of those that make real volumes; empty for none."""
    found = [
        each
        for each in classes
        if (each["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == labels.TRUE
        and each.get("provisioner") != labels.STORAGE_PROVISIONER
    ]
    # Of several the newest counts, as for the API server's own admission.
    newest = max(
        found, key=lambda each: each["metadata"].get("creationTimestamp", ""), default=None
    )
    return "" if newest is None else str(newest["metadata"]["name"])


def _volume(
    claim: Mapping[str, Any], reclaim: str, *, source: Json, size: str, terms: list[Json]
) -> Json:
    meta, spec = claim["metadata"], claim["spec"]
    return {
        "metadata": {
            "name": volume_name(claim),
            "labels": {labels.MANAGED_BY_LIQOD: labels.TRUE},
            "annotations": {PROVISIONED_BY: labels.STORAGE_PROVISIONER},
        },
        "spec": {
            **source,
            "accessModes": spec["accessModes"],
            "capacity": {"storage": size},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "persistentVolumeReclaimPolicy": reclaim,
            "storageClassName": spec.get("storageClassName") or "",
            "volumeMode": spec.get("volumeMode") or "Filesystem",
        },
    }


def _terms(volume: Mapping[str, Any]) -> list[Json]:
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    return list(required.get("nodeSelectorTerms") or ())
