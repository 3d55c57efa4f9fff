"""Waiting for what somebody else does, by looking again and again.

For those who may not watch, or who wait for one thing and end: commands, and the handshake with a
provider. Tasks that run for ever watch (:mod:`liqod.kube.cache.informer`).
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
    """Ask at growing pauses until there is something.

    Args:
        look: returns what is waited for; anything that is false is looked for again.
        longest_pause: seconds between two checks at most.
        within: seconds that it may take; a look that has begun is not cut short.
        failing: makes the error where it takes longer.

    Raises: what the look raises; a TransientError only when nothing else came for half a minute.
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
