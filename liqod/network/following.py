"""Follows an event: a function is called each time that it has happened."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

import trio


async def whenever(
    wait: Callable[[], Awaitable[object]],
    then: Callable[[], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Call a function after each occurrence of an event, until cancelled.

    Args:
        wait: returns when it has happened; from where this is started on none is missed.
        then: does not wait.
    """
    task_status.started()
    while True:
        await wait()
        then()
