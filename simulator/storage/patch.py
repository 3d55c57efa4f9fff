"""Patches of plain JSON values: RFC 7386 merge, RFC 6902 operations, Kubernetes' strategic merge.

All pure; the patched value is new, the original is left alone where it matters to the caller
(callers pass values they own). Server-side apply is in :mod:`simulator.storage.apply`.
"""

from copy import deepcopy
from typing import Any

from simulator.storage.shapes import Shape
from simulator.wire.failures import ApiError, bad_request

Json = dict[str, Any]


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: objects are merged, null removes, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def apply_operations(target: Any, operations: object) -> Any:
    """RFC 6902: a list of operations, all or nothing.

    Raises:
        ApiError: 400 if malformed; 422 if a test fails or a path is not there.
    """
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    result = {"": deepcopy(target)}
    for operation in operations:
        if not isinstance(operation, dict) or "op" not in operation or "path" not in operation:
            raise bad_request("error decoding patch: each operation has an op and a path")
        _operate(result, operation)
    return result[""]


def _operate(root: Json, operation: Json) -> None:
    path = _steps(operation["path"])
    match operation["op"]:
        case "add":
            _put(root, path, operation.get("value"), insert=True)
        case "replace":
            _find(root, path)
            _put(root, path, operation.get("value"), insert=False)
        case "remove":
            _take(root, path)
        case "move":
            _put(root, path, _take(root, _steps(operation.get("from", ""))), insert=True)
        case "copy":
            _put(root, path, deepcopy(_find(root, _steps(operation.get("from", "")))), insert=True)
        case "test":
            if _find(root, path) != operation.get("value"):
                raise _unpatchable(f"testing value {operation['path']} failed")
        case other:
            raise bad_request(f"Unexpected kind: {other}")


def _unpatchable(why: str) -> ApiError:
    return ApiError(
        422, "Invalid", f"the server rejected our request due to an error in our request: {why}"
    )


def _steps(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]


def _find(root: Any, path: list[str]) -> Any:
    found = root
    for step in path:
        try:
            found = found[int(step)] if isinstance(found, list) else found[step]
        except (KeyError, IndexError, ValueError, TypeError):
            raise _unpatchable(f"there is nothing at {'/'.join(path)}") from None
    return found


def _put(root: Any, path: list[str], value: Any, *, insert: bool) -> None:
    parent, last = _find(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        index = len(parent) if last == "-" else int(last)
        if index > len(parent):
            raise _unpatchable(f"index {index} is out of bounds")
        if insert:
            parent.insert(index, value)
        else:
            parent[index] = value
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise _unpatchable(f"there is no container at {'/'.join(path[:-1])}")


def _take(root: Any, path: list[str]) -> Any:
    value, parent = _find(root, path), _find(root, path[:-1])
    if isinstance(parent, list):
        parent.pop(int(path[-1]))
    else:
        del parent[path[-1]]
    return value


def strategic(target: Any, patch: Any, shape: Shape) -> Any:
    """Kubernetes' strategic merge of built-in kinds: keyed lists are merged by their keys."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    if "$retainKeys" in patch:
        kept = set(patch["$retainKeys"])
        result = {key: value for key, value in result.items() if key in kept}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [each for each in result.get(name, []) if each not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        else:
            order = patch.get(f"$setElementOrder/{key}")
            result[key] = _strategic_field(result.get(key), value, shape.field(key), order)
    return result


def _strategic_field(current: Any, value: Any, shape: Shape, order: list[Any] | None) -> Any:
    if isinstance(value, list):
        if shape.keys:
            return _strategic_list(current or [], value, shape.keys[0], shape, order)
        if shape.is_set:
            merged = list(dict.fromkeys([*(current or []), *value]))
            return merged if order is None else _ordered(merged, current or [], order)
        return value
    return strategic(current, value, shape)


def _strategic_list(
    current: list[Json], patch: list[Json], key: str, shape: Shape, order: list[Json] | None
) -> list[Json]:
    if any(each.get("$patch") == "replace" for each in patch):
        return [each for each in patch if "$patch" not in each]
    result = list(current)
    for change in patch:
        if key not in change:
            raise bad_request(f"map: {change} does not contain declared merge key: {key}")
        at = next((i for i, each in enumerate(result) if each.get(key) == change[key]), None)
        if change.get("$patch") == "delete":
            if at is not None:
                result.pop(at)
        elif at is None:
            result.append(strategic({}, change, shape.item))
        else:
            result[at] = strategic(result[at], change, shape.item)
    if order is None:
        return result
    items = {each[key]: each for each in result}
    names = _ordered(list(items), [each[key] for each in current], [each[key] for each in order])
    return [items[each] for each in names]


def _ordered(merged: list[Any], live: list[Any], order: list[Any]) -> list[Any]:
    """A merged list in the order that the patch wants.

    Of the others each comes before the first item, from the last place on, that was behind it.
    """
    found = [each for each in order if each in merged]
    place = 0
    for each in [one for one in merged if one not in order]:
        while place < len(found) and not (
            found[place] in live and live.index(found[place]) > live.index(each)
        ):
            place += 1
        found.insert(place, each)
        place += 1
    return found
