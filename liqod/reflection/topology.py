"""Selects the objects to reflect: the namespaces that the peer's NamespaceMap maps, the nodes that
its VirtualNodes name, and the objects that follow their namespace.

Pure. A missing map decides nothing: an object that vanished is not the same as a
namespace that was taken off it, and pods are given up only for the latter, after a grace time.
The policy of their kind and their annotations decide whether objects follow: annotations of the
object win over those of the object that governs it (the Service of an EndpointSlice), and both over
the policy.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CLAIMS
from liqod.apimachinery.meta import ObjectMeta
from liqod.config import Config
from liqod.model import ids
from liqod.model.crossing.annotations import bool_value
from liqod.model.peering import freecapacity
from liqod.plugins import declared
from liqod.plugins.contracts import Absence, Json, Policy, VirtualNode
from liqod.resources.base import IngressClass, LoadBalancerClass, StorageClass
from liqod.resources.offloading import MAPPING_ACCEPTED, NamespaceMap


class NamespaceMapping(msgspec.Struct, frozen=True, kw_only=True):
    """The namespaces of one peer.

    Attributes:
        known: true once a map has been read.
        accepted: remote name by local name, of those that this cluster requests and that the peer
            has made under the requested name.
        desired: the local names that this cluster requests.
        withdrawn: those that it requests no more, and that the peer still has.
    """

    known: bool = False
    accepted: Mapping[str, str] = {}
    desired: frozenset[str] = frozenset()
    withdrawn: frozenset[str] = frozenset()


class SecretRef(msgspec.Struct, frozen=True):
    """The Secret that holds the slice's kubeconfig."""

    name: str = ""


class PartialVirtualNodeSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a VirtualNode's spec that reflection goes by."""

    cluster_id: str = msgspec.field(name="clusterID", default="")
    offloading_patch: Json | None = None
    kubeconfig_secret_ref: SecretRef | None = None
    labels: dict[str, str] = {}
    storage_classes: tuple[StorageClass, ...] = ()
    ingress_classes: tuple[IngressClass, ...] = ()
    load_balancer_classes: tuple[LoadBalancerClass, ...] = ()


class PartialVirtualNode(msgspec.Struct, frozen=True):
    """The part of a VirtualNode that reflection goes by."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PartialVirtualNodeSpec = PartialVirtualNodeSpec()


def mapping(
    maps: Iterable[NamespaceMap], peer: str, stays: Callable[[str], object] = lambda local: False
) -> NamespaceMapping:
    """The mapping that the tenant namespace's NamespaceMap of this peer gives.

    Only the map of the peer counts, not the replica of the other direction: a tenant namespace
    holds both where each cluster borrows from the other. The peer writes the map's status: it
    cannot have a namespace that was not offloaded to it, whatever the status claims; nor one that
    ``stays`` here, no matter how it came into the map.
    """
    for found in maps:
        marks = found.metadata.labels
        if found.name != peer or marks.get(labels.REPLICATED) == labels.TRUE:
            continue
        wanted = found.spec.desired_mapping
        made = {
            local: entry.remote_namespace
            for local, entry in found.status.current_mapping.items()
            if entry.phase == MAPPING_ACCEPTED and entry.remote_namespace
        }
        return NamespaceMapping(
            known=True,
            accepted={
                local: name
                for local, name in made.items()
                if wanted.get(local) == name and not stays(local)
            },
            desired=frozenset(wanted),
            withdrawn=frozenset(made.keys() - wanted.keys()),
        )
    return NamespaceMapping()


def virtual_nodes(nodes: Iterable[PartialVirtualNode], peer: str) -> dict[str, VirtualNode]:
    """The peer's virtual nodes by name.

    The slice is the one that a label names, or else the one whose kubeconfig the node refers to.
    """
    return {
        node.metadata.name: VirtualNode(
            name=node.metadata.name,
            slice=node.metadata.labels.get(labels.RESOURCE_SLICE_NAME) or _slice_of(node),
            patch=node.spec.offloading_patch or {},
            labels=node.spec.labels,
            scales=_scales(node),
            takes=frozenset(
                each.word
                for each, _ in declared.opt_ins()
                if node.metadata.annotations.get(each.mark) == labels.TRUE
            ),
            # Sorting keeps the order of equals: the default first, the others as they are offered.
            storage_classes=tuple(
                each.storage_class_name
                for each in sorted(node.spec.storage_classes, key=lambda each: not each.default)
            ),
            ingress_class=_default(
                (each.ingress_class_name, each.default) for each in node.spec.ingress_classes
            ),
            load_balancer_class=_default(
                (each.load_balancer_class_name, each.default)
                for each in node.spec.load_balancer_classes
            ),
        )
        for node in nodes
        if node.spec.cluster_id == peer
    }


def _default(offered: Iterable[tuple[str, bool]]) -> str:
    """The class that is marked as the default; empty where none is."""
    return next((name for name, default in offered if default), "")


def absence(
    current: NamespaceMapping, namespace: str, unmapped_for: float | None, grace: float
) -> Absence:
    """The state of a namespace on the map: mapped, awaited, absent or unknown.

    Args:
        current: the mapping.
        namespace: the local namespace.
        unmapped_for: seconds since it was first seen off the map; None if it never was.
        grace: seconds it must have been off the map.
    """
    if namespace in current.accepted:
        return Absence.MAPPED
    if not current.known or namespace in current.withdrawn:
        # Nothing more is sent there, and nothing is given up while the peer may be at it.
        return Absence.UNKNOWN
    if namespace in current.desired:
        return Absence.AWAITED
    lasting = unmapped_for is not None and unmapped_for >= grace
    return Absence.LASTING if lasting else Absence.BRIEF


def _scales(node: PartialVirtualNode) -> bool:
    told = freecapacity.read(node.metadata.annotations.get(labels.FREE_CAPACITY))
    return told is not None and told.autoscales


def _slice_of(node: PartialVirtualNode) -> str:
    named = node.spec.kubeconfig_secret_ref
    prefix = ids.kubeconfig_secret(ids.slice_identity(""))
    return named.name.removeprefix(prefix) if named is not None else node.metadata.name


def verdict(annotations: Mapping[str, object], policy: Policy) -> bool | None:
    """The decision of an object's own annotations under a policy; None where they decide nothing.

    Under a deny list only ``skip-reflection`` counts, under an allow list only
    ``allow-reflection``: an annotation that a policy has no use for decides nothing.
    """
    if policy is Policy.DENY_LIST:
        skip = bool_value(annotations, labels.SKIP_REFLECTION)
        return None if skip is None else not skip
    return bool_value(annotations, labels.ALLOW_REFLECTION)


def follows(
    policy: Policy,
    annotations: Mapping[str, object],
    *,
    governing: Mapping[str, object] | None = None,
    governing_policy: Policy | None = None,
) -> bool:
    """True if an object follows its namespace to a peer.

    Args:
        policy: the policy of its kind.
        annotations: its annotations.
        governing: annotations of the object that governs it, if there is one.
        governing_policy: the policy of that object's kind; it then counts instead of ``policy``.
    """
    if policy is Policy.ALWAYS:
        return True
    effective = governing_policy or policy
    own = verdict(annotations, effective)
    if own is not None:
        return own
    inherited = None if governing is None else verdict(governing, effective)
    return inherited if inherited is not None else effective is not Policy.ALLOW_LIST


def disabled(config: Config) -> set[str]:
    """The reflectors that are off: those that the configuration names, and that of claims without
    ``[storage]``, since the daemon may not have the rights on claims then."""
    off = () if config.storage.enabled else (CLAIMS.plural,)
    return {*config.reflection.disabled, *off}
