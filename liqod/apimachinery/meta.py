"""Typed object metadata: what every Kubernetes object carries, and nothing of what it holds.

Field names are those of ``metav1.ObjectMeta``; unknown fields are ignored, so these structs are
for reading. Objects to write are built as plain JSON values, never by re-encoding a decoded struct.
"""

from typing import Any

import msgspec

from liqod.apimachinery.kinds import Kind


class OwnerReference(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A reference from a dependent to its owner (``metav1.OwnerReference``)."""

    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """``metav1.ObjectMeta`` without ``managedFields``; times stay RFC 3339 text."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Partial(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The part that all objects share; decodes any object, or a ``PartialObjectMetadata``."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


def newer(one: str, other: str) -> bool:
    """True if resource version ``one`` is at least as new as ``other`` (both of one kind)."""
    if one.isdecimal() and other.isdecimal():
        return int(one) >= int(other)
    return one == other


def owner_reference(kind: Kind, meta: ObjectMeta) -> dict[str, Any]:
    """A reference to a controlling owner, as JSON: the dependent is collected when it has gone."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
