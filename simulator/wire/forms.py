"""Stored bytes into the forms that clients ask for: whole objects, metadata only, tables, lists.

Nothing is decoded that need not be: objects are spliced into lists and watch events as the bytes
they are stored as.
"""

from collections.abc import Callable, Iterable

import msgspec

from simulator.catalog import Resource
from simulator.storage.storage import Item
from simulator.wire.routes import Form
from simulator.wire.table import table_of

_META_PREFIX = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'


class _Meta(msgspec.Struct):
    metadata: msgspec.Raw


_meta_decoder = msgspec.json.Decoder(_Meta)

Render = Callable[[Item], bytes]


def renderer(resource: Resource, form: Form) -> Render:
    """The function that writes one object of a kind in a form."""
    if form.shape == "meta":
        return lambda item: _META_PREFIX + bytes(_meta_decoder.decode(item.raw).metadata) + b"}"
    if form.shape == "table":
        return lambda item: msgspec.json.encode(table_of(resource, [item], form.include))
    if resource.prefix == resource.served_prefix:
        return lambda item: item.raw
    cut, served = len(resource.prefix), resource.served_prefix
    return lambda item: served + item.raw[cut:]


def listing(
    resource: Resource,
    form: Form,
    items: Iterable[Item],
    *,
    version: int,
    token: str = "",
    remaining: int = 0,
) -> bytes:
    """A list of objects in a form, with its metadata."""
    meta: dict[str, object] = {"resourceVersion": str(version)}
    if token:
        meta["continue"] = token
        meta["remainingItemCount"] = remaining
    if form.shape == "table":
        table = table_of(resource, items, form.include)
        table["metadata"] = meta
        return msgspec.json.encode(table)
    if form.shape == "meta":
        kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        parts = map(renderer(resource, form), items)
    else:
        kind, api_version = resource.kind + "List", resource.api_version
        parts = map(_list_renderer(resource, form), items)
    head = {"kind": kind, "apiVersion": api_version, "metadata": meta}
    return msgspec.json.encode(head)[:-1] + b',"items":[' + b",".join(parts) + b"]}"


def _list_renderer(resource: Resource, form: Form) -> Render:
    """A renderer of lists: items of built-in kinds have no type there, as on the real server."""
    if resource.custom:
        return renderer(resource, form)
    cut = len(resource.prefix)
    return lambda item: b"{" + item.raw[cut:]
