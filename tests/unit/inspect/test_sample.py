"""The lag of the event loop: what holds it up is seen, and looking wakes nobody."""

import time

import trio

from liqod.inspect.sample import Turns


async def test_what_holds_the_loop_up_is_seen_once():
    turns = Turns()
    trio.lowlevel.add_instrument(turns)
    try:
        await trio.sleep(0.01)
        turns.take()
        time.sleep(0.1)  # noqa: ASYNC251  # as a component does that computes for too long
        await trio.sleep(0.01)
        assert 0.1 <= turns.take() < 0.5
        await trio.sleep(0.01)
        assert turns.take() < 0.1
    finally:
        trio.lowlevel.remove_instrument(turns)
