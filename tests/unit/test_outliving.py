"""A task beside a block goes on while that is being cancelled, and ends with it."""

import trio
import trio.testing

from liqod.runtime.outliving import outliving


async def test_it_hears_the_last_words_of_a_block_that_is_cancelled():
    said: list[str] = []
    words, read = trio.open_memory_channel[str](1)

    async def listen() -> None:
        said.append(await read.receive())

    with trio.CancelScope() as scope:
        async with outliving(listen):
            try:
                scope.cancel()
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await words.send("farewell")
                    await trio.testing.wait_all_tasks_blocked()
    assert scope.cancelled_caught
    assert said == ["farewell"]


async def test_it_ends_with_the_block():
    with trio.fail_after(5):
        async with outliving(trio.sleep_forever):
            pass
