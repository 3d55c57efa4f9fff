"""The process leaves in time, and says who held it."""

import os
import signal
import threading
import time

import pytest
import trio

from liqod.plugins.callguard import CallGuard
from liqod.shutdown import ShutdownWatchdog


class Left:
    """Where a process would have ended."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.over = threading.Event()

    def __call__(self, status: int) -> None:
        self.status = status
        self.over.set()


async def left(made: Left) -> None:
    await trio.to_thread.run_sync(made.over.wait, 30)


async def test_a_plugin_that_goes_on_is_named(caplog: pytest.LogCaptureFixture, nursery):
    leaves, scope = Left(), trio.CancelScope()
    let_go = trio.Event()

    async def clings() -> None:
        with trio.CancelScope(shield=True):
            await let_go.wait()

    gauge = CallGuard("discovery", "dns")
    with trio.move_on_after(0), scope:
        await gauge.run(clings)
    ending = ShutdownWatchdog(grace=0.05, leave=leaves)
    ending.done()
    ending.start()
    await left(leaves)
    assert leaves.status == 0, "all of the daemon's own has ended"
    assert "the discovery dns: " in caplog.text
    assert "clings" in caplog.text
    let_go.set()


async def test_who_holds_the_event_loop_is_named(caplog: pytest.LogCaptureFixture):
    leaves = Left()
    ShutdownWatchdog(grace=0.05, leave=leaves).start()

    def blocks() -> None:
        while not leaves.over.is_set():
            time.sleep(0.01)

    CallGuard("reflector", "gadgets").call(blocks)
    assert leaves.status == 1
    assert "the reflector gadgets (test_ending.py:" in caplog.text


async def test_a_signal_is_enough_while_the_event_loop_is_held(caplog: pytest.LogCaptureFixture):
    leaves, told = Left(), []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: told.append(number))
    try:
        ShutdownWatchdog(grace=0.05, leave=leaves).follow(signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        until = time.monotonic() + 30
        while not leaves.over.is_set() and time.monotonic() < until:
            time.sleep(0.01)  # noqa: ASYNC251  # the loop does not come round
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert leaves.status == 1
    assert told == [signal.SIGUSR1], "whoever handled it before does so still"
    assert "test_ending.py:" in caplog.text


def test_a_thread_that_goes_on_is_named(caplog: pytest.LogCaptureFixture):
    leaves, let_go = Left(), threading.Event()
    thread = threading.Thread(target=let_go.wait, name="somebody")

    async def run() -> None:
        ending = ShutdownWatchdog(grace=0.05, leave=leaves)
        ending.start()
        thread.start()
        ending.done()

    trio.run(run)
    assert leaves.over.wait(30)
    assert "the thread somebody" in caplog.text
    let_go.set()
    thread.join()
