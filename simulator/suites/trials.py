"""Tries plugins in the contract suites behind the daemon's own wall, in a thread that may be left.

A plugin that does not end would hold its test for ever. So each is tried in a thread of its own,
which is given up when the time is over.
"""

import sys
import threading
from collections.abc import Awaitable, Callable, Iterable
from time import perf_counter
from typing import Any, Final, ParamSpec, TypeVar

import trio

from liqod.plugins.callguard import CallGuard, named
from liqod.plugins.codescan import system_task

P = ParamSpec("P")
R = TypeVar("R")

TRIES: Final = 3
"""Times that a call may be slow: a machine may have other things to do."""


def quick(slow: float, function: Callable[P, R], /, *args: P.args, **named_args: P.kwargs) -> R:
    """Call a plain function. Raises AssertionError where the daemon would park it.

    Args:
        slow: seconds from which on a call is slow.
        function, args, named_args: the call.
    """
    for _ in range(TRIES):
        began = perf_counter()
        answer = function(*args, **named_args)
        took = perf_counter() - began
        if took < slow:
            return answer
    raise AssertionError(
        f"{named(function)} took {took:.1f} s, {TRIES} times, and in the daemon everybody waits: "
        f"who takes {slow:g} s again and again is parked"
    )


def at_rest(gauge: CallGuard) -> None:
    """Raise AssertionError where what was awaited has held everybody up, or does not end."""
    assert not gauge.left, f"it {gauge.clings}: let Cancelled pass, and shield nothing"
    assert gauge.slow < TRIES, (
        f"it held the event loop for {gauge.worst:.1f} s at a time, {gauge.slow} times: the daemon "
        "parks it; await, or use a thread"
    )


def ended(body: Callable[[], Awaitable[R]], seconds: float) -> R:
    """Run an async function by Trio in a thread of its own, and return its result.

    Threads and tasks that it has left behind are not waited for.

    Raises:
        AssertionError: it has not ended in time; the thread is given up.
        BaseException: as it raises.
    """
    answers: list[R] = []
    errors: list[BaseException] = []
    over = threading.Event()

    async def run() -> None:
        try:
            answers.append(await body())
        except BaseException as error:  # raised where it is waited for
            errors.append(error)
        finally:
            over.set()  # whatever it has left behind

    threading.Thread(target=trio.run, args=(run,), name="plugin", daemon=True).start()
    in_time = over.wait(seconds)
    if errors:
        raise errors[0]
    assert in_time, f"it does not end within {seconds:g} s: let Cancelled pass, and block nobody"
    return answers[0]


def no_system_tasks(functions: Iterable[Callable[..., Any] | None]) -> None:
    """Raise AssertionError where the packages that functions are of begin system tasks."""
    for function in functions:
        module = sys.modules.get(getattr(function, "__module__", "") or "")
        problem = None if module is None else system_task(module)
        assert problem is None, f"{problem}: the daemon does not load it"
