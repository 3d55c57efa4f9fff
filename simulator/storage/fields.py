"""Sets of owned fields: the algebra behind ``metadata.managedFields``.

A field is a path of steps in the notation of FieldsV1: ``f:name`` for a field, ``k:{…}`` for an
item of a keyed list, ``v:…`` for a member of a set. Sets of paths make the rest of server-side
apply set algebra.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from simulator.storage.shapes import Shape

Json = dict[str, Any]
Path = tuple[str, ...]

_UNOWNED_META = {
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
}
_UNOWNED = {"apiVersion", "kind"}


def paths(obj: Json, shape: Shape) -> dict[Path, Any]:
    """Every owned field of an object with its value: leaves, atoms, and items of keyed lists."""
    found: dict[Path, Any] = {}
    for key, value in obj.items():
        if key in _UNOWNED:
            continue
        if key == "metadata":
            value = {k: v for k, v in value.items() if k not in _UNOWNED_META}
            if not value:
                continue
        _walk(value, shape.field(key), (f"f:{key}",), found)
    return found


def _walk(value: Any, shape: Shape, path: Path, found: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value and not shape.atomic:
        for key, inner in value.items():
            _walk(inner, shape.field(key), (*path, f"f:{key}"), found)
    elif isinstance(value, list) and shape.keys and _all_objects(value):
        for item in value:
            inside = (*path, item_step(item, shape.keys))
            found[inside] = None
            for key, inner in item.items():
                _walk(inner, shape.item.field(key), (*inside, f"f:{key}"), found)
    elif isinstance(value, list) and shape.is_set:
        for member in value:
            found[*path, f"v:{msgspec.json.encode(member).decode()}"] = member
    else:
        found[path] = value


def _all_objects(values: list[Any]) -> bool:
    return all(isinstance(each, dict) for each in values)


def item_step(item: Json, keys: tuple[str, ...]) -> str:
    """The step to an item of a keyed list; a missing protocol counts as TCP, its default."""
    named = {key: item.get(key, "TCP" if key == "protocol" else None) for key in sorted(keys)}
    return "k:" + msgspec.json.encode(named).decode()


def to_fields(owned: frozenset[Path]) -> Json:
    """A set of paths as FieldsV1."""
    root: Json = {}
    for path in sorted(owned):
        at = root
        for step in path:
            at = at.setdefault(step, {})
        if path[-1].startswith("k:"):
            at["."] = {}
    return root


def from_fields(fields: Json) -> frozenset[Path]:
    """FieldsV1 as a set of paths."""
    return frozenset(_collect(fields, ()))


def _collect(fields: Json, path: Path) -> Iterator[Path]:
    inner = {step: below for step, below in fields.items() if step != "."}
    if path and (not inner or ("." in fields and path[-1].startswith("k:"))):
        yield path
    for step, below in inner.items():
        yield from _collect(below, (*path, step))


def remove(obj: Any, path: Path, shape: Shape) -> None:
    """Remove a field from an object, in place, with containers that it leaves empty."""
    step, rest = path[0], path[1:]
    if step.startswith("f:") and isinstance(obj, dict):
        key = step[2:]
        if key not in obj:
            return
        if not rest:
            del obj[key]
            return
        remove(obj[key], rest, shape.field(key))
        if obj[key] in ({}, []):
            del obj[key]
    elif isinstance(obj, list):
        _remove_item(obj, step, rest, shape)


def _remove_item(items: list[Any], step: str, rest: Path, shape: Shape) -> None:
    for index, item in enumerate(items):
        if step.startswith("v:"):
            same = step == f"v:{msgspec.json.encode(item).decode()}"
        else:
            same = isinstance(item, dict) and item_step(item, shape.keys) == step
        if not same:
            continue
        if rest:
            remove(item, rest, shape.item)
        else:
            items.pop(index)
        return
