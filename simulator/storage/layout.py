"""The layout of objects in storage, and the part of them that counts as desired state."""

from typing import Any

import msgspec

from simulator.catalog import Resource
from simulator.storage.storage import Item

Json = dict[str, Any]

_META_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def unsaved(obj: Json) -> Item:
    """The answer of a dry run: the object without having been stored."""
    meta = obj["metadata"]
    version = int(meta.get("resourceVersion") or 0)
    return Item(
        meta.get("namespace", ""), meta["name"], meta["uid"], version, msgspec.json.encode(obj)
    )


def ordered(obj: Json, resource: Resource) -> Json:
    """The object as it is stored: type first, metadata in order, nothing null in it."""
    meta = {key: obj["metadata"][key] for key in _META_ORDER if obj["metadata"].get(key)}
    for key, value in obj["metadata"].items():
        if key not in meta and value not in (None, {}, [], "") and key != "selfLink":
            meta[key] = value
    grace = obj["metadata"].get("deletionGracePeriodSeconds")
    if grace is not None and meta.get("deletionTimestamp"):
        meta["deletionGracePeriodSeconds"] = grace
    stored = resource.storage or resource.version
    api = f"{resource.group}/{stored}" if resource.group else stored
    rest = {key: obj[key] for key in obj if key not in ("apiVersion", "kind", "metadata")}
    return {"apiVersion": api, "kind": resource.kind, "metadata": meta, **rest}


def desired(obj: Json, resource: Resource) -> Json:
    """The part of an object whose changes count its generation."""
    ignored = {"apiVersion", "kind", "metadata"}
    if resource.status:
        ignored.add("status")
    if resource.group == "discovery.k8s.io":
        return {**{k: v for k, v in obj.items() if k not in ignored}, "metadata": _marks(obj)}
    return {key: value for key, value in obj.items() if key not in ignored}


def _marks(obj: Json) -> Json:
    """Labels and the like: for EndpointSlices they count as desired state."""
    return {"labels": obj["metadata"].get("labels") or {}}


def no_grace(meta: Json) -> bool:
    """True if an object that is being deleted waits only for its finalizers."""
    return not meta.get("deletionGracePeriodSeconds")
