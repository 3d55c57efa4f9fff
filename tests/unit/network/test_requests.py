"""Requests by one connection: the answering side, which has the newest only."""

import trio
from trio.testing import wait_all_tasks_blocked

from liqod.network.requests import NewestRequest


async def test_the_newest_of_those_that_came_meanwhile_is_answered():
    sent, may = list[str](), trio.Event()

    async def answer(request: str) -> str:
        if request == "first":
            await may.wait()
        return f"to {request}"

    newest = NewestRequest(answer, sent.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(newest.run)
        for each in ("first", "second", "third"):
            newest.receive(each)
            await wait_all_tasks_blocked()
        may.set()
        await wait_all_tasks_blocked()
        assert sent == ["to first", "to third"]
        nursery.cancel_scope.cancel()


async def test_one_that_a_run_was_cancelled_with_is_answered_by_the_next():
    sent, tries = list[str](), list[str]()

    async def answer(request: str) -> str:
        tries.append(request)
        if len(tries) == 1:
            await trio.sleep_forever()
        return f"to {request}"

    newest = NewestRequest(answer, sent.append)
    newest.receive("one")
    for expected in ([], ["to one"], ["to one"]):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(newest.run)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert sent == expected
