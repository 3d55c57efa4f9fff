"""Objects as bytes: what is taken off on arrival, what is read, what is refused.

An object stays the JSON it came as, but for ``managedFields``, which is often half of it and which
nobody here reads. Cutting it out costs a third of decoding and encoding what is around it.
"""

from typing import Any, NamedTuple

import msgspec

from liqod.apimachinery.kinds import Kind
from liqod.errors import ProtocolError

MAX_OBJECT = 3 << 19
"""Bytes of one object that we are willing to hold: 1.5 MiB, etcd's own limit."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of decoding JSON that is invalid, not of the type, or too deeply nested."""

Key = tuple[str, str]
"""Namespace (``""`` for what has none) and name."""

Fields = dict[str, msgspec.Raw]
"""An object, decoded one level deep."""


class Slim(NamedTuple):
    """An object on its way into a store."""

    key: Key
    resource_version: str
    body: bytes


class _Ident(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    managed_fields: msgspec.Raw = msgspec.Raw(b"")


class _Head(msgspec.Struct, rename="camel"):
    metadata: _Ident
    api_version: str = ""
    kind: str = ""


class _Named(msgspec.Struct):
    """An object that perhaps has a name: a review has none."""

    metadata: _Ident = _Ident()


_fields = msgspec.json.Decoder(Fields)
_head = msgspec.json.Decoder(_Head)
_named = msgspec.json.Decoder(_Named)
_encode = msgspec.json.Encoder().encode
_MANAGED = b'"managedFields":'


def slim_raw(raw: msgspec.Raw | bytes, kind: Kind | None = None) -> Slim:
    """An object, given as JSON, without its ``managedFields``.

    Args:
        raw: the object.
        kind: what it is, for the items of a list, which do not say so themselves.

    Raises ProtocolError for what has no usable metadata, RecursionError for what is nested too
    deeply to be read.
    """
    try:
        head = _head.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"not an object with usable metadata: {error}") from error
    ident = head.metadata
    if not ident.name:
        raise ProtocolError("an object without a name")
    body = _cut(raw if isinstance(raw, bytes) else bytes(raw), head, kind) or _rewritten(raw, kind)
    return Slim((ident.namespace, ident.name), ident.resource_version, body)


def _cut(body: bytes, head: _Head, kind: Kind | None) -> bytes | None:
    """The object by cutting, where it is written as an API server writes it; None otherwise."""
    managed = bytes(head.metadata.managed_fields)
    if managed:
        at = body.find(_MANAGED)
        end = at + len(_MANAGED) + len(managed)
        if not body.startswith(managed, at + len(_MANAGED)):
            return None
        if body[at - 1 : at] == b",":
            body = body[: at - 1] + body[end:]
        elif body[end : end + 1] == b",":
            body = body[:at] + body[end + 1 :]
        else:
            return None
    if not head.kind and not head.api_version:
        return None if kind is None else _first(kind.api_version, kind.name) + body[1:]
    wanted = _first(head.api_version, head.kind)
    if body.startswith(wanted):
        return body
    swapped = f'{{"kind":"{head.kind}","apiVersion":"{head.api_version}",'.encode()
    return wanted + body[len(swapped) :] if body.startswith(swapped) else None


def _first(api_version: str, kind: str) -> bytes:
    """How every object begins, wherever it came from."""
    return f'{{"apiVersion":"{api_version}","kind":"{kind}",'.encode()


def _rewritten(raw: msgspec.Raw | bytes, kind: Kind | None) -> bytes:
    """The object by writing it anew."""
    fields = _fields.decode(raw)
    metadata = _fields.decode(fields["metadata"])
    if metadata.pop("managedFields", None) is not None:
        fields["metadata"] = msgspec.Raw(_encode(metadata))
    first = {name: fields[name] for name in ("apiVersion", "kind") if name in fields}
    if not first and kind is not None:
        first = {
            "apiVersion": msgspec.Raw(_encode(kind.api_version)),
            "kind": msgspec.Raw(_encode(kind.name)),
        }
    return _encode(first | fields)


def encode(obj: Any, kind: Kind) -> tuple[bytes, Key]:
    """An object as JSON, and its key; parts that it does not name are empty.

    Args:
        obj: a mapping (``apiVersion`` and ``kind`` are added where they are missing), a struct, or
            JSON.
        kind: what it is.
    """
    if isinstance(obj, dict):
        metadata = obj.get("metadata") or {}
        body = _encode({"apiVersion": kind.api_version, "kind": kind.name, **obj})
        return body, (metadata.get("namespace") or "", metadata.get("name") or "")
    body = obj if isinstance(obj, bytes) else _encode(obj)
    ident = _named.decode(body).metadata
    return body, (ident.namespace, ident.name)


def decode_as(body: bytes, kind: Any) -> Any:
    """JSON as ``kind``. Raises ProtocolError for what is no such thing."""
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE as error:
        raise ProtocolError(f"the answer is not what it should be: {error}") from error
