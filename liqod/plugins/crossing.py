"""Functions that reflectors of built-in kinds share: labels, annotations, classes over there."""

from collections.abc import Callable, Mapping
from typing import Any

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import Kind
from liqod.plugins.contracts import Json, View, VirtualNode

STAY_HOME = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        labels.APPLIED_HASH,
        labels.APPLIED_KEYS,
        labels.DELETION_GRACE,
        labels.SKIP_REFLECTION,
        labels.ALLOW_REFLECTION,
        labels.ENDPOINT_PREFERENCE,
        labels.KEEP_LAST_ENDPOINTS,
        labels.DIRECT_CONNECTIONS_DATA,
        labels.TRANSIT_ADDRESSES,
        labels.DIRECT_CONNECTIONS_KEYS,
    }
)
"""Annotations that never cross: they concern this cluster's object, or this reflection."""


def crossing_labels(source: Json, view: View) -> dict[str, str]:
    """The labels of a local object that its reflection has too."""
    absent = _absent(view.names.labels_not_reflected, "labelsNotReflected", source, view)
    found = source["metadata"].get("labels") or {}
    return {key: value for key, value in found.items() if key not in absent | {labels.OF_IP}}


def crossing_annotations(source: Json, view: View) -> dict[str, str]:
    """The annotations of a local object that its reflection has too."""
    configured = view.names.annotations_not_reflected | STAY_HOME
    absent = _absent(configured, "annotationsNotReflected", source, view)
    found = source["metadata"].get("annotations") or {}
    return {key: value for key, value in found.items() if key not in absent}


def class_there(
    here: str, classes: Mapping[str, str], view: View, offered: Callable[[VirtualNode], str]
) -> str:
    """The class that something has over there; empty where the peer is to choose.

    Args:
        here: the class that it has here; empty for none.
        classes: from the settings, by the class here: ``CLASS``, or ``PEER/CLASS`` for one peer.
        view: of the reflector.
        offered: the class that a virtual node's provider offers as default.
    """
    for key in (f"{view.names.peer}/{here}", here):
        if here and classes.get(key):
            return classes[key]
    found = (offered(node) for _, node in sorted(view.names.nodes.items()))
    return next((each for each in found if each), "")


def _absent(configured: frozenset[str], field: str, source: Json, view: View) -> frozenset[str]:
    """The keys that stay here: of an object on a virtual node by that node's patch alone, of any
    other by that of each node of the peer."""
    nodes = view.names.nodes
    own = nodes.get((source.get("spec") or {}).get("nodeName", ""))
    patches = [each.patch for each in ([own] if own is not None else nodes.values())]
    return configured.union(str(key) for patch in patches for key in patch.get(field) or ())


def manifest(kind: Kind, name: str, source: Json, view: View, **content: Any) -> Json:
    """An object to be written over there, with the labels and annotations of its source."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": name,
            "labels": crossing_labels(source, view),
            "annotations": crossing_annotations(source, view),
        },
        **content,
    }
