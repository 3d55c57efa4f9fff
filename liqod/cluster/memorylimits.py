"""Limits the memory for objects that come from other clusters.

An API server takes objects of a megabyte and a half, and a peer may make thousands. An object that
is larger than any honest one is kept as a stub, enough to notify the peer why nothing follows from
it; and all objects of a peer together are counted (:mod:`liqod.kube.cache.memoryquota`). Nothing
that exists already is destroyed because its object became a stub. The functions on objects are
pure.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.apimachinery.rawobjects import UNREADABLE
from liqod.config import Config
from liqod.kube.cache.informers import Informers
from liqod.kube.cache.memoryquota import MemoryQuota, keep_excess
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.resources import (
    NAMESPACE_MAPS,
    RESOURCE_SLICES,
    NamespaceMap,
    ResourceSlice,
    ShadowEndpointSlice,
)
from liqod.resources.base import MAX_ENDPOINT_BYTES, MAX_MAPPED, MAX_QUANTITIES

MAX_STUB: Final = 1 << 18
"""Bytes of the stub of a slice or map that names too much."""
_MARKS: Final = (
    *(labels.ORIGIN, labels.CREATOR_USER, labels.NODE_NAME),
    *(labels.REPLICATED, labels.ORIGIN_ID, labels.REMOTE_CLUSTER_ID),
)
"""The labels that a stub keeps."""

Json = dict[str, Any]


class _Whole(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: Json = {}
    status: Json = {}


class _Stub(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: Json = {}


class KeptSlice(ResourceSlice, frozen=True, omit_defaults=True, rename="camel"):
    """A ResourceSlice of a consumer; one with ``too_large`` resources asks for none of them."""

    too_large: int = 0


class KeptMap(NamespaceMap, frozen=True, omit_defaults=True, rename="camel"):
    """A NamespaceMap of a consumer; of one with ``too_large`` entries none is known."""

    too_large: int = 0


class KeptEndpoints(ShadowEndpointSlice, frozen=True, omit_defaults=True, rename="camel"):
    """A ShadowEndpointSlice; of one of ``too_large`` bytes no more than its name is known."""

    too_large: int = 0


@lru_cache
def trim_to(limit: int) -> Callable[[bytes], bytes]:
    """A function that makes a stub of what a consumer asks for in more than ``limit`` bytes.

    It is a ShadowPod, or a ShadowEndpointSlice.

    The same function for the same limit: by it informers are shared.
    """

    def trim(body: bytes) -> bytes:
        return body if len(body) <= limit else _stub_of_shadow(body, too_much=False)

    return trim


trim_endpoints = trim_to(MAX_ENDPOINT_BYTES)
"""A ShadowEndpointSlice, or its stub."""


def stub_over_limit(body: bytes) -> bytes:
    """The stub of the same of a consumer that has as much here as is held of it."""
    return _stub_of_shadow(body, too_much=True)


def _stub_of_shadow(body: bytes, *, too_much: bool) -> bytes:
    more = {"tooMuch": True} if too_much else {}
    try:
        found = msgspec.json.decode(body, type=_Stub)
    except UNREADABLE:
        return msgspec.json.encode({"tooLarge": len(body), **more})
    stub = {"metadata": _bare(found.metadata), "status": found.status, "tooLarge": len(body)}
    return msgspec.json.encode({**stub, **more})


def _bare(meta: ObjectMeta) -> ObjectMeta:
    marks = {key: meta.labels[key] for key in _MARKS if key in meta.labels}
    return msgspec.structs.replace(
        meta, labels=marks, annotations={}, owner_references=(), finalizers=()
    )


def trim_slice(body: bytes) -> bytes:
    """A ResourceSlice that a consumer wrote, without resources where it names too many."""
    return _without_entries(body, "resources", MAX_QUANTITIES, rest=True)


def trim_map(body: bytes) -> bytes:
    """A NamespaceMap that a consumer wrote, without its entries where it has too many."""
    return _without_entries(body, "desiredMapping", MAX_MAPPED, rest=False)


def _without_entries(body: bytes, field: str, most: int, *, rest: bool) -> bytes:
    """An object that a consumer's replicator wrote, as a stub where a field has too many entries.

    Args:
        body: the object.
        field: of its ``spec``; left out in a stub, and so is the one of that name in ``status``.
        most: the number of entries up to which the object stays whole.
        rest: whether a stub keeps the other fields of ``spec`` and ``status``.
    """
    if len(body) <= 4 * most:
        return body
    try:
        found = msgspec.json.decode(body, type=_Whole)
    except UNREADABLE:
        return body
    named = found.spec.get(field)
    entries = len(named) if isinstance(named, dict) else 0
    replica = found.metadata.labels.get(labels.REPLICATED) == labels.TRUE
    if entries <= most or not replica:
        return body
    spec = {key: value for key, value in found.spec.items() if rest and key != field}
    status = {key: value for key, value in found.status.items() if rest and key != field}
    return _stub(found, spec, status, entries)


def _stub(found: _Whole, spec: Json, status: Json, entries: int) -> bytes:
    notes = found.metadata.annotations
    kept = {key: value for key, value in notes.items() if "liqo" in key and len(value) <= 256}
    metadata = msgspec.structs.replace(
        _bare(found.metadata), annotations=kept, finalizers=found.metadata.finalizers[:16]
    )
    stub = {"metadata": metadata, "spec": spec, "status": status, "tooLarge": entries}
    slim = msgspec.json.encode(stub)
    if len(slim) <= MAX_STUB:
        return slim
    return msgspec.json.encode({"metadata": _bare(found.metadata), "tooLarge": entries})


ALWAYS: Final = "Always"
"""The restart policy of a pod that names none (core/v1)."""


class _TrimmedContainer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str = ""
    resources: Json | None = None
    restart_policy: str | None = None


class _PodSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    containers: tuple[_TrimmedContainer, ...] | None = None
    init_containers: tuple[_TrimmedContainer, ...] | None = None
    overhead: Json | None = None
    resources: Json | None = None
    node_name: str = ""
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _PodSpec = _PodSpec()
    status: Json = {}


def trim_made(body: bytes) -> bytes:
    """Trim a pod that was made for a consumer to the fields for its cost and its end."""
    try:
        pod = msgspec.json.decode(body, type=_Pod)
    except (*UNREADABLE, msgspec.ValidationError):
        return body
    if pod.spec.restart_policy == ALWAYS:  # of most, so nothing says it
        pod = msgspec.structs.replace(
            pod, spec=msgspec.structs.replace(pod.spec, restart_policy=None)
        )
    return msgspec.json.encode(pod)


GUEST_PODS: Final[Mapping[str, Any]] = {
    "selection": Selection(labels=labels.GUEST_PODS),
    "trim": trim_made,
    "counted": keep_excess,
}
"""How all who follow the pods that run here for consumers do so: then there is one informer."""

TRIMS: Final[Mapping[Kind, Callable[[bytes], bytes]]] = {
    RESOURCE_SLICES: trim_slice,
    NAMESPACE_MAPS: trim_map,
}
"""Functions that trim the objects of each kind that consumers write and many components read."""


def informers(client: Client, nursery: trio.Nursery, config: Config) -> Informers:
    """The informers of this cluster, which hold no more of each consumer than configured."""
    holdings = MemoryQuota(config.guests.max_bytes, "guests.max_bytes")
    return Informers(client, nursery, trims=TRIMS, holdings=holdings)


def note_owner(holdings: MemoryQuota, change: StoreChange) -> None:
    """Note the owner of a Namespace; a handler for its informer."""
    owner = None
    if change.new is not None:
        metadata = msgspec.json.decode(change.new, type=Partial).metadata
        ours = labels.TENANT_NAMESPACE in metadata.labels
        if ours or labels.MANAGED_BY_NAMESPACE_MAP in metadata.annotations:
            owner = metadata.labels.get(labels.REMOTE_CLUSTER_ID)
    holdings.belongs(change.key[1], owner)
