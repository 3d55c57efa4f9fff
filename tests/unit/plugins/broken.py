"""Every function that a plugin hands over, found in the contracts, and the ways in which it breaks.

Those of reflectors are broken between two clusters
(tests/simulated/plugins/test_plugin_walls.py), the others beside what calls them (test_walls.py); a
function that a contract gets has to be in either.
"""

import collections.abc
import time
import types
import typing
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import msgspec
import trio

from liqod.plugins import loader, providers

BLOCKS = 0.25
"""Seconds for which one that blocks does, where tests have that be enough to be parked for: more
than a busy machine holds up another one."""


def _descriptions() -> tuple[type[msgspec.Struct], ...]:
    """The structs that hooks answer with, and each struct that is a part of those."""
    found: list[type[msgspec.Struct]] = []
    waiting = [expected for _, expected in loader.HOOKS.values()]
    while waiting:
        struct = waiting.pop()
        if struct in found:
            continue
        found.append(struct)
        for hint in typing.get_type_hints(struct).values():
            waiting += [each for each in _inside(hint) if issubclass(each, msgspec.Struct)]
    return tuple(found)


def _inside(hint: Any) -> Iterator[type[Any]]:
    """The classes that a value of a type is, or holds."""
    for each in _parts(hint):
        if typing.get_origin(each) is tuple:
            for inner in typing.get_args(each):
                yield from _inside(inner)
        elif isinstance(each, type):
            yield each


def handed_over() -> set[str]:
    """Each function that a plugin hands over, as ``Type.field``, and the hooks."""
    found: set[str] = set(loader.HOOKS)
    for struct in DESCRIPTIONS:
        hints = typing.get_type_hints(struct)
        for field in msgspec.structs.fields(struct):
            for each in _parts(hints[field.name]):
                if _is_function(each):
                    found.add(f"{struct.__name__}.{field.name}")
                    found |= _functions_of(typing.get_args(each)[-1])
                elif typing.get_origin(each) is type:  # called to decode its table
                    found.add(f"{struct.__name__}.{field.name}")
    return found


def functions() -> Iterator[tuple[str, str, int, bool]]:
    """Each function of a description: its struct and field, how many values it takes, if it waits.

    Of a struct that is a part of another one, too.
    """
    for struct in DESCRIPTIONS:
        hints = typing.get_type_hints(struct)
        for field in msgspec.structs.fields(struct):
            for each in filter(_is_function, _parts(hints[field.name])):
                values, given = typing.get_args(each)
                waits = typing.get_origin(given) is collections.abc.Awaitable
                yield struct.__name__, field.name, len(values), waits


def _parts(hint: Any) -> Iterator[Any]:
    """The types of a union; one alone is one."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        yield from typing.get_args(hint)
    else:
        yield hint


def _is_function(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    return isinstance(origin, type) and origin.__name__ == "Callable"


def _functions_of(made: Any) -> set[str]:
    """The functions that are called of the object that a ``build`` makes."""
    if getattr(made, "__module__", "") != providers.__name__:
        return set()
    names = [name for name in vars(made) if not name.startswith("_")]
    return {f"{made.__name__}.{name}" for name in names}


DESCRIPTIONS = _descriptions()


async def cancelled() -> trio.Cancelled:
    """A cancellation that is over: code that raises it again makes one up."""
    caught: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            caught.append(error)
            raise
    return caught[0]


class Odd:
    """A value of a type that nobody asked for."""

    def __repr__(self) -> str:
        return "odd"


def raising(error: BaseException) -> Callable[[], None]:
    """A function that raises this."""

    def function() -> None:
        raise error

    return function


class Speechless(Exception):
    """An error of which nobody can say what it says."""

    def __str__(self) -> str:
        raise AttributeError("nothing to say")


def plain_ways(made_up: trio.Cancelled) -> dict[str, Callable[..., Any]]:
    """The ways in which a plain function breaks, by name."""

    def raising(error: BaseException) -> Callable[..., Any]:
        def function(*args: Any, **named: Any) -> Any:
            raise error

        return function

    def odd(*args: Any, **named: Any) -> Any:
        return Odd()

    def blocks(*args: Any, **named: Any) -> Any:
        time.sleep(BLOCKS)
        return Odd()

    return {
        "raises": raising(ValueError("boom")),
        "raises-speechless": raising(Speechless()),
        "exits": raising(SystemExit(3)),
        "interrupts": raising(KeyboardInterrupt()),
        "cancels": raising(made_up),
        "returns-odd": odd,
        "blocks": blocks,
    }


def awaited_ways(made_up: trio.Cancelled) -> dict[str, Callable[..., Coroutine[Any, Any, Any]]]:
    """The ways in which a function breaks that is awaited, by name."""

    def later(function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def waits(*args: Any, **named: Any) -> Any:
            await trio.lowlevel.checkpoint()
            return function(*args, **named)

        return waits

    async def never_ends(*args: Any, **named: Any) -> None:
        await trio.sleep_forever()

    async def shields(*args: Any, **named: Any) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(LONG)

    async def swallows(*args: Any, **named: Any) -> None:
        until = trio.current_time() + LONG
        while trio.current_time() < until:
            try:
                await trio.sleep(1)
            except BaseException:  # the fault under test
                with trio.CancelScope(shield=True):
                    await trio.sleep(1)

    async def leaks(*args: Any, **named: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise SystemExit(3)

    async def blocks_beside(*args: Any, **named: Any) -> Any:
        async def beside() -> None:
            await trio.lowlevel.checkpoint()
            time.sleep(BLOCKS)  # noqa: ASYNC251  # the fault under test

        async with trio.open_nursery() as nursery:
            nursery.start_soon(beside)
        return Odd()

    plain = {name: later(each) for name, each in plain_ways(made_up).items()}
    more = {
        "never-ends": never_ends,
        "shields": shields,
        "swallows": swallows,
        "exits-inside": leaks,
        "blocks-beside": blocks_beside,
    }
    return plain | more


LONG = 600.0
"""Seconds for which one does not mind that it is cancelled."""
