"""Server-side apply: merge what a manager wants into what is there, and remember what it owns.

After ``sigs.k8s.io/structured-merge-diff``: fields that a manager applied before and applies no
longer are removed unless somebody else owns them; a field that another manager owns with another
value is a conflict, or changes hands when forced; an ordinary update takes over what it changes.
"""

from copy import deepcopy
from typing import Any

import msgspec

from liqod.kube import times
from simulator.catalog import Resource
from simulator.storage import fields
from simulator.storage.fields import Path
from simulator.storage.shapes import BUILTIN, Shape, of_schema
from simulator.wire.failures import ApiError

Json = dict[str, Any]
BEFORE_FIRST = "before-first-apply"


class FieldManager(msgspec.Struct, frozen=True):
    """A writer, as managed fields distinguish writers."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


Owned = dict[FieldManager, frozenset[Path]]


def shape_of(resource: Resource) -> Shape:
    """The merge rules of a kind."""
    return BUILTIN if resource.schema is None else of_schema(resource.schema)


def read(meta: Json) -> Owned:
    """The owners of fields that an object's metadata names."""
    return {
        FieldManager(
            entry["manager"],
            entry["operation"],
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        ): fields.from_fields(entry.get("fieldsV1") or {})
        for entry in meta.get("managedFields") or ()
    }


def write(meta: Json, owned: Owned, before: Json, by: FieldManager | None = None) -> None:
    """Put owners into metadata; an entry that has not changed keeps its time.

    Args:
        meta: of the object.
        owned: who owns what.
        before: the metadata before.
        by: who has just changed something: that entry's time is now.
    """
    before_by_manager = {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry
        for entry in before.get("managedFields") or ()
    }
    entries = []
    for manager, paths in owned.items():
        if not paths:
            continue
        listed = fields.to_fields(paths)
        known = before_by_manager.get((manager.name, manager.operation, manager.subresource), {})
        entry = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": known["time"]
            if known.get("fieldsV1") == listed and manager != by
            else times.now(),
            "fieldsType": "FieldsV1",
            "fieldsV1": listed,
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    if entries:
        meta["managedFields"] = entries
    else:
        meta.pop("managedFields", None)


def apply(
    resource: Resource, live: Json | None, wanted: Json, manager: FieldManager, *, force: bool
) -> Json:
    """The object after a manager has applied what it wants.

    Args:
        live: the object as it is, or None where there is none.

    Raises:
        ApiError: 409 naming the fields that others own with another value.
    """
    shape = shape_of(resource)
    before = live or {"metadata": {}}
    owned = read(before["metadata"])
    if live is not None and not owned:
        first = FieldManager(BEFORE_FIRST, "Update", manager.api_version)
        owned[first] = frozenset(fields.paths(live, shape))
    wants = fields.paths(wanted, shape)
    has = fields.paths(before, shape)
    others = {each: paths for each, paths in owned.items() if each != manager}
    _settle(wants, has, others, force)
    result: Json = _merge(deepcopy(before), wanted, shape)
    kept = frozenset().union(*others.values()) if others else frozenset[Path]()
    gone = owned.get(manager, frozenset()) - set(wants) - kept
    for path in sorted(gone):  # an item before the fields by which it is found
        if not any(other[: len(path)] == path for other in kept | set(wants)):
            fields.remove(result, path, shape)
    others[manager] = frozenset(wants)
    write(result["metadata"], others, before["metadata"])
    return result


def _settle(wants: dict[Path, Any], has: dict[Path, Any], others: Owned, force: bool) -> None:
    """Find conflicts, or take what is contested, in place."""
    changed = {path for path, value in wants.items() if path in has and has[path] != value}
    contested: list[tuple[FieldManager, Path]] = []
    for other, paths in others.items():
        lost = paths & changed
        contested += [(other, path) for path in sorted(lost)]
        if force:
            others[other] = paths - lost
    if contested and not force:
        raise _conflict(contested)


def _conflict(contested: list[tuple[FieldManager, Path]]) -> ApiError:
    causes = []
    for other, path in contested:
        using = f" using {other.api_version}" if other.operation == "Update" else ""
        causes.append(
            {
                "reason": "FieldManagerConflict",
                "message": f'conflict with "{other.name}"{using}',
                "field": _dotted(path),
            }
        )
    listed = "\n".join(f"- {cause['field']}" for cause in causes)
    number = f"{len(causes)} conflict" + ("s" if len(causes) > 1 else "")
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        message = f"Apply failed with {number}: {causes[0]['message']}:\n{listed}"
    return ApiError(409, "Conflict", message, details={"causes": causes})


def _dotted(path: Path) -> str:
    text = ""
    for step in path:
        if step.startswith("f:"):
            text += f".{step[2:]}"
        elif step.startswith("k:"):
            named = msgspec.json.decode(step[2:])
            inner = ",".join(f"{k}={msgspec.json.encode(v).decode()}" for k, v in named.items())
            text += f"[{inner}]"
        else:
            text += f"[{step[2:]}]"
    return text


def _merge(live: Any, wanted: Any, shape: Shape) -> Any:
    if isinstance(wanted, dict) and isinstance(live, dict) and not shape.atomic:
        for key, value in wanted.items():
            inner = shape.field(key)
            live[key] = _merge(live[key], value, inner) if key in live else deepcopy(value)
        return live
    if isinstance(wanted, list) and isinstance(live, list):
        if shape.keys:
            return _merge_items(live, wanted, shape)
        if shape.is_set:
            return list(dict.fromkeys([*live, *wanted]))
    return deepcopy(wanted)


def _merge_items(live: list[Any], wanted: list[Any], shape: Shape) -> list[Any]:
    result = list(live)
    places = {fields.item_step(item, shape.keys): at for at, item in enumerate(result)}
    for item in wanted:
        at = places.get(fields.item_step(item, shape.keys))
        if at is None:
            result.append(deepcopy(item))
        else:
            result[at] = _merge(result[at], item, shape.item)
    return result


def track_update(resource: Resource, before: Json, after: Json, manager: FieldManager) -> None:
    """After an ordinary write: what it changed is its writer's, what is gone is nobody's.

    Objects that nobody has applied carry no managed fields here, to keep them small, but for
    Leases: that is the one place where the server says when it took a renewal in.
    """
    owned = read(before["metadata"])
    if not owned and resource.plural != "leases":
        after["metadata"].pop("managedFields", None)
        return
    shape = shape_of(resource)
    had, has = fields.paths(before, shape), fields.paths(after, shape)
    changed = frozenset(
        path for path, value in has.items() if path not in had or had[path] != value
    )
    present = set(has)
    for other, paths in owned.items():
        owned[other] = (paths - changed) & present
    owned[manager] = owned.get(manager, frozenset()) | changed
    write(after["metadata"], owned, before["metadata"], manager if changed else None)
