"""Checks a plugin's description against its type: each field, and the values inside it.

A struct keeps any value it is given, so ``remote=(RemoteKind(…))`` without its comma is found
here, when the plugin is loaded, and not by the engine of every peer. Functions are checked from
outside: that they can be called with so many values, and do not wait.
"""

import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import partial
from math import isfinite
from typing import Any

import msgspec

SHOWN = 60
"""Characters of a value that are shown."""


def type_problem(value: Any, field: str = "") -> str | None:
    """The first field of a struct that does not fit its type, in a sentence; None if all do."""
    for name, hint in _hints(type(value)).items():
        where = f"{field}.{name}" if field else name
        problem = _misfit(getattr(value, name), hint, where)
        if problem is not None:
            return problem
    return None


def signature_problem(function: Callable[..., Any], count: int) -> str | None:
    """Why a function cannot be called with so many values, or is no plain one; None if it can."""
    if waits(function):
        return "is asynchronous, and has to be a plain function"
    return arity_problem(function, count)


def waits(function: Any) -> bool:
    """True if a call gives a coroutine or a generator instead of a result."""
    while isinstance(function, partial):
        function = function.func
    inner = function if inspect.isroutine(function) else vars(type(function)).get("__call__")
    return any(
        kind(inner)
        for kind in (
            inspect.iscoroutinefunction,
            inspect.isasyncgenfunction,
            inspect.isgeneratorfunction,
        )
    )


def arity_problem(function: Callable[..., Any], count: int) -> str | None:
    """Why a function cannot be called with so many values; None if it can."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in one without a signature
        return None
    try:
        signature.bind(*(None,) * count)
    except TypeError:
        return f"has to take {count} values, and takes {signature}"
    return None


_KNOWN: dict[type[Any], dict[str, Any]] = {}


def _hints(struct: type[Any]) -> dict[str, Any]:
    known = _KNOWN.get(struct)
    if known is None:
        known = _KNOWN[struct] = typing.get_type_hints(struct)
    return known


def _misfit(value: Any, hint: Any, where: str) -> str | None:
    """Why a value does not fit a type."""
    origin = typing.get_origin(hint)
    if hint is Any:
        return None
    if origin in (typing.Union, types.UnionType):
        return _of_many(value, typing.get_args(hint), where)
    if origin is typing.Literal:
        good = value in typing.get_args(hint)
        return (
            None if good else _expected(where, " or ".join(map(repr, typing.get_args(hint))), value)
        )
    if origin is tuple:
        return _of_tuple(value, typing.get_args(hint)[0], where)
    if origin is type:
        return None if isinstance(value, type) else _expected(where, "a class", value)
    if origin is Callable:
        return None if callable(value) else _expected(where, "a function", value)
    if origin is not None and issubclass(origin, Mapping):
        return None if isinstance(value, Mapping) else _expected(where, "a mapping", value)
    if origin is not None and issubclass(origin, Collection):
        return None if isinstance(value, origin) else _expected(where, origin.__name__, value)
    return _of_class(value, hint, where)


def _of_many(value: Any, hints: tuple[Any, ...], where: str) -> str | None:
    problems = [_misfit(value, each, where) for each in hints]
    if None in problems:
        return None
    # None fits no struct: the problem of the other type is clearer.
    named = [each for each, hint in zip(problems, hints, strict=True) if hint is not type(None)]
    return named[0]


def _of_tuple(value: Any, inner: Any, where: str) -> str | None:
    if not isinstance(value, tuple):
        one = _misfit(value, inner, where) is None
        comma = "; one alone needs a comma after it: (…,)" if one else ""
        return _expected(where, f"a tuple of {_name(inner)}", value) + comma
    problems = (_misfit(each, inner, f"{where}[{at}]") for at, each in enumerate(value))
    return next((each for each in problems if each is not None), None)


def _of_class(value: Any, hint: Any, where: str) -> str | None:
    if not isinstance(hint, type):
        return None
    if hint is float:
        good = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        return None if good else _expected(where, "a number", value)
    if hint is int and isinstance(value, bool):
        return _expected(where, "a whole number", value)
    if not isinstance(value, hint):
        return _expected(where, _name(hint), value)
    inside = isinstance(value, msgspec.Struct) or _is_row(value)
    return type_problem(value, where) if inside else None


def _is_row(value: Any) -> bool:
    """True for a named tuple or a dataclass, whose fields have types too."""
    return hasattr(value, "_fields") or hasattr(value, "__dataclass_fields__")


def _name(hint: Any) -> str:
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"one of {', '.join(f'{hint.__name__}.{each.name}' for each in hint)}"
    words = {str: "text", int: "a whole number", bool: "True or False"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))


def _expected(where: str, what: str, value: Any) -> str:
    return f"{where} is to be {what}, and is {shown(value)}"


def shown(value: Any) -> str:
    """A value in a few words: its type, and the value itself where that is short."""
    plain = f"{value!r}" if isinstance(value, str | int | float | None) else ""
    return f"{type(value).__name__} {plain}".strip()[:SHOWN]
