"""Compares wanted objects with live ones, and makes the JSON merge patches (RFC 7386) between them.

An API server adds defaults, normalises quantities and lets others add labels, volumes or
conditions, so a live object never equals the written one. Pure, for plain JSON values:

* :func:`contained`: True if the live object holds all wanted values. It notices a hand edit.
* :func:`digest`: equal if the wanted object is that of the last write. It notices dropped keys.
* :func:`owned_patch`: the smallest patch that makes the live object contain the wanted one, without
  the keys that were recorded at the last write and are no longer wanted; additions of others stay.
  For objects with several writers.
* :func:`exact_patch`: the smallest patch that makes one value equal to another. For values with one
  writer, such as a status.
* :func:`merged`: the result of a patch at an API server.

Every function that makes or takes a patch has the live object first, then the wanted one.

Lists that Kubernetes keys (containers by name, ports by number …) are compared item by item,
others as a whole. Maps whose every key is ours (a ConfigMap's data) tolerate no other key.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

import msgspec

from liqod.apimachinery import labels
from liqod.model.objects import quantities

Json = Any
Keys = dict[str, Any]
"""A tree of the keys that were written: nested maps, ``{}`` at the leaves."""

_LIST_KEYS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "containers": (("name",),),
    "initContainers": (("name",),),
    "ephemeralContainers": (("name",),),
    "volumes": (("name",),),
    "env": (("name",),),
    "imagePullSecrets": (("name",),),
    "volumeMounts": (("mountPath",),),
    "volumeDevices": (("devicePath",),),
    "ports": (("containerPort", "protocol"), ("port", "protocol")),
    "hostAliases": (("ip",),),
    "tolerations": (("key", "operator", "value", "effect"),),
    "taints": (("key", "effect"),),
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
    "conditions": (("type",),),
    "addresses": (("type", "address"),),
    "ownerReferences": (("uid",),),
    "containerStatuses": (("name",),),
    "initContainerStatuses": (("name",),),
    "ephemeralContainerStatuses": (("name",),),
    "webhooks": (("name",),),
    "versions": (("name",),),
}
_KEY_DEFAULTS: Final = {"protocol": "TCP", "operator": "Equal"}
_QUANTITY_MAPS: Final = frozenset(
    {"requests", "limits", "hard", "used", "resources", "capacity", "allocatable", "overhead"}
)
_QUANTITY_KEYS: Final = frozenset({"sizeLimit", "divisor"})
_WHOLE: Final = frozenset(
    {
        ("data",),
        ("binaryData",),
        ("spec", "desiredMapping"),
        ("status", "currentMapping"),
        ("status", "resources"),
    }
)
_FREE_MAPS: Final = frozenset(
    (key,)
    for key in ("labels", "annotations", "matchLabels", "nodeSelector", "selector", "nodeLabels")
)
"""Maps with keys of the user's choice: an empty text in them is not the same as none."""
_SETS: Final = frozenset({"finalizers"})
_PLAIN: Final = frozenset({dict, list, str, int, float, bool, type(None)})
BOOKKEEPING: Final = (labels.APPLIED_HASH, labels.APPLIED_KEYS)
"""Annotations in which a writer records its write; they are no part of the wanted object."""

Path = tuple[str, ...]


def digest(wanted: Json) -> str:
    """A short hash of the wanted object, the same for any order of keys; 16 hexadecimal digits.

    The annotations that record a write are left out.
    """
    if _is_map(wanted):
        wanted = without_bookkeeping(wanted)
    return hashlib.sha256(msgspec.json.encode(wanted, order="deterministic")).hexdigest()[:16]


def without_bookkeeping(obj: Mapping[str, Json]) -> dict[str, Json]:
    """The object without the annotations that record a write; the original is left alone."""
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if _is_map(metadata) else None
    if not _is_map(annotations) or not any(k in annotations for k in BOOKKEEPING):
        return dict(obj)
    kept = {k: v for k, v in annotations.items() if k not in BOOKKEEPING}
    return {**obj, "metadata": {**(metadata or {}), "annotations": kept}}


