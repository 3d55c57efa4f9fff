"""Virtual time: what only waits takes none.

Embedded clusters, daemons and tests that are tasks of one event loop speak over sockets of this
process. When no task can go on and nothing has come for a moment, nothing will come before the
next deadline: Trio's clock jumps there, and the process's wall clock with it. Whoever starts a
program or a thread, which such a jump would run away from, does so inside :func:`real`.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any, Final

import pytest
import time_machine
import trio
import trio.testing

FOLDER: Final = "tests.simulated."
"""The package whose tests are in virtual time."""
IDLE: Final = 0.005
"""Seconds without anything to do after which the clock jumps; what is sent to a socket of the same
machine arrives long before."""
APART: Final = 0.001
"""Seconds by which the wall clock may differ from Trio's before it is set."""

_outside = 0
"""How many wait for programs or threads."""
_clock: trio.testing.MockClock | None = None


class Wall(trio.abc.Instrument):
    """Keeps the process's wall clock with Trio's, where that jumps.

    Args:
        traveller: sets the time of the process.
    """

    def __init__(self, traveller: time_machine.Traveller) -> None:
        self._traveller = traveller
        self._start = time.time()

    def after_io_wait(self, timeout: float) -> None:
        now = self._start + trio.current_time()
        if abs(time.time() - now) > APART:
            self._traveller.move_to(now, tick=True)


def mark(items: list[pytest.Item]) -> None:
    """Have the tests of embedded clusters run in virtual time."""
    virtual = pytest.mark.trio(run=run)
    for item in items:
        if not isinstance(item, pytest.Function) or not iscoroutinefunction(item.obj):
            continue
        if item.module.__name__.startswith(FOLDER):
            item.add_marker(virtual, append=False)


def run(
    test: Callable[[], Any],
    *,
    clock: trio.abc.Clock | None = None,
    instruments: list[trio.abc.Instrument],
) -> Any:
    """Run a test in virtual time; one that brings a clock of its own goes by that."""
    if clock is not None:
        return trio.run(test, clock=clock, instruments=instruments)
    global _clock
    with time_machine.travel(time.time(), tick=True) as traveller:
        idle = math.inf if _outside else IDLE
        _clock = trio.testing.MockClock(rate=1.0, autojump_threshold=idle)
        try:
            return trio.run(test, clock=_clock, instruments=[*instruments, Wall(traveller)])
        finally:
            _clock = None


@contextmanager
def real() -> Iterator[None]:
    """No jumps meanwhile: something goes on that is no task of this event loop."""
    global _outside
    clock = _clock
    _outside += 1
    if clock is not None:
        clock.autojump_threshold = math.inf
    try:
        yield
    finally:
        _outside -= 1
        if clock is not None and not _outside:
            clock.autojump_threshold = IDLE
