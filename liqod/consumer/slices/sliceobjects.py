"""The objects that are made here for a slice of ours: its Identity and its virtual node. Pure."""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import owner_reference
from liqod.errors import ConfigError, ProtocolError
from liqod.identity import certificaterequests, certificates, keys
from liqod.kube.cache.store import IndexedStore
from liqod.model import ids
from liqod.model.crossing import guestrules
from liqod.model.crossing.allowedkeys import ALL_KEYS, key_allowed
from liqod.model.crossing.guestrules import Rules
from liqod.model.objects import quantities
from liqod.model.objects.conditions import set_condition
from liqod.model.objects.eligibility import Providers
from liqod.model.peering import freecapacity, nodesready, parts
from liqod.model.peering.parts import Part
from liqod.plugins import declared
from liqod.resources import RESOURCE_SLICES, Identity, ResourceSlice
from liqod.resources.authentication import (
    ACCEPTED,
    AUTHENTICATION,
    DENIED,
    RESOURCE_SLICE,
    RESOURCES,
)


def is_source(labels_of: dict[str, str], peer: str) -> bool:
    """True if an object with these labels is ours and to be replicated to the peer."""
    return (
        labels_of.get(labels.REPLICATION) == labels.TRUE and labels_of.get(labels.REMOTE_ID) == peer
    )


def group_of(identity: Identity | None, here: str, public: bytes) -> str:
    """The group that this cluster's slices request at a provider: one that belongs to no other key,
    where that provider has signed such a name for the control plane, or else Liqo's.

    Args:
        identity: of the control plane there.
        here: this cluster's id.
        public: its key, PEM.
    """
    keyed = ids.keyed(here, keys.print_of(public))
    given = identity.spec.auth_params.signed_crt if identity is not None else b""
    try:
        return keyed if given and certificates.read(given).common_name == keyed else here
    except ProtocolError:
        return here


def request_of(name: str, here: str, provider: str, private: bytes, group: str) -> dict[str, Any]:
    """The part of a slice's ``spec`` that requests a user of its own at the provider.

    Args:
        name: of the slice.
        here: this cluster's id.
        provider: the provider's.
        private: this cluster's key, PEM.
        group: as of :func:`group_of`.
    """
    csr = certificaterequests.make_csr(private, ids.slice_user(name, here), group)
    return {
        "consumerClusterID": here,
        "providerClusterID": provider,
        "csr": msgspec.to_builtins(csr),
    }


def identity_of(found: ResourceSlice, peer: str) -> dict[str, Any] | None:
    """The Identity of a slice that was authenticated; None before that and after a denial."""
    given = found.status.auth_params
    verdict = found.verdict(AUTHENTICATION)
    if not verdict or verdict == DENIED or given is None or not given.signed_crt:
        return None
    return {
        "metadata": _metadata(found, ids.slice_identity(found.name), peer),
        "spec": {
            "clusterID": peer,
            "type": RESOURCE_SLICE,
            "authParams": msgspec.to_builtins(given),
        },
    }


