"""Parts of an object that follow another one, named by paths. Pure, for plain JSON values.

A path is a chain of fields, such as ``spec.pod.activeDeadlineSeconds``; ``containers[*].image`` is
a field of each item of a list whose items have names. No shape of an object is assumed: a value
without the shape that a path needs has nothing under it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

Json = dict[str, Any]

EACH: Final = "[*]"
_PATH: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(\[\*\])?(\.[A-Za-z][A-Za-z0-9]*(\[\*\])?)*")


def problem(path: str) -> str:
    """The reason why a text is no path, as a clause; empty if it is one."""
    if _PATH.fullmatch(path) and not path.endswith(EACH):
        return ""
    return f"{path!r} is no path of fields, such as spec.pod.containers[*].image"


def select(obj: Mapping[str, Any], paths: Iterable[str]) -> Json:
    """The values of an object by path, and by names of items; empty values are left out."""
    found = {path: _picked(obj, path.split(".")) for path in paths}
    return {path: value for path, value in found.items() if value not in (None, {}, [])}


def overlay(there: Json, wanted: Mapping[str, Any], paths: Iterable[str]) -> Json:
    """The object with the wanted values under each path; items that it does not have stay out."""
    for path in paths:
        there = _laid(there, wanted, path.split("."))
    return there


def named(obj: Any, field: str) -> dict[str, Json]:
    """The items of a list by their names."""
    items = obj.get(field) if isinstance(obj, Mapping) else None
    if not isinstance(items, list):
        return {}
    return {
        each["name"]: each
        for each in items
        if isinstance(each, dict) and isinstance(each.get("name"), str)
    }


def name_of(item: Any) -> str:
    """The name of an item of a list; empty where it has none."""
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else ""


def _picked(obj: Any, steps: list[str]) -> Any:
    first, rest = steps[0], steps[1:]
    if first.endswith(EACH):
        items = named(obj, first.removesuffix(EACH)).items()
        found = {name: _picked(each, rest) for name, each in items}
        return {name: value for name, value in found.items() if value not in (None, {}, [])}
    value = obj.get(first) if isinstance(obj, Mapping) else None
    return _picked(value, rest) if rest else value


def _laid(there: Json, wanted: Any, steps: list[str]) -> Json:
    first, rest = steps[0], steps[1:]
    if first.endswith(EACH):
        field = first.removesuffix(EACH)
        items = named(wanted, field)
        listed = there.get(field)
        if not items or not isinstance(listed, list):
            return there
        return {**there, field: [_item(each, items, rest) for each in listed]}
    value = wanted.get(first) if isinstance(wanted, Mapping) else None
    if rest:
        inner = there.get(first)
        return {**there, first: _laid(inner, value, rest)} if isinstance(inner, dict) else there
    kept = {name: each for name, each in there.items() if name != first}
    return kept if value is None else {**kept, first: value}


def _item(there: Any, wanted: Mapping[str, Json], steps: list[str]) -> Any:
    name = there.get("name") if isinstance(there, dict) else None
    if not isinstance(name, str) or name not in wanted:
        return there
    return _laid(there, wanted[name], steps)