def contained(wanted: Json, live: Json, path: Path = ()) -> bool:
    """True if the live value holds all of the wanted one.

    None in a wanted map requires the key's absence. A zero value (``false``, 0, an empty text, map
    or list) is contained in an absent key, as Kubernetes stores it. Not so where users choose the
    keys, as in labels and in a ConfigMap's data.

    Args:
        wanted: the wanted value.
        live: the live one.
        path: keys from the root of the object to these values; lists add nothing.
    """
    if _is_map(wanted) and _is_map(live):
        if _is_whole(path) and any(key not in wanted for key in live if live[key] is not None):
            return False
        return all(_holds(live, key, value, path) for key, value in wanted.items())
    if _is_list(wanted) and _is_list(live):
        return _list_contained(wanted, live, path)
    return _same(wanted, live, path)


def owned_patch(live: Mapping[str, Json], wanted: Mapping[str, Json], recorded: Keys) -> Keys:
    """The merge patch that makes ``live`` contain ``wanted``; empty if nothing is to change.

    Args:
        live: the live object.
        wanted: the wanted one.
        recorded: :func:`keys_of` the wanted object of the last write; ``{}`` if unknown.
    """
    return _patch(wanted, live, recorded, ())


def exact_patch(live: Mapping[str, Json], wanted: Mapping[str, Json]) -> dict[str, Json]:
    """The smallest patch that makes ``live`` equal to ``wanted``; empty if it is so already.

    A key that is no longer wanted is patched to null; lists are replaced as a whole. A null inside
    ``wanted`` cannot be expressed and means the same as an absent key.
    """
    patch: dict[str, Json] = {key: None for key in live if wanted.get(key) is None}
    patch = {key: value for key, value in patch.items() if live[key] is not None}
    for key, value in wanted.items():
        if value is None:
            continue
        before = live.get(key)
        if _is_map(value) and _is_map(before):
            inner = exact_patch(before, value)
            if inner:
                patch[key] = inner
        elif before != value:
            patch[key] = value
    return patch


def merged(live: Json, patch: Json) -> Json:
    """The value that an API server makes of ``live`` by a patch (RFC 7386, section 2)."""
    if not _is_map(patch):
        return patch
    result = dict(live) if _is_map(live) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def keys_of(wanted: Mapping[str, Json]) -> Keys:
    """The tree of keys that is recorded with a write, to remove those later that are unwanted then.

    Left out are the keys of every object (``apiVersion``, ``kind``, ``metadata.name``,
    ``metadata.namespace``) and the inside of maps that are liqod's alone.
    """
    tree = _tree(without_bookkeeping(wanted), ())
    tree.pop("apiVersion", None)
    tree.pop("kind", None)
    if "metadata" in tree:
        metadata = {k: v for k, v in tree["metadata"].items() if k not in ("name", "namespace")}
        tree["metadata"] = metadata
    return tree


def encode_keys(keys: Keys) -> str:
    """The text of a tree of keys, for an annotation."""
    return msgspec.json.encode(keys, order="deterministic").decode()


def decode_keys(text: str) -> Keys:
    """The tree of an annotation's text; empty if it is not one."""
    try:
        decoded = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
    return decoded


def _holds(live: Mapping[str, Json], key: str, value: Json, path: Path) -> bool:
    there = live.get(key)
    if there is None:
        return value is None or _vanishes(value, (*path, key))
    return value is not None and contained(value, there, (*path, key))


def _same(wanted: Json, live: Json, path: Path) -> bool:
    if wanted == live and isinstance(wanted, bool) == isinstance(live, bool):
        return True
    if not path:
        return False
    is_quantity = path[-1] in _QUANTITY_KEYS or (len(path) > 1 and path[-2] in _QUANTITY_MAPS)
    return is_quantity and quantities.equal(wanted, live)


def _is_whole(path: Path) -> bool:
    """True if a map at that path is ours alone, as is all that is in such a map."""
    return path[:1] in _WHOLE or path[:2] in _WHOLE


def _is_map(value: Json) -> TypeGuard[Mapping[str, Json]]:
    # The types that JSON is decoded to come first: an abstract class takes several times as long.
    kind = type(value)
    return kind is dict or (kind not in _PLAIN and isinstance(value, Mapping))


def _is_list(value: Json) -> TypeGuard[Sequence[Json]]:
    kind = type(value)
    if kind is list or kind in _PLAIN:
        return kind is list
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_set(path: Path, *lists: Sequence[Json]) -> bool:
    if not path or path[-1] not in _SETS:
        return False
    return all(isinstance(item, str) for items in lists for item in items)


def _vanishes(value: Json, path: Path) -> bool:
    """True if Kubernetes stores the value at that path as an absent key."""
    parent = path[:-1]
    if _is_whole(parent) or parent[-1:] in _FREE_MAPS:
        return False
    if _is_map(value):
        return all(v is None or _vanishes(v, (*path, k)) for k, v in value.items())
    return not value


