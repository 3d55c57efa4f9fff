"""Objects fetched for reflectors are kept while they hold."""

import trio

from liqod.apimachinery.kinds import PODS
from liqod.plugins.contracts import RemoteObject
from liqod.reflection.view import AT_ONCE, KEPT, PATIENT, SPARE, Needs
from tests.testbed.held import held


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
        most = max(most, sum("of" in each for each in held(needs, dict)))
        await trio.sleep(KEPT / 8)
        assert needs.get(need(number)) == {"of": number}
    assert most <= SPARE


async def test_as_many_are_kept_as_hold(autojump_clock):
    needs = Needs()
    for number in range(1000):
        needs.put(need(number), {"of": number})
    assert all(needs.get(need(number)) for number in range(1000))


def patient(number: int) -> RemoteObject:
    return RemoteObject(kind=PODS, name=f"job-{number}", patient=True)


async def test_reads_that_can_wait_have_their_turns(autojump_clock):
    """A few at once and then so many a second, in order; one that comes early waits on."""
    needs = Needs()
    waits = [needs.wait([patient(number)]) for number in range(100)]
    assert waits[:AT_ONCE] == [0.0] * AT_ONCE
    assert waits[AT_ONCE:] == sorted(waits[AT_ONCE:])
    assert abs(waits[-1] - (100 - AT_ONCE) / PATIENT) < 0.2
    await trio.sleep(waits[50])
    assert needs.wait([patient(50)]) == 0.0
    assert needs.wait([patient(99)]) > 0
    assert needs.wait([need(1)]) == 0.0, "what cannot wait does not"
    assert needs.wait([]) == 0.0


async def test_turns_that_nobody_comes_for_are_let_go(autojump_clock):
    needs = Needs()
    for burst in range(10):
        for number in range(1000):
            needs.wait([patient(burst * 1000 + number)])
        await trio.sleep(KEPT + 1000)
    assert len({each for each in held(needs, str) if each.startswith("job-")}) <= 2 * 1000
    assert needs.wait([patient(-1)]) == 0.0
