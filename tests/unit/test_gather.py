"""Side by side: results in order, and one failure by itself ends the others."""

import pytest
import trio

from liqod.errors import NotFound
from liqod.gather import gather


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
