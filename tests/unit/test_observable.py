"""The newest value, and that there is news."""

from collections.abc import Awaitable, Callable

import trio
from trio.testing import wait_all_tasks_blocked

from liqod.runtime.observable import Notifier, Observable


async def test_whoever_waits_goes_on_once_something_else_is_known():
    known, woken = Observable("rome"), list[str]()

    async def follow(name: str) -> None:
        while True:
            await known.wait_changed()
            woken.append(f"{name}: {known.now}")

    async with trio.open_nursery() as nursery:
        for name in ("one", "two"):
            nursery.start_soon(follow, name)
        await wait_all_tasks_blocked()
        known.set("rome")
        await wait_all_tasks_blocked()
        assert woken == []
        known.set("milan")
        await wait_all_tasks_blocked()
        # Each is woken once: who waits again waits for the next.
        assert sorted(woken) == ["one: milan", "two: milan"]
        nursery.cancel_scope.cancel()


async def test_news_of_which_the_event_was_taken_before_is_not_missed(
    autojump_clock: trio.testing.MockClock,
):
    news = Notifier()
    coming = news.coming
    news.notify()
    await is_over(coming.wait)
    with trio.move_on_after(1.0) as late:
        await news.wait()
    assert late.cancelled_caught


async def is_over(wait: Callable[[], Awaitable[None]]) -> None:
    with trio.fail_after(1.0):
        await wait()


async def test_a_waiter_is_over_once_for_all_news_since_it_was_awaited_last(
    autojump_clock: trio.testing.MockClock,
):
    news = Notifier()
    wait = news.waits()
    for _ in range(2):
        news.notify()
    await is_over(wait)
    with trio.move_on_after(1.0) as late:
        await wait()
    assert late.cancelled_caught
    news.notify()
    await is_over(wait)
