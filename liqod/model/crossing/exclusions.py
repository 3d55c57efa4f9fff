"""Rules for the namespaces and objects that may leave this cluster. Pure.

Namespaces come first: some hold objects that a peer must never see, and are not offloaded at any
request. Then objects: Secrets by which clusters trust each other stay, in any namespace. Then the
keys of labels and annotations, by allow lists. The fields of an object are decided in
:mod:`liqod.model.crossing.fields`. The packages that borrow, those that lend, the reflectors,
the command line and the inspector all use this module, so that one does not do what another
refuses.
"""

from collections.abc import Mapping
from typing import Any, Final

from liqod.apimachinery import labels
from liqod.model import ids

Json = Mapping[str, Any]

STAYS_HOME: Final = "StaysHome"
"""Reason of an object that never leaves this cluster."""

NAMESPACE_STAYS: Final = "NamespaceStaysHome"
"""Reason of a NamespaceOffloading whose namespace can never be offloaded."""

RESERVED: Final = {"kube-": "Kubernetes' own", "openshift-": "OpenShift's own"}
"""Prefixes that are reserved for the namespaces of a system, with their owner."""
_NAMES_OF_TRUST: Final = frozenset(
    {
        labels.KEYS_SECRET,
        labels.NONCE_SECRET,
        labels.SIGNED_NONCE_SECRET,
        labels.WEBHOOK_SECRET,
        "liqo-webhook-certs",
    }
)
_PREFIXES_OF_TRUST: Final = (
    ids.kubeconfig_secret(ids.control_plane_identity("")),
    ids.kubeconfig_secret(ids.slice_identity("")),
    ids.certificate_secret(),
)
_LABELS_OF_TRUST: Final = (
    labels.MANAGED,
    labels.MANAGED_BY_LIQOD,
    labels.IDENTITY_TYPE,
    labels.NONCE,
    labels.SIGNED_NONCE,
    labels.PEERING_USER,
    labels.REMOTE_CLUSTER_ID,
    labels.WEBHOOK,
)
_BOOTSTRAP: Final = "bootstrap.kubernetes.io/token"
"""Type of the Secrets by which machines join a cluster."""


def namespace_stays(name: str, marks: Mapping[str, str], own: str) -> str:
    """The reason why a namespace can never be offloaded, as a sentence; empty if it can.

    A namespace that a peer has in this cluster cannot: its pods run on own nodes, by a required
    affinity, so that an offloaded pod would wait for ever for a node.

    Args:
        marks: its labels; none where they are not known.
        own: the namespace of liqod's objects for the whole cluster.
    """
    why = ""
    if name in (own, labels.LIQO_NAMESPACE):
        why = "it holds this cluster's keys"
    elif name in (ids.nodes_namespace(own), ids.nodes_namespace(labels.LIQO_NAMESPACE)):
        why = "its pods are root on this cluster's nodes"
    elif name.startswith(ids.TENANT_PREFIX) or marks.get(labels.TENANT_NAMESPACE) == labels.TRUE:
        why = "it holds the credentials of a peer"
    elif peer := marks.get(labels.REMOTE_CLUSTER_ID, ""):
        why = f"it is the peer {peer}'s, whose pods run on this cluster's own nodes"
    else:
        prefix = next((each for each in RESERVED if name.startswith(each)), "")
        why = f"names that begin with {prefix} are {RESERVED[prefix]}" if prefix else ""
    return f"the namespace {name} cannot be offloaded: {why}" if why else ""


def object_stays(kind: str, found: Json) -> str:
    """The reason why an object of any namespace and annotations never crosses; empty if it may.

    Args:
        kind: its kind, such as ``Secret``.
        found: the object, as JSON.
    """
    if kind != "Secret":
        return ""
    meta = found.get("metadata") or {}
    name = str(meta.get("name") or "")
    marks = meta.get("labels") or {}
    if found.get("type") == _BOOTSTRAP:
        return "a bootstrap token lets machines join this cluster"
    mark = next((key for key in _LABELS_OF_TRUST if key in marks), None)
    if mark is not None:
        return f"the label {mark} says that it belongs to this cluster's peerings"
    if name in _NAMES_OF_TRUST or name.startswith(_PREFIXES_OF_TRUST):
        return f"{name} is the name of a Secret of this cluster's peerings"
    return ""
