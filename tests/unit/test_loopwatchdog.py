"""The code that blocks the event loop is named while it does, and its cost explained afterwards."""

import functools
import logging
import time

import trio

from liqod.loopwatchdog import LoopWatchdog
from liqod.plugins.callguard import CallGuard
from liqod.telemetry.events import HeldUp
from liqod.telemetry.hub import Hub

LATE = 0.2


async def held(nursery: trio.Nursery, block) -> tuple[LoopWatchdog, Hub]:
    """Watch while something blocks, until the loop has come round."""
    hub = Hub()
    stalls = LoopWatchdog(hub, late=LATE)
    await nursery.start(stalls.run)
    block()
    for _ in range(500):
        if stalls.lately():
            break
        await trio.sleep(0.01)
    return stalls, hub


async def test_a_plugin_that_blocks_is_named_while_it_does(nursery, caplog):
    caplog.set_level(logging.ERROR)
    gauge = CallGuard("reflector", "gadgets")
    said: list[str] = []

    def block() -> None:
        deadline = time.monotonic() + 5
        while not caplog.records and time.monotonic() < deadline:
            time.sleep(0.01)
        said.extend(record.getMessage() for record in caplog.records)

    stalls, hub = await held(nursery, functools.partial(gauge.call, block))
    assert said, "nothing was said while it lasted"
    assert said[0].startswith("the daemon is held up: the reflector gadgets (test_loopwatchdog.py:")
    assert "in block) has not come back" in said[0]
    assert "by the reflector gadgets" in stalls.lately()
    (told,) = [each.payload for each in hub.history if isinstance(each.payload, HeldUp)]
    assert "the reflector gadgets" in told.by
    nursery.cancel_scope.cancel()


async def test_what_is_no_plugin_is_named_by_its_place(nursery):
    stalls, _ = await held(nursery, functools.partial(time.sleep, 4 * LATE))
    assert "test_loopwatchdog.py" in stalls.lately()
    nursery.cancel_scope.cancel()


async def test_a_loop_that_turns_holds_nobody_up(nursery):
    stalls = LoopWatchdog(Hub(), late=3.0)
    await nursery.start(stalls.run)
    await trio.sleep(0.1)
    assert not stalls.lately()
    nursery.cancel_scope.cancel()


async def test_a_plugin_that_is_to_await_and_blocks_is_slow(nursery):
    gauge = CallGuard("discovery", "dns")
    stalls = LoopWatchdog(Hub(), late=LATE)
    await nursery.start(stalls.run)

    async def blocks() -> None:
        time.sleep(4 * LATE)  # noqa: ASYNC251  # the fault under test

    await gauge.run(blocks)
    assert gauge.slow == 1
    for _ in range(500):
        if stalls.lately():
            break
        await trio.sleep(0.01)
    assert "the discovery dns (test_loopwatchdog.py:" in stalls.lately()
    nursery.cancel_scope.cancel()