def _list_contained(wanted: Sequence[Json], live: Sequence[Json], path: Path) -> bool:
    if _is_set(path, wanted, live):
        return set(wanted) <= set(live)
    key = _list_key(wanted, live, path)
    if key is None:
        return len(wanted) == len(live) and all(
            contained(one, other, path) for one, other in zip(wanted, live, strict=True)
        )
    there = dict(_keyed(live, key))
    return all(name in there and contained(i, there[name], path) for name, i in _keyed(wanted, key))


def _list_key(wanted: Sequence[Json], live: Sequence[Json], path: Path) -> tuple[str, ...] | None:
    """The key by which both lists are keyed: one that all items have, once each."""
    for key in _LIST_KEYS.get(path[-1] if path else "", ()):
        if all(_has_unique(items, key) for items in (wanted, live)):
            return key
    return None


def _has_unique(items: Sequence[Json], key: tuple[str, ...]) -> bool:
    if not all(_is_map(i) and any(part in i for part in key) for i in items):
        return False
    names = [name for name, _ in _keyed(items, key)]
    return len(names) == len(set(names))


def _keyed(items: Sequence[Json], key: tuple[str, ...]) -> Iterator[tuple[str, Json]]:
    for item in items:
        yield "|".join(str(item.get(part) or _KEY_DEFAULTS.get(part, "")) for part in key), item


def _patch(wanted: Mapping[str, Json], live: Mapping[str, Json], old: Keys, path: Path) -> Keys:
    patch: Keys = {}
    gone = set(old) - set(wanted)
    if _is_whole(path):
        gone = set(live) - set(wanted)
    for key in sorted(gone):
        if live.get(key) is not None:
            patch[key] = None
    for key, value in wanted.items():
        inner = old.get(key) or {}
        there = live.get(key)
        here = (*path, key)
        if _is_map(value) and _is_map(there):
            deeper = _patch(value, there, inner, here)
            if deeper:
                patch[key] = deeper
        elif _is_list(value) and _is_list(there):
            items = _merged(value, there, inner, here)
            if items is not None:
                patch[key] = items
        elif not _holds(live, key, value, path):
            patch[key] = value
    return patch


def _merged(
    wanted: Sequence[Json], live: Sequence[Json], old: Keys, path: Path
) -> list[Json] | None:
    """The list to write, or None if the live one will do.

    Items of others stay, in front; wanted items that are contained keep their defaults.
    """
    if _is_set(path, wanted, live):
        kept = [item for item in live if item not in old or item in wanted]
        merged = [*kept, *(item for item in wanted if item not in kept)]
        return None if merged == list(live) else merged
    key = _list_key(wanted, live, path)
    if key is None:
        return None if _list_contained(wanted, live, path) else list(wanted)
    mine = dict(_keyed(wanted, key))
    there = dict(_keyed(live, key))
    result = [item for name, item in there.items() if name not in mine and name not in old]
    for name, item in mine.items():
        current = there.get(name)
        lost = current is not None and _lost(old.get(name) or {}, item, current, path)
        keeps = current is not None and not lost and contained(item, current, path)
        result.append(current if keeps else item)
    same = len(result) == len(live) and all(item in live for item in result)
    return None if same else result


def _lost(old: Keys, wanted: Mapping[str, Json], live: Mapping[str, Json], path: Path) -> bool:
    """True if the live item holds a key that was wanted once and no longer is."""
    for key, inner in old.items():
        if key not in wanted:
            if key in live:
                return True
            continue
        one, other = wanted[key], live.get(key)
        if _is_map(one) and _is_map(other):
            if _lost(inner, one, other, (*path, key)):
                return True
        elif (
            _is_list(one)
            and _is_list(other)
            and inner
            and _merged(one, other, inner, (*path, key)) is not None
        ):
            return True
    return False


def _tree(value: Json, path: Path) -> Keys:
    if _is_map(value):
        if path in _WHOLE:
            return {}
        return {k: _tree(v, (*path, k)) for k, v in value.items() if v is not None}
    if path and _is_list(value):
        if _is_set(path, value):
            return {item: {} for item in value}
        key = _list_key(value, value, path)
        if key is not None:
            return {name: _tree(item, path) for name, item in _keyed(value, key)}
    return {}
