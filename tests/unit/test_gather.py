"""Side by side: results in order, and one failure by itself ends the others."""

import pytest
import trio

from liqod.errors import NotFound
from liqod.runtime.gather import first_of, gather


async def test_results_come_in_the_order_of_the_calls(autojump_clock):
    async def after(seconds):
        await trio.sleep(seconds)
        return seconds

    began = trio.current_time()
    assert await gather(lambda: after(2), lambda: after(1), lambda: after(3)) == (2, 1, 3)
    assert trio.current_time() - began == 3
    assert await gather() == ()


async def test_the_first_failure_is_raised_by_itself_and_ends_the_others(autojump_clock):
    ended = []

    async def fail():
        await trio.sleep(1)
        raise NotFound("no such thing")

    async def go_on():
        try:
            await trio.sleep(10)
        finally:
            ended.append(trio.current_time())

    began = trio.current_time()
    with pytest.raises(NotFound, match="no such thing"):
        await gather(fail, go_on)
    assert ended == [began + 1]


class Attempts:
    """Attempts that take so many seconds and then succeed, or not; and what became of them."""

    def __init__(self):
        self.begun, self.discarded = [], []

    def of(self, name, seconds, *, succeeds=True):
        async def attempt():
            self.begun.append((name, trio.current_time()))
            await trio.sleep(seconds)
            return name if succeeds else None

        return attempt


@pytest.mark.parametrize(
    ("first", "second", "won", "after", "second_begun"),
    [
        ((0.1, True), (0.1, True), "a", 0.1, None),
        ((2.0, True), (0.1, True), "b", 0.6, 0.5),
        ((0.7, True), (2.0, True), "a", 0.7, 0.5),
        ((0.2, False), (0.1, True), "b", 0.3, 0.2),
        ((0.2, False), (0.1, False), None, 0.3, 0.2),
        ((2.0, False), (0.1, False), None, 2.0, 0.5),
    ],
)
async def test_each_attempt_is_ahead_of_the_next(
    first, second, won, after, second_begun, autojump_clock
):
    made, began = Attempts(), trio.current_time()
    tried = [made.of("a", first[0], succeeds=first[1]), made.of("b", second[0], succeeds=second[1])]
    assert await first_of(tried, 0.5, made.discarded.append) == won
    assert trio.current_time() - began == pytest.approx(after)
    begun = {name: at - began for name, at in made.begun}
    assert begun.get("b") == (second_begun and pytest.approx(second_begun))
    assert not made.discarded


async def test_of_two_that_succeed_the_later_one_is_discarded(autojump_clock):
    discarded: list[str] = []

    def attempt(name, seconds):
        async def answers():
            with trio.CancelScope(shield=True):
                await trio.sleep(seconds)
            return name

        return answers

    assert await first_of([attempt("a", 1.0), attempt("b", 2.0)], 0.0, discarded.append) == "a"
    assert discarded == ["b"]


async def test_what_has_won_is_discarded_where_nobody_gets_it(autojump_clock):
    discarded: list[str] = []

    async def fails():
        with trio.CancelScope(shield=True):
            await trio.sleep(1.0)
        raise NotFound("broken")

    async def wins():
        return "b"

    with pytest.raises(ExceptionGroup):
        await first_of([fails, wins], 0.1, discarded.append)
    assert discarded == ["b"]


async def test_nobody_waits_longer_for_what_is_hopeless(autojump_clock):
    made, began = Attempts(), trio.current_time()
    tried = [made.of("a", 0.1, succeeds=False), made.of("b", 60.0)]
    assert await first_of(tried, 0.5, made.discarded.append, hopeless=lambda: True) is None
    assert trio.current_time() - began == pytest.approx(0.6)
