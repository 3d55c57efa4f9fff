"""Runs a task beside a block, and beyond its cancellation: for the last words of the block."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def outliving(run: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Run a task until the block has ended, also while the block is being cancelled.

    A block that takes its time to end has to bound that itself.
    """
    scope = trio.CancelScope(shield=True)

    async def beside() -> None:
        with scope:
            await run()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(beside)
        try:
            yield
        finally:
            scope.cancel()