def virtual_node_of(
    found: ResourceSlice,
    peer: str,
    *,
    believe: Collection[str] = (),
    given: Mapping[str, str] | None = None,
    part: Part | None = None,
    zones: Collection[str] = (),
    declares: bool = False,
) -> dict[str, Any] | None:
    """The virtual node of a slice that wants one and was granted; None otherwise.

    Args:
        found: the slice.
        peer: the provider's id.
        believe: patterns of the keys of labels that the provider may declare.
        given: labels that the node has by this cluster's own setting.
        part: of the provider, which the node shows; None for one node as a whole.
        zones: of this cluster's own nodes. A pod that has to be in one of them, as its volume is
            there, does not belong to a peer that names its zone alike.
        declares: whether nodes of this cluster declare features, so that its API server knows them.
    """
    wanted = found.metadata.annotations.get(labels.CREATE_VIRTUAL_NODE) == labels.TRUE
    granted = found.verdict(AUTHENTICATION) == found.verdict(RESOURCES) == ACCEPTED
    if not wanted or not granted:
        return None
    status = found.status
    secret = ids.kubeconfig_secret(ids.slice_identity(found.name))
    marks = {
        **node_labels(_declared(status.node_labels, part), believe),
        **node_labels(given or {}, (ALL_KEYS,)),
        labels.REMOTE_CLUSTER_ID: peer,
    }
    if marks.get(labels.ZONE) in zones:
        del marks[labels.ZONE]
    spec: dict[str, Any] = {
        "clusterID": peer,
        "createNode": True,
        "kubeconfigSecretRef": {"name": secret},
        "labels": marks,
        "resourceQuota": {"hard": amounts(status.resources)},
    }
    patch = _patch(status.node_selector, part)
    if patch:
        spec["offloadingPatch"] = patch
    for key, classes in (
        ("storageClasses", status.storage_classes),
        ("ingressClasses", status.ingress_classes),
        ("loadBalancerClasses", status.load_balancer_classes),
    ):
        if classes:
            spec[key] = [msgspec.to_builtins(each) for each in classes]
    metadata = _metadata(found, found.name, peer)
    rules = guestrules.parse(found.metadata.annotations.get(labels.GUEST_RULES)) or Rules()
    notes = {each.mark: labels.TRUE for each, _ in declared.opt_ins() if each.word in rules.takes}
    free = found.metadata.annotations.get(labels.FREE_CAPACITY)
    if free and freecapacity.read(free) is not None:
        notes[labels.FREE_CAPACITY] = free
    if rules.waiting_gives_way:
        notes[labels.WAITING_GIVES_WAY] = labels.TRUE
    if lacks := nodesready.reported(found.metadata.annotations):
        notes[labels.NODES_READY] = lacks
    if nodesready.is_cordoned(found.metadata.annotations):
        notes[labels.NODES_CORDONED] = labels.TRUE
    if parts.mode(found.metadata.annotations) != parts.WHOLE:
        notes[labels.VIRTUAL_NODES] = parts.mode(found.metadata.annotations)
    if part is not None:
        _show(part, spec, metadata, notes)
    features = freecapacity.features(freecapacity.read(notes.get(labels.FREE_CAPACITY)))
    if declares and features:
        notes[labels.DECLARED_FEATURES] = ",".join(features)
    if notes:
        metadata["annotations"] = notes
    return {"metadata": metadata, "spec": spec}


def _declared(found: Mapping[str, str], part: Part | None) -> dict[str, str]:
    return {**found, **(part.labels if part is not None else {})}


