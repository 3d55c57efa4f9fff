"""The wall around every call of a plugin: timed, named, and nothing that it raises gets through.

A plugin runs on the daemon's one event loop: while a function of it does not come back, every peer
waits. That cannot be interrupted, so it is measured (:class:`CallGuard`), reported while it lasts
(:mod:`liqod.loopwatchdog`, which finds the culprit by :mod:`liqod.plugins.currentplugin`), and not
done again
for a while: a plugin that is slow again and again is parked. One that fails is not parked as a
whole, as one bad object would then stop the good ones; the object waits instead
(:mod:`liqod.reflection.worker`).

An async call runs in a task of its own, whose every stretch between two waits is timed, and so is
that of each task which it begins (:class:`_Begun`). So a cancellation is always the caller's, and a
plugin that does not mind it is left behind: its caller goes on, and :mod:`liqod.shutdown` sees to
it that the daemon ends all the same.
"""

import contextvars
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from time import perf_counter
from types import CoroutineType, FunctionType, coroutine
from typing import Any, Final, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

import msgspec
import trio

from liqod.errors import LiqodError, PluginError
from liqod.model.view.figures import counted
from liqod.plugins.exceptions import described, in_a_line, without_cancellation
from liqod.runtime.log import Seldom

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE = 3
"""Slow calls within :attr:`CallGuardTimings.within` that are borne before the next one parks."""
RESTING = 4096
"""Objects that rest which are counted."""
FAILING = 3
"""Failures in a row from which on a plugin is shown as failing; of a reflector, for one object."""

LASTING = ("discovery", "network")
"""Kinds of plugins that run on and on: that one could be made is no sign that it works."""

RESTING_ONLY = ("reflector", "probe")
"""Kinds of which failures prove nothing by themselves: one object's may be followed by others'
successes, and what a probe raises may be the fault of whom it asks."""

log = logging.getLogger(__name__)


class CallGuardTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times by which the calls of plugins are judged, all in seconds.

    Attributes:
        slow: of one call from which on it is slow: the loop is to come round far more often.
        stuck: of one call that are enough by themselves to be parked for.
        within: in which too many slow calls park.
        parked: for which a plugin is parked first; each time twice as long.
        parked_most: for which it is parked at most.
        forgiven: without a slow call after which the next parking is as short as the first.
        ending: for which a call that is cancelled is waited for: then it is left behind.
    """

    slow: float = 0.5
    stuck: float = 5.0
    within: float = 60.0
    parked: float = 60.0
    parked_most: float = 1800.0
    forgiven: float = 3600.0
    ending: float = 2.0


ORDINARY = CallGuardTimings()
"""Those of a daemon."""


class CallGuard:
    """Calls one plugin, and keeps the time and the failures of its calls.

    Args:
        kind: ``reflector``, ``discovery``, ``check``, ``probe`` (of a check) or ``network``.
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
        resting: the objects, with their peer, for which it fails, until it succeeds or they are
            gone: that is all that counts of a reflector. Of others the functions that failed last.
        left: the functions that were awaited, were cancelled, and have not ended, by their end.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        *,
        own: bool = False,
        timings: CallGuardTimings = ORDINARY,
    ) -> None:
        self.kind, self.name, self.own = kind, name, own
        self._timings = timings
        self.calls = self.slow = self.failures = 0
        self.spent = self.worst = 0.0
        self.error = self.why = ""
        self.parked_until = -math.inf
        self.resting: dict[tuple[str, ...], str] = {}
        self.left: dict[trio.Event, str] = {}
        self._running: dict[trio.Event, trio.CancelScope] = {}
        self._recent: deque[float] = deque(maxlen=PATIENCE + 1)
        self._parkings = 0
        self._seldom = Seldom()

    def __str__(self) -> str:
        return f"the {self.kind} {self.name}"

    def call(self, function: Callable[P, R], /, *args: P.args, **named: P.kwargs) -> R:
        """Call a plain function of the plugin.

        Raises:
            PluginError: it raised; the text names the plugin and what it raised. A cancellation,
                too: a call that does not wait is not cancelled.
        """
        answer = self._call(function, *args, **named)
        if self.failures and self.kind not in LASTING:
            self.well()
        return answer

    def judge(
        self,
        odd: Callable[[R], str | None],
        function: Callable[P, R],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> R:
        """Call a plain function of the plugin, and check its result.

        Args:
            odd: the reason a result is not valid, in a clause; None where it is.
            function, args, named: as of :meth:`call`.

        Raises:
            PluginError: it raised, or returned something odd.
        """
        answer = self._call(function, *args, **named)
        self._judged(odd, function, answer)
        if self.failures and self.kind not in LASTING:
            self.well()
        return answer

    def _judged(
        self, odd: Callable[[R], str | None], function: Callable[..., Any], answer: R
    ) -> None:
        gauge = self  # for `liqod.plugins.currentplugin`
        began = perf_counter()
        try:
            wrong = odd(answer)
        except BaseException as error:  # the wall: the code inside may raise anything
            wrong = f"it cannot be looked at: {described(error)}"
        finally:
            gauge.took(perf_counter() - began)
        if wrong is not None:
            raise self.noted(
                PluginError(f"{self} returned nonsense from {named(function)}: {wrong}")
            )

    def _call(self, function: Callable[P, R], /, *args: P.args, **named: P.kwargs) -> R:
        gauge = self  # for `liqod.plugins.currentplugin`
        began = perf_counter()
        self.calls += 1
        try:
            return function(*args, **named)
        except BaseException as error:  # the wall: SystemExit would end the daemon
            raise gauge.failed(error) from error
        finally:
            self.took(perf_counter() - began)

    async def run(
        self,
        function: Callable[..., Awaitable[R]],
        /,
        *args: Any,
        odd: Callable[[R], str | None] = lambda answer: None,
        within: float = math.inf,
    ) -> R:
        """Await a function of the plugin, behind the same wall; the time is the loop's to share.

        Args:
            function: the awaited function.
            args: its arguments.
            odd: the reason a result is not valid, in a clause, or None.
            within: seconds in which it has to come back.

        Raises:
            LiqodError: as the plugin raises on purpose.
            PluginError: it raised anything else, has not come back in time, was parked meanwhile,
                or an earlier call of it has not ended yet.
            trio.Cancelled: the caller is cancelled.
        """
        if self.left:
            raise self.noted(PluginError(f"{self} {self.clings}"))
        self.calls += 1
        scope, over, enough = trio.CancelScope(), trio.Event(), trio.Event()
        answers: list[R] = []
        errors: list[BaseException] = []
        name = named(function)

        async def behind() -> None:
            try:
                with scope:
                    answers.append(await _stepping(self, function, *args))
            except BaseException as error:  # the wall
                errors.append(error)
            finally:
                over.set()
                enough.set()
                self._running.pop(enough, None)
                self.left.pop(over, None)

        self._running[enough] = scope
        context = contextvars.copy_context()
        trio.lowlevel.add_instrument(_BEGUN)
        task = trio.lowlevel.spawn_system_task(behind, name=f"{self}: {name}", context=context)
        _BEGUN.gauges[task] = self
        with trio.move_on_after(within):
            try:
                await enough.wait()
            finally:
                if not over.is_set():
                    scope.cancel()
                    await self._end(name, over)
        if answers:
            self._judged(odd, function, answers[0])
            self.well()
            return answers[0]
        if not errors and self.rests:
            raise self.noted(PluginError(f"{self} is {self.trouble}"))
        if not errors:
            late = f"{self} has not come back from {name} within {within:g} s"
            raise self.noted(PluginError(late))
        rest = without_cancellation(errors[0]) or errors[0]
        if isinstance(rest, LiqodError):
            # From a tunnel this is a fault of the machine or of the path, which its caller shows.
            raise rest if self.kind == "network" else self.noted(rest) from errors[0]
        raise self.failed(rest) from errors[0]

    async def _end(self, name: str, over: trio.Event) -> None:
        """Wait until a cancelled call is over; leave it behind if it does not end soon."""
        patience = math.inf if self.own else self._timings.ending
        with trio.move_on_after(patience, shield=True):
            await over.wait()
        if over.is_set():
            return
        self.left[over] = name
        log.error("%s %s, and is left behind", self, self.clings)

    def well(self) -> None:
        """Take note that it works."""
        self.failures, self.error = 0, ""

    def failed(self, error: BaseException) -> PluginError:
        """Take note of a failure; the error to raise for it."""
        return self.noted(PluginError(f"{self} raised {described(error)}"))

    def noted(self, error: "ErrorT") -> "ErrorT":
        """Take note of a failure that is reported by that error."""
        self.failures += 1
        self.error = in_a_line(error)
        return error

    @property
    def rests(self) -> float:
        """Seconds for which it is still parked, 0 when it is not."""
        return max(0.0, self.parked_until - trio.current_time())

    @property
    def trouble(self) -> str:
        """The plugin's present fault, in a clause; empty when there is none."""
        if self.left:
            return self.clings
        if self.rests:
            return f"parked for {self.rests:.0f} s more: {self.why}"
        if self.failures >= FAILING and self.kind not in RESTING_ONLY:
            return f"the last {self.failures} calls failed: {self.error}"
        if self.resting:
            (_, *what), error = next(iter(self.resting.items()))
            if self.kind == "network" or len(what) < 2:
                return error
            more = len(self.resting) - 1
            others = f" and {counted(more, 'other')}" if more else ""
            return f"{'/'.join(filter(None, what))}{others} cannot be worked on: {error}"
        return ""

    @property
    def clings(self) -> str:
        """A clause that names a call which ignores its cancellation; empty when there is none."""
        name = next(iter(self.left.values()), "")
        return f"does not end: {name} was cancelled, and goes on" if name else ""

    def forget_peer(self, peer: str) -> None:
        """A peer is gone, or begins anew: none of its objects rest."""
        self.resting = {key: why for key, why in self.resting.items() if key[0] != peer}

    def rest(self, what: tuple[str, ...], error: str) -> None:
        """Take note that an object, named after its peer, cannot be worked on: its calls fail."""
        if what in self.resting or len(self.resting) < RESTING:
            self.resting[what] = error

    def took(self, took: float) -> None:
        """Take note of the time of a call, or of one stretch of it between two waits."""
        self.spent += took
        if took > self.worst:
            self.worst = took
        if took >= self._timings.slow:
            self._slow(took)

    def _slow(self, took: float) -> None:
        self.slow += 1
        now, timings = trio.current_time(), self._timings
        recent = self._recent
        if recent and now - recent[-1] > timings.forgiven:
            self._parkings = 0
        recent.append(now)
        often = len(recent) > PATIENCE and now - recent[0] <= timings.within
        if self.own or self.rests or not (often or took >= timings.stuck):
            if self._seldom.allows("slow"):
                log.warning("%s took %.1f s, and everybody waited", self, took)
            return
        times = f", and was slow {len(recent)} times in {now - recent[0]:.0f} s" if often else ""
        self.why = f"a call took {took:.1f} s, in which every peer waited{times}"
        pause = min(timings.parked * 2**self._parkings, timings.parked_most)
        self._parkings += 1
        self.parked_until = now + pause
        recent.clear()
        recent.append(now)
        log.error("%s is parked for %.0f s: %s", self, pause, self.why)
        for enough, scope in self._running.items():
            scope.cancel()
            enough.set()


ErrorT = TypeVar("ErrorT", bound=LiqodError)


class CallGuards:
    """The gauges of all plugins."""

    def __init__(self, timings: CallGuardTimings = ORDINARY) -> None:
        self._timings = timings
        self._gauges: dict[tuple[str, str], CallGuard] = {}

    def of(self, kind: str, name: str, *, own: bool = False) -> CallGuard:
        """The gauge of one plugin; the same for every caller."""
        found = self._gauges.get((kind, name))
        if found is None:
            found = CallGuard(kind, name, own=own, timings=self._timings)
            self._gauges[kind, name] = found
        return found

    def find(self, kind: str, name: str) -> CallGuard | None:
        """The gauge of a plugin that has been called."""
        return self._gauges.get((kind, name))

    def troubles(self) -> dict[str, str]:
        """The present fault of each plugin that has one, by the plugin's name."""
        return {str(each): said for each in self._gauges.values() if (said := each.trouble)}


def named(function: Callable[..., Any]) -> str:
    """How a function is called."""
    inner = function.func if isinstance(function, partial) else function
    found: str = getattr(inner, "__qualname__", type(inner).__name__)
    return found


class _Begun(trio.abc.Instrument):
    """Puts each task that a plugin begins behind the wall of the one that begins it.

    Trio calls only the methods an instrument has: this one costs nothing at the steps of tasks.

    Attributes:
        gauges: the owners of these tasks.
    """

    def __init__(self) -> None:
        self.gauges: WeakKeyDictionary[trio.lowlevel.Task, CallGuard] = WeakKeyDictionary()

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """Have the steps of a task timed that is in a nursery of a plugin's task."""
        nursery = task.parent_nursery
        gauge = None if nursery is None else self.gauges.get(nursery.parent_task)
        if gauge is not None:
            self.gauges[task] = gauge
            task.coro = cast("CoroutineType[Any, Any, Any]", _run_in_task(gauge, task.coro))


_BEGUN: Final = _Begun()


async def _run_in_task(gauge: CallGuard, inner: Coroutine[Any, Any, R]) -> R:
    """Go through with a task that a plugin has begun."""
    return await _stepping(gauge, lambda: inner)


@coroutine
def _stepping(
    gauge: CallGuard, function: Callable[..., Awaitable[R]], *args: Any
) -> Generator[Any, Any, R]:
    """Await a function, and time each stretch of it between two waits."""
    began = perf_counter()
    try:
        inner = _start_coroutine(function, *args)  # by this name `liqod.inspect.tasktree` finds it
    finally:
        gauge.took(perf_counter() - began)
    step: Callable[[], Any] = partial(inner.send, None)
    while True:
        began = perf_counter()
        try:
            waits = step()
        except StopIteration as end:
            answer: R = end.value
            return answer
        finally:
            gauge.took(perf_counter() - began)
        try:
            step = partial(inner.send, (yield waits))
        except BaseException as error:
            step = partial(inner.throw, error)


def _start_coroutine(function: Callable[..., Any], *args: Any) -> Coroutine[Any, Any, Any]:
    """The coroutine of a call. Raises TypeError where the function's result cannot be awaited."""
    found = function(*args)
    if isinstance(found, Coroutine):
        return found
    if not isinstance(found, Awaitable):
        raise TypeError(f"it is to be awaited, and gave {type(found).__name__}")

    async def waits() -> Any:
        return await found

    return waits()


WALLS = frozenset(
    {
        CallGuard._call.__code__,
        CallGuard._judged.__code__,
        cast("FunctionType", _stepping).__code__,
    }
)
"""The code by which a plugin is called; its frame has the gauge."""
