"""Common ticks for periodic checks, so that they wake the process once.

A hundred timers that fall due at a hundred moments cost a hundred turns of the event loop; at rest
that is most of what a peer costs.
"""

import math

import trio


async def sleep_until_tick(seconds: float) -> float:
    """Sleep until the clock next shows a whole multiple of so many seconds.

    Returns: by how many seconds it is late.
    """
    due = next_tick(seconds)
    await trio.sleep_until(due)
    return trio.current_time() - due


def next_tick(seconds: float) -> float:
    """The Trio time at which the clock next shows a whole multiple of so many seconds."""
    return (math.floor(trio.current_time() / seconds) + 1) * seconds
