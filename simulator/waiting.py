"""Waiting for what is about to be so, where nobody tells."""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.2
"""Seconds between two questions of :func:`eventually`, growing."""


async def eventually(
    ask: Callable[[], Any], so: Callable[[Any], Any] | None = None, *, seconds: float = 60.0
) -> Any:
    """The first answer that counts. Raises TooSlowError.

    Args:
        ask: gives an answer, at once or to be awaited.
        so: true for one that counts; where it is left out, all do but None and False.
    """
    pause = FIRST_PAUSE
    with trio.fail_after(seconds):
        while True:
            answer = ask()
            if isinstance(answer, Awaitable):
                answer = await answer
            if so(answer) if so is not None else answer is not None and answer is not False:
                return answer
            await trio.sleep(pause)
            pause = min(pause * 1.2, LONGEST_PAUSE)
