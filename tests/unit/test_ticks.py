"""The common ticks."""

import trio

from liqod.runtime.ticks import sleep_until_tick


async def test_those_of_one_pace_wake_together(autojump_clock):
    woken: list[float] = []

    async def look(after: float) -> None:
        await trio.sleep(after)
        for _ in range(2):
            assert await sleep_until_tick(5.0) < 0.01
            woken.append(trio.current_time())

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(look, number * 0.01)
    assert len(set(woken)) == 2
    assert all(at % 5.0 == 0.0 for at in woken)
    assert trio.current_time() - began <= 10.1


async def test_it_lasts_though_it_is_just_the_time(autojump_clock):
    await sleep_until_tick(2.0)
    began = trio.current_time()
    await sleep_until_tick(2.0)
    assert trio.current_time() - began == 2.0
