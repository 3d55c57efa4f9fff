"""The wall around every call of a plugin: timed, named, and only a cancellation gets through.

A plugin runs on the daemon's one event loop: while a function of it does not come back, every peer
waits. That cannot be interrupted, so it is measured (:class:`Gauge`), said while it lasts
(:mod:`liqod.stalls`, which finds the culprit by :func:`running`), and not done again for a while:
who is slow again and again is parked. Who fails is not parked as a whole, as one bad object would
then stop the good ones; the object waits instead (:mod:`liqod.reflection.worker`).
"""

import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import NamedTuple, ParamSpec, TypeVar

import trio

from liqod.errors import LiqodError, PluginError
from liqod.log import Seldom
from liqod.model.view.figures import counted

P = ParamSpec("P")
R = TypeVar("R")

SLOW = 0.5
"""Seconds of one call from which on it is slow: the loop is to come round far more often."""
STUCK = 5.0
"""Seconds of one call that are enough by themselves to be parked for."""
PATIENCE = 3
"""Slow calls within :data:`WITHIN` that are borne before the next one parks."""
WITHIN = 60.0
PARKED, PARKED_MOST = 60.0, 1800.0
"""Seconds for which a plugin is parked first, and at most: each time twice as long."""
FORGIVEN = 3600.0
"""Seconds without a slow call after which the next parking is as short as the first."""
RESTING = 4096
"""Objects that rest which are counted."""
FAILING = 3
"""Failures in a row, without a success of any object, from which on a plugin is shown as failing.
"""

LASTING = ("discovery", "network")
"""Kinds of plugins that run on and on: that one could be made is no sign that it works."""

log = logging.getLogger(__name__)


class Gauge:
    """What the calls of one plugin have cost and come to.

    Args:
        kind: ``reflector``, ``discovery``, ``check`` or ``network``.
        name: its name.
        own: it is part of liqod: timed like the others, and never parked, as no one could mend it.

    Attributes:
        calls: how many there were.
        spent: seconds in them altogether.
        worst: seconds of the longest.
        slow: how many were slow.
        failures: how many failed in a row.
        error: why the last one failed; empty once one has succeeded.
        parked_until: Trio time until which it is not called.
        why: why it is parked.
        resting: the objects, with their peer, for which it failed so often that they wait long.
    """

    def __init__(self, kind: str, name: str, *, own: bool = False) -> None:
        self.kind, self.name, self.own = kind, name, own
        self.calls = self.slow = self.failures = 0
        self.spent = self.worst = 0.0
        self.error = self.why = ""
        self.parked_until = -math.inf
        self.resting: dict[tuple[str, ...], str] = {}
        self._recent: deque[float] = deque(maxlen=PATIENCE + 1)
        self._parkings = 0
        self._seldom = Seldom()

    def __str__(self) -> str:
        return f"the {self.kind} {self.name}"

    def ask(self, function: Callable[P, R], /, *args: P.args, **named: P.kwargs) -> R:
        """Call a plain function of the plugin.

        Raises:
            PluginError: it raised; the text names the plugin and what it raised.
            trio.Cancelled: a cancellation passes.
        """
        gauge = self  # for `running`
        began = perf_counter()
        try:
            answer = function(*args, **named)
        except trio.Cancelled:
            raise
        except BaseException as error:  # the wall: SystemExit would end the daemon
            raise gauge.failed(error) from error
        finally:
            took = perf_counter() - began
            self.calls += 1
            self.spent += took
            if took > self.worst:
                self.worst = took
            if took >= SLOW:
                self._slow(took)
        if self.failures and self.kind not in LASTING:
            self.well()
        return answer

    async def run(
        self, function: Callable[P, Awaitable[R]], /, *args: P.args, **named: P.kwargs
    ) -> R:
        """Await a function of the plugin, behind the same wall; the time is the loop's to share.

        Raises:
            LiqodError: as the plugin raises on purpose.
            PluginError: it raised anything else.
            trio.Cancelled: a cancellation passes.
        """
        gauge = self  # for `running`
        try:
            answer = await function(*args, **named)
        except trio.Cancelled:
            raise
        except BaseException as error:  # the wall
            rest = without_cancellation(error)
            if rest is None:
                raise
            if isinstance(rest, LiqodError):
                raise gauge.noted(rest) from error
            raise gauge.failed(rest) from error
        self.well()
        return answer

    def well(self) -> None:
        """Take note that it works."""
        self.failures, self.error = 0, ""

    def failed(self, error: BaseException) -> PluginError:
        """Take note of a failure; the error to raise for it."""
        return self.noted(PluginError(f"{self} raised {described(error)}"))

    def noted(self, error: "ErrorT") -> "ErrorT":
        """Take note of a failure that is told by that error."""
        self.failures += 1
        self.error = str(error)
        return error

    def blocked(self, seconds: float) -> None:
        """Take note that a function which is to await has blocked, as seen from outside."""
        self.worst = max(self.worst, seconds)
        self._slow(seconds)

    @property
    def rests(self) -> float:
        """Seconds for which it is still parked, 0 when it is not."""
        return max(0.0, self.parked_until - trio.current_time())

    @property
    def trouble(self) -> str:
        """What is wrong with it now, in a clause; empty when nothing is."""
        if self.rests:
            return f"parked for {self.rests:.0f} s more: {self.why}"
        if self.failures >= FAILING:
            return f"the last {self.failures} calls failed: {self.error}"
        if self.resting:
            error = next(iter(self.resting.values()))
            return f"{counted(len(self.resting), 'object')} cannot be worked on: {error}"
        return ""

    def leave(self, peer: str) -> None:
        """A peer is gone, or begins anew: none of its objects rest."""
        self.resting = {key: why for key, why in self.resting.items() if key[0] != peer}

    def rest(self, what: tuple[str, ...], error: str) -> None:
        """Take note that an object, named after its peer, waits long: every call for it failed."""
        if what in self.resting or len(self.resting) < RESTING:
            self.resting[what] = error

    def _slow(self, took: float) -> None:
        self.slow += 1
        now = trio.current_time()
        recent = self._recent
        if recent and now - recent[-1] > FORGIVEN:
            self._parkings = 0
        recent.append(now)
        often = len(recent) > PATIENCE and now - recent[0] <= WITHIN
        if self.own or not (often or took >= STUCK):
            if self._seldom.allows("slow"):
                log.warning("%s took %.1f s, and everybody waited", self, took)
            return
        times = f", and was slow {len(recent)} times in {now - recent[0]:.0f} s" if often else ""
        self.why = f"a call took {took:.1f} s, in which every peer waited{times}"
        pause = min(PARKED * 2**self._parkings, PARKED_MOST)
        self._parkings += 1
        self.parked_until = now + pause
        recent.clear()
        recent.append(now)
        log.error("%s is parked for %.0f s: %s", self, pause, self.why)