def _patch(selector: Mapping[str, str], part: Part | None) -> dict[str, Any]:
    """The selector that every pod of the node gets: the provider's own, and those of the part."""
    if part is not None and part.machine:
        return {"nodeSelector": {**selector, labels.MACHINE: part.key}}
    of_part = part.labels if part is not None else {}
    own = {key: value for key, value in of_part.items() if _is_syntax(key, value)}
    patch: dict[str, Any] = {}
    if selector or own:
        patch["nodeSelector"] = {**selector, **own}
    lacks = [key for key in (part.lacks if part is not None else ()) if _is_name(key)]
    if lacks:
        term = {"matchExpressions": [{"key": key, "operator": "DoesNotExist"} for key in lacks]}
        required = {"nodeSelectorTerms": [term]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        patch["affinity"] = {"nodeAffinity": affinity}
    return patch


def _show(
    part: Part, spec: dict[str, Any], metadata: dict[str, Any], notes: dict[str, str]
) -> None:
    """Show one part of the provider in place of the whole."""
    metadata["name"] = parts.name_of(metadata["name"], part.key)
    metadata["labels"][labels.PART] = part.key
    spec["labels"][labels.PART] = part.key
    spec["resourceQuota"] = {"hard": quantities.render_all(part.share)}
    taints = [
        {"key": key, "effect": effect, **({"value": value} if value else {})}
        for key, value, effect in part.taints
        if _is_syntax(key, value) and effect in ("NoSchedule", "NoExecute")
    ]
    notes.pop(labels.FREE_CAPACITY, None)
    if part.told:
        notes[labels.FREE_CAPACITY] = part.told
    if part.not_told_since:
        notes[labels.NOT_TOLD_SINCE] = part.not_told_since
        taints.append({"key": labels.NOT_TOLD_TAINT, "effect": "NoSchedule"})
    if taints:
        spec["taints"] = taints


def _metadata(found: ResourceSlice, name: str, peer: str) -> dict[str, Any]:
    """Metadata of an object made from a slice: beside it, owned by it, and labelled with it."""
    return {
        "name": name,
        "namespace": found.namespace,
        "labels": {
            labels.MANAGED: labels.TRUE,
            labels.MANAGED_BY_LIQOD: labels.TRUE,
            labels.REMOTE_CLUSTER_ID: peer,
            labels.RESOURCE_SLICE_NAME: found.name,
        },
        "ownerReferences": [owner_reference(RESOURCE_SLICES, found.metadata)],
    }


def denied_here(message: str, reason: str, now: str) -> dict[str, Any]:
    """The status of a slice that this cluster itself cannot request."""
    denied = set_condition((), AUTHENTICATION, DENIED, now=now, reason=reason, message=message)
    return {"conditions": denied}


def providers_of(slices: IndexedStore) -> Providers:
    """The providers of this cluster's slices."""
    found = [
        (each.spec.provider_cluster_id, each.metadata.annotations)
        for each in slices.values(ResourceSlice)
        if each.metadata.labels.get(labels.REPLICATION) == labels.TRUE and each.status.resources
    ]
    return Providers(
        {peer: guestrules.parse(notes.get(labels.GUEST_RULES)) for peer, notes in found},
        any(labels.FREE_CAPACITY in notes for _, notes in found),
    )


MOST_ENTRIES: Final = 64
"""Labels, and resources, of one slice that are read."""
MOST: Final = 10**15 * quantities.NANO
"""The largest quantity that is believed: a petabyte, or as many of anything else."""
TOPOLOGY: Final = ("topology.kubernetes.io/", "node.kubernetes.io/instance-type")
PLATFORM: Final = (labels.OS, labels.ARCH)
_OWN_DOMAINS: Final = ("kubernetes.io", "k8s.io", "liqo.io", "liqod.io")
_MANAGERS: Final = (
    "karpenter.sh",
    "karpenter.k8s.aws",
    "karpenter.azure.com",
    "kubernetes.azure.com",
    "cluster.x-k8s.io",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
)
"""Domains and keys by which clouds and autoscalers here know nodes that are theirs to remove."""
_NAME = re.compile(r"(?:(?P<domain>[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)/)?(?P<name>.{1,63})")
_PLAIN = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")


def node_labels(found: Mapping[str, str], believed: Collection[str] = ()) -> dict[str, str]:
    """The labels of a provider that its Node here may have.

    By its labels a cluster selector chooses a provider, and Secrets go there: a provider that
    labels itself could choose itself. So none counts but those of the platform, which pods
    cannot do without, and those whose keys this cluster's operator believes. Of Kubernetes' own
    only those of the topology can be believed: by others this cluster's scheduler and policies
    distinguish its nodes (``node-role``, ``node-restriction``).

    Args:
        found: the provider's labels.
        believed: patterns of keys (:mod:`liqod.model.crossing.allowedkeys`).
    """
    return (
        {
            key: value
            for key, value in sorted(found.items())
            if _is_label(key, value) and (key in PLATFORM or key_allowed(key, believed))
        }
        if len(found) <= MOST_ENTRIES
        else {}
    )


def amounts(found: Mapping[str, int | str]) -> dict[str, int | str]:
    """The quantities of a provider that a Node can show; others are left out."""
    believed: dict[str, int | str] = {}
    for name, value in sorted(found.items())[:MOST_ENTRIES]:
        try:
            amount = quantities.parse(value)
        except ConfigError:
            continue
        if _is_name(name) and amount >= 0:
            believed[name] = value if amount <= MOST else quantities.render(MOST)
    return believed


def _is_syntax(key: str, value: str) -> bool:
    return _is_name(key) and len(value) <= 63 and (not value or bool(_PLAIN.fullmatch(value)))


def _is_label(key: str, value: str) -> bool:
    if not _is_syntax(key, value):
        return False
    domain = key.rpartition("/")[0]
    if key in _MANAGERS or any(_within(domain, each) for each in _MANAGERS):
        return False
    own = any(_within(domain, each) for each in _OWN_DOMAINS)
    return not own or key in PLATFORM or key.startswith(TOPOLOGY)


def _within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _is_name(key: str) -> bool:
    match = _NAME.fullmatch(key)
    return match is not None and _PLAIN.fullmatch(match["name"]) is not None
