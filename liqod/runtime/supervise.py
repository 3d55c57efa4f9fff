"""Supervises a task that may fail: runs it, reports its failure, waits, and runs it again.

A transient failure is retried after 1, 2, 4 … 60 seconds, less up to half of that at random; a
permanent one parks the task for five minutes. ``except*`` lets a cancellation through while it
holds everything else back.
"""

import logging
import random
from collections.abc import Awaitable, Callable
from typing import NoReturn

import msgspec
import trio

from liqod.errors import LiqodError, NotStarted, PermanentError
from liqod.runtime.backoff import Backoff

PAUSES = Backoff(first=1.0, last=60.0)
HEALTHY_AFTER = 30.0
PARKED_RETRY = 300.0

log = logging.getLogger(__name__)


class Failure(msgspec.Struct, frozen=True):
    """The reason why a supervised task is not running.

    Attributes:
        reason: one sentence.
        failures: number of failures in a row.
        retry_in: seconds until the next try, counted from the report.
        parked: whether it waits for a change rather than for time alone.
    """

    reason: str
    failures: int
    retry_in: float
    parked: bool


def leaves(error: BaseException) -> list[BaseException]:
    """The errors inside a group, flattened, in order."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]


def fault(error: BaseException, *expected: type[BaseException]) -> BaseException | None:
    """The first error inside a group that is of no expected kind: its traceback is logged."""
    return next((each for each in leaves(error) if not isinstance(each, expected)), None)


def explain(error: BaseException) -> str:
    """One sentence for an error or a group of them: the first of each distinct text."""
    texts = (str(leaf) or type(leaf).__name__ for leaf in leaves(error))
    return "; ".join(dict.fromkeys(texts))


async def walled(what: str, run: Callable[[], Awaitable[object]]) -> NoReturn:
    """Run a component under supervision until cancelled; failures are logged.

    Args:
        what: its name in the log.
        run: the component.
    """

    def report(failure: Failure | None, error: BaseException | None) -> None:
        if failure is None or error is None:
            return
        told = (what, failure.reason, failure.retry_in)
        known = fault(error, LiqodError, OSError)
        log.warning("%s failed: %s; again in %.0f s", *told, exc_info=known)

    await Supervision(run, report).forever()


class Supervision:
    """Runs one task again and again, until cancelled.

    Args:
        run: the task; it may return (it is then started again) or raise.
        report: called with a :class:`Failure` when it failed and None when it starts.
        jitter: a number in [0, 1) for each pause; tests pass a constant.
    """

    def __init__(
        self,
        run: Callable[[], Awaitable[object]],
        report: Callable[[Failure | None, BaseException | None], None],
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._run = run
        self._report = report
        self._jitter = jitter

    async def forever(self) -> NoReturn:
        """Run the task until cancelled. Never raises an exception of the task."""
        failures = 0
        while True:
            started = trio.current_time()
            parked = hung = False
            error: BaseException | None = None
            self._report(None, None)
            try:
                await self._run()
            except* Exception as group:
                error = group
                parked = all(isinstance(leaf, PermanentError) for leaf in leaves(group))
                hung = any(isinstance(leaf, NotStarted) for leaf in leaves(group))
            healthy = not hung and trio.current_time() - started >= HEALTHY_AFTER
            failures = 1 if healthy else failures + 1
            pause = PARKED_RETRY if parked else PAUSES.delay(failures, self._jitter)
            reason = explain(error) if error is not None else "it ended"
            self._report(Failure(reason, failures, pause, parked), error)
            await trio.sleep(pause)
