"""Runs calls side by side, where one need not wait for the other's answer."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar, overload

import trio

A = TypeVar("A")
B = TypeVar("B")

Call = Callable[[], Awaitable[A]]


@overload
async def gather(first: Call[A], second: Call[B], /) -> tuple[A, B]: ...
@overload
async def gather(*calls: Call[A]) -> tuple[A, ...]: ...
async def gather(*calls: Call[Any]) -> tuple[Any, ...]:
    """Run calls at the same time and return their results, in their order.

    Raises: the exception of the first that fails, not in a group; the others are cancelled.
    """
    results: list[Any] = [None] * len(calls)
    failed: list[Exception] = []

    async with trio.open_nursery() as nursery:

        async def run(number: int, call: Call[Any]) -> None:
            try:
                results[number] = await call()
            except Exception as error:
                failed.append(error)
                nursery.cancel_scope.cancel()

        for number, call in enumerate(calls):
            nursery.start_soon(run, number, call)
    if failed:
        raise failed[0]
    return tuple(results)


async def either(*waits: Callable[[], Awaitable[None]]) -> None:
    """Wait until the first of them is over."""
    async with trio.open_nursery() as nursery:

        async def one(wait: Callable[[], Awaitable[None]]) -> None:
            await wait()
            nursery.cancel_scope.cancel()

        for wait in waits:
            nursery.start_soon(one, wait)


async def first_of(
    attempts: Iterable[Callable[[], Awaitable[A | None]]],
    head_start: float,
    discard: Callable[[A], object],
    *,
    hopeless: Callable[[], bool] = lambda: False,
) -> A | None:
    """The result of the attempt that succeeds first, each of which is ahead of the next one.

    Args:
        attempts: each gives something, or None where it fails, and then the next one begins.
        head_start: seconds after which the next one begins beside it.
        discard: closes an unused result: of one that succeeds too late, or on cancellation.
        hopeless: called when the last one has had its head start: True ends the wait for all.
    """
    won: list[A] = []

    async def run(attempt: Callable[[], Awaitable[A | None]], failed: trio.Event) -> None:
        found = await attempt()
        if found is None:
            failed.set()
        elif won:
            discard(found)
        else:
            won.append(found)
            nursery.cancel_scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            for attempt in attempts:
                failed = trio.Event()
                nursery.start_soon(run, attempt, failed)
                with trio.move_on_after(head_start):
                    await failed.wait()
            if hopeless():
                nursery.cancel_scope.cancel()
    except BaseException:
        for found in won:
            discard(found)
        raise
    return won[0] if won else None
