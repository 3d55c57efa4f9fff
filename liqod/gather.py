"""Requests side by side, where one need not wait for the other's answer."""

from collections.abc import Awaitable, Callable
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
    """What the calls give, in their order.

    Raises: what the first that fails raises, by itself; the others are cancelled.
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