ErrorT = TypeVar("ErrorT", bound=LiqodError)


class Calls:
    """The gauges of all plugins."""

    def __init__(self) -> None:
        self._gauges: dict[tuple[str, str], Gauge] = {}

    def of(self, kind: str, name: str, *, own: bool = False) -> Gauge:
        """The gauge of one plugin; the same for whoever asks."""
        found = self._gauges.get((kind, name))
        if found is None:
            found = self._gauges[kind, name] = Gauge(kind, name, own=own)
        return found

    def find(self, kind: str, name: str) -> Gauge | None:
        """The gauge of a plugin that has been called."""
        return self._gauges.get((kind, name))

    def troubles(self) -> dict[str, str]:
        """What is wrong with each plugin now, by its name."""
        return {str(each): said for each in self._gauges.values() if (said := each.trouble)}


def described(error: BaseException) -> str:
    """An error with its type, and of a group each once."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(described(each) for each in error.exceptions))
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def without_cancellation(error: BaseException) -> BaseException | None:
    """What is left of an error, or of a group, without the cancellations in it."""
    if isinstance(error, trio.Cancelled):
        return None
    if not isinstance(error, BaseExceptionGroup):
        return error
    rest = error.split(trio.Cancelled)[1]
    while isinstance(rest, BaseExceptionGroup) and len(rest.exceptions) == 1:
        rest = rest.exceptions[0]
    return rest


_WALLS = frozenset({Gauge.ask.__code__, Gauge.run.__code__})


class Running(NamedTuple):
    """Where a thread is.

    Attributes:
        gauge: of the plugin that it is in.
        place: file, line and function.
        awaits: the function is one that is to await, whose calls are not timed.
    """

    gauge: Gauge
    place: str
    awaits: bool


def running(frame: FrameType | None) -> Running | None:
    """Which plugin a thread is in, whose innermost frame is given; None where it is in none."""
    inner = frame
    while frame is not None:
        if frame.f_code in _WALLS:
            awaits = frame.f_code is Gauge.run.__code__
            return Running(frame.f_locals["gauge"], place(inner), awaits)
        inner, frame = frame, frame.f_back
    return None


def place(frame: FrameType | None) -> str:
    """Where a frame is: file, line and function."""
    if frame is None:
        return ""
    code = frame.f_code
    return f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}"
