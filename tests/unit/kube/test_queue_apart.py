"""Keys apart: what happens once is done at once, and what happens often is taken together."""

import trio

from liqod.kube.queue import KeyedQueue
from tests.unit.kube.test_queue import run_for


async def test_keys_apart_are_due_at_once_after_a_rest_else_together(
    autojump_clock,
):
    queue: KeyedQueue[str] = KeyedQueue()
    runs: list[tuple[str, float]] = []

    async def worker(key: str) -> None:
        runs.append((key, trio.current_time()))

    async def changes() -> None:
        for after in (0, 1, 2, 3, 30, 100):
            await trio.sleep_until(after)
            queue.add("a", apart=10)
        queue.add("b", apart=10)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(changes)
        await run_for(queue, worker, 200)
    assert runs == [("a", 0), ("a", 10), ("a", 30), ("a", 100), ("b", 100)]


async def test_keys_apart_that_change_without_end_are_done_again_and_again(autojump_clock):
    queue: KeyedQueue[int] = KeyedQueue()
    runs: list[float] = []

    async def worker(key: int) -> None:
        runs.append(trio.current_time())

    async def changes() -> None:
        while True:
            queue.add(1, apart=10)
            await trio.sleep(3)

    with trio.move_on_after(59):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(changes)
            await queue.run(worker)
    assert runs == [0, 10, 20, 30, 40, 50]


async def test_a_key_apart_waits_for_no_other_reason_to_do_it(autojump_clock):
    queue: KeyedQueue[str] = KeyedQueue()
    runs: list[float] = []

    async def worker(key: str) -> None:
        runs.append(trio.current_time())

    async def changes() -> None:
        queue.add("a", apart=10)
        await trio.sleep(1)
        queue.add("a", apart=10)
        queue.add("a")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(changes)
        await run_for(queue, worker, 50)
    assert runs == [0, 1]
