"""Virtual time: what only waits takes none, and what others compute takes none.

Embedded clusters, daemons and tests that are tasks of one event loop speak over sockets of this
process. When no task can go on and nothing has come for a moment, nothing will come before the next
deadline: Trio's clock jumps there, and the process's wall clock with it. The computations of this
process take the time of the processor that they need, not what they wait for a processor that has
other work: else a peering would take a minute where ten things run at once.

A program or a thread, which a jump would run away from, is started inside :func:`real`.
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
FRESH: Final = 0.0002
"""Seconds that have to pass before the processor's time is asked for again: Trio asks some hundred
thousand times in a test, and that question is the dearest."""

_outside = 0
"""How many wait for programs or threads."""
_time: "Time | None" = None


class Time(trio.abc.Instrument):
    """The time of a test, by which Trio's clock goes between jumps; keeps the wall clock with it.

    It is what the process computes and what it waits for events; while somebody waits for a program
    or a thread it is real time.

    Args:
        traveller: sets the time of the process.
    """

    def __init__(self, traveller: time_machine.Traveller) -> None:
        self._traveller = traveller
        self._start = time.time()
        self._now = 0.0
        self._computed, self._passed = time.process_time(), time.perf_counter()
        self.clock = trio.testing.MockClock(rate=0.0)
        self.clock._real_clock = self
        self.clock.rate = 1.0
        self.run(outside=bool(_outside))

    def __call__(self) -> float:
        """Seconds until now."""
        passed = time.perf_counter()
        if passed - self._passed >= FRESH:
            self.advance(passed)
        return self._now

    def advance(self, passed: float) -> None:
        """Count what has passed since the last time, of the kind that it was."""
        computed = time.process_time()
        self._now += passed - self._passed if _outside else computed - self._computed
        self._computed, self._passed = computed, passed

    def run(self, *, outside: bool) -> None:
        """Go on as real time, with somebody outside, or as virtual time."""
        self.clock.autojump_threshold = math.inf if outside else IDLE
        self._set_wall()

    def _set_wall(self) -> None:
        """Set the wall clock.

        It goes by itself in real time only: else it would run ahead of Trio's where the process has
        to wait for the processor, and be set back.
        """
        now = self._start + self.clock.current_time()
        self._traveller.move_to(now, tick=bool(_outside))

    def before_io_wait(self, timeout: float) -> None:
        self.advance(time.perf_counter())

    def after_io_wait(self, timeout: float) -> None:
        passed = time.perf_counter()
        if not _outside:
            # It may have had to wait for the processor, too, after its time was up.
            self._now += min(passed - self._passed, timeout)
        self.advance(passed)
        if abs(time.time() - self._start - trio.current_time()) > APART:
            self._set_wall()


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
    global _time
    with time_machine.travel(time.time(), tick=True) as traveller:
        _time = Time(traveller)
        try:
            return trio.run(test, clock=_time.clock, instruments=[*instruments, _time])
        finally:
            _time = None


@contextmanager
def real() -> Iterator[None]:
    """No jumps meanwhile: something goes on that is no task of this event loop."""
    mine = _time
    _count(1, mine)
    try:
        yield
    finally:
        _count(-1, mine)


def _count(more: int, mine: Time | None) -> None:
    """One more or one less is outside; the time until now was of the kind that it was."""
    global _outside
    if mine is not None:
        mine.advance(time.perf_counter())
    _outside += more
    if mine is not None:
        mine.run(outside=bool(_outside))
