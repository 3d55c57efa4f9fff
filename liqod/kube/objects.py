"""Objects as bytes: what is taken off on arrival, what is looked at, what is refused.

An object stays the JSON it came as, but for ``managedFields``, which is often half of it and which
nobody here reads. Decoding one level with the rest left raw costs little more than reading it.
"""

from typing import Any, NamedTuple

import msgspec

from liqod.errors import ProtocolError
from liqod.kube.kinds import Kind
from liqod.kube.meta import Partial

MAX_OBJECT = 3 << 19
"""Bytes of one object that we are willing to hold: 1.5 MiB, etcd's own limit."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for JSON that is none, or not of the type, or too deeply nested."""

Key = tuple[str, str]
"""Namespace (``""`` for what has none) and name."""

Fields = dict[str, msgspec.Raw]
"""An object, decoded one level deep."""


class Slim(NamedTuple):
    """An object on its way into a store."""

    key: Key
    resource_version: str
    body: bytes


class _Ident(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


_fields = msgspec.json.Decoder(Fields)
_ident = msgspec.json.Decoder(_Ident)
_encode = msgspec.json.Encoder().encode


def slim(fields: Fields, kind: Kind | None = None) -> Slim:
    """An object without its ``managedFields``.

    Args:
        fields: the object.
        kind: what it is, for the items of a list, which do not say so themselves.

    Raises ProtocolError for what has no usable metadata, RecursionError for what is nested too
    deeply to be read.
    """
    try:
        raw = fields["metadata"]
        ident = _ident.decode(raw)
        metadata = _fields.decode(raw)
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"an object without usable metadata: {error}") from error
    if not ident.name:
        raise ProtocolError("an object without a name")
    if metadata.pop("managedFields", None) is not None:
        fields["metadata"] = msgspec.Raw(_encode(metadata))
    first = {name: fields[name] for name in ("apiVersion", "kind") if name in fields}
    if not first and kind is not None:
        first = {
            "apiVersion": msgspec.Raw(_encode(kind.api_version)),
            "kind": msgspec.Raw(_encode(kind.name)),
        }
    body = _encode(first | fields)  # in the same order, wherever it came from
    return Slim((ident.namespace, ident.name), ident.resource_version, body)


def slim_raw(raw: msgspec.Raw | bytes, kind: Kind | None = None) -> Slim:
    """The same for an object that is still raw."""
    try:
        fields = _fields.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"not an object: {error}") from error
    return slim(fields, kind)


def encode(obj: Any, kind: Kind) -> tuple[bytes, Partial]:
    """An object as JSON, and its metadata.

    Args:
        obj: a mapping (``apiVersion`` and ``kind`` are added where they are missing), a struct, or
            JSON.
        kind: what it is.
    """
    if isinstance(obj, bytes):
        body = obj
    elif isinstance(obj, dict):
        body = _encode({"apiVersion": kind.api_version, "kind": kind.name, **obj})
    else:
        body = _encode(obj)
    return body, msgspec.json.decode(body, type=Partial)
