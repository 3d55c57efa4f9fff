"""Waits for a change by another party, by polling.

For callers that may not watch, or that wait for one change and end: commands, and the handshake
with a provider. Tasks that run for ever watch (:mod:`liqod.kube.cache.informer`).
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from liqod.errors import LiqodError, TransientError

T = TypeVar("T")

FIRST_PAUSE, LAST_PAUSE = 0.02, 1.0
"""Seconds between two checks, growing."""
AWAY = 30.0
"""Seconds for which an API server may be away while something is waited for."""


async def poll_until(
    look: Callable[[], Awaitable[T | None]],
    *,
    longest_pause: float = LAST_PAUSE,
    within: float = float("inf"),
    failing: Callable[[], LiqodError] = TransientError,
) -> T:
    """Poll at growing pauses until there is a result.

    Args:
        look: returns the awaited result; after a false one it is called again.
        longest_pause: seconds between two checks at most.
        within: seconds that it may take; a look that has begun is not cut short.
        failing: makes the error where it takes longer.

    Raises: the exception of ``look``; a TransientError only after half a minute of nothing else.
    """
    pause, answered = FIRST_PAUSE, trio.current_time()
    deadline = answered + within
    while True:
        try:
            found = await look()
        except TransientError:
            if trio.current_time() - answered > AWAY:
                raise
        else:
            if found:
                return found
            answered = trio.current_time()
        if trio.current_time() > deadline:
            raise failing()
        await trio.sleep(pause)
        pause = min(pause * 1.3, longest_pause)
