"""What was fetched for reflectors is kept while it holds."""

import trio

from liqod.kube.kinds import PODS
from liqod.plugins.contracts import RemoteObject
from liqod.reflection.view import KEPT, SPARE, Needs


def need(number: int) -> RemoteObject:
    return RemoteObject(kind=PODS, name=f"job-{number}", version="1")


async def test_an_answer_holds_for_its_time(autojump_clock):
    needs = Needs()
    needs.put(need(1), {"a": 1}, 100)
    await trio.sleep(99)
    assert needs.get(need(1)) == {"a": 1}
    await trio.sleep(2)
    assert needs.get(need(1)) is None
    assert needs.expiry(need(1)) == 0


async def test_answers_that_hold_no_more_are_let_go(autojump_clock):
    needs, most = Needs(), 0
    for number in range(1000):
        needs.put(need(number), {"of": number})
        most = max(most, len(needs._answers))
        await trio.sleep(KEPT / 8)
        assert needs.get(need(number)) == {"of": number}
    assert most <= SPARE


async def test_as_many_are_kept_as_hold(autojump_clock):
    needs = Needs()
    for number in range(1000):
        needs.put(need(number), {"of": number})
    assert all(needs.get(need(number)) for number in range(1000))
