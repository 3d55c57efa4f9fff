"""The keyed queue: each key is worked on, by one worker at a time, and failures wait."""

import itertools
import random

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from liqod.errors import Overloaded, TransientError
from liqod.kube.queue import KeyedQueue
from liqod.runtime.backoff import Backoff
from tests.testbed.held import held
from tests.unit.kube.peers import Steps


async def run_for(queue, worker, seconds, **more):
    with trio.move_on_after(seconds):
        await queue.run(worker, **more)


async def test_duplicates_collapse(autojump_clock):
    queue: KeyedQueue[str] = KeyedQueue()
    runs: list[str] = []

    async def worker(key: str) -> None:
        await trio.sleep(1)
        runs.append(key)

    for _ in range(50):
        queue.add("a")
        queue.add("b")
    assert len(queue) == 2
    await run_for(queue, worker, 10)
    assert runs == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_added_while_worked_on_runs_once_more(autojump_clock):
    queue: KeyedQueue[str] = KeyedQueue()
    runs: list[float] = []

    async def worker(key: str) -> None:
        runs.append(trio.current_time())
        if len(runs) == 1:
            for _ in range(5):
                queue.add("a")
        await trio.sleep(1)

    queue.add("a")
    await run_for(queue, worker, 10, concurrency=4)
    assert runs == [0, 1]


async def test_one_worker_has_a_key_and_others_go_on(autojump_clock):
    queue: KeyedQueue[str] = KeyedQueue()
    ends: dict[str, float] = {}

    async def worker(key: str) -> None:
        await trio.sleep(10 if key == "slow" else 1)
        ends[key] = trio.current_time()

    for key in ("slow", "a", "b", "c"):
        queue.add(key)
    await run_for(queue, worker, 30, concurrency=2)
    assert ends == {"a": 1, "b": 2, "c": 3, "slow": 10}


async def test_delays_and_the_earlier_wish_counts(autojump_clock):
    queue: KeyedQueue[str] = KeyedQueue()
    runs: list[tuple[str, float]] = []

    async def worker(key: str) -> None:
        runs.append((key, trio.current_time()))

    queue.add("a", after=100)
    queue.add("b", after=50)
    queue.add("a", after=7)
    queue.add("a", after=20)
    await run_for(queue, worker, 200)
    assert runs == [("a", 7), ("b", 50)]


async def test_a_worker_may_want_its_key_again(autojump_clock):
    queue: KeyedQueue[str] = KeyedQueue()
    runs: list[float] = []

    async def worker(key: str) -> float | None:
        runs.append(trio.current_time())
        return 10.0 if len(runs) < 3 else None

    queue.add("a")
    await run_for(queue, worker, 200)
    assert runs == [0, 10, 20]


async def test_failures_wait_longer_each_time_and_success_forgets(autojump_clock, monkeypatch):
    monkeypatch.setattr(random, "random", lambda: 1.0)
    queue: KeyedQueue[str] = KeyedQueue(Backoff(first=1, last=8))
    runs: list[float] = []
    told: list[tuple[str, str]] = []

    async def worker(key: str) -> None:
        runs.append(trio.current_time())
        if len(runs) <= 5:
            raise TransientError(f"failure {len(runs)}")

    queue.add("bad")
    await run_for(queue, worker, 60, on_error=lambda key, error: told.append((key, str(error))))
    gaps = [later - sooner for sooner, later in itertools.pairwise(runs)]
    assert all(step / 2 <= gap <= step for gap, step in zip(gaps, [1, 2, 4, 8, 8], strict=True))
    assert told == [("bad", f"failure {n}") for n in range(1, 6)]
    assert queue.failures("bad") == 0


async def test_a_failing_key_does_not_hold_back_others(autojump_clock, caplog):
    queue: KeyedQueue[str] = KeyedQueue()
    good: list[float] = []

    async def worker(key: str) -> float | None:
        if key == "bad":
            raise ValueError("no")
        good.append(trio.current_time())
        return 1.0

    queue.add("bad")
    queue.add("good")
    await run_for(queue, worker, 10.5)
    assert good == [float(n) for n in range(11)]
    assert queue.failures("bad") > 3
    assert "key failed" in caplog.text


async def test_the_server_says_when(autojump_clock):
    queue: KeyedQueue[str] = KeyedQueue()
    runs: list[float] = []

    async def worker(key: str) -> None:
        runs.append(trio.current_time())
        if len(runs) == 1:
            raise Overloaded("busy", status=429, retry_after=20)

    queue.add("a")
    await run_for(queue, worker, 60)
    assert runs == [0, 20]


async def test_an_event_wakes_a_key_that_waits_after_a_failure(autojump_clock):
    queue: KeyedQueue[str] = KeyedQueue(Backoff(first=50, last=50))
    runs: list[float] = []

    async def worker(key: str) -> None:
        runs.append(trio.current_time())
        if len(runs) == 1:
            raise TransientError("not yet")

    queue.add("a")
    async with trio.open_nursery() as nursery:
        await nursery.start(queue.run, worker)
        await trio.sleep(3)
        queue.add("a")
        await trio.sleep(100)
        nursery.cancel_scope.cancel()
    assert runs == [0, 3]


async def test_groups_of_errors_are_failures_and_cancellation_passes(autojump_clock):
    queue: KeyedQueue[str] = KeyedQueue()
    told: list[Exception] = []

    async def fail() -> None:
        raise ValueError("inside")

    async def worker(key: str) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            await trio.sleep_forever()

    queue.add("a")
    with trio.move_on_after(0.01) as scope:
        await queue.run(worker, on_error=lambda key, error: told.append(error))
    assert scope.cancelled_caught
    assert len(told) == 1
    assert isinstance(told[0], ValueError)


async def test_a_queue_that_ends_between_two_keys_can_begin_again(autojump_clock):
    queue: KeyedQueue[str] = KeyedQueue()
    runs: list[str] = []
    session = trio.CancelScope()

    async def worker(key: str) -> None:
        runs.append(key)
        session.cancel()

    queue.add("a")
    queue.add("b")
    with session:
        await queue.run(worker)
    assert queue.busy == 0
    runs.clear()
    for key in ("a", "b"):
        queue.add(key)
    await run_for(queue, worker, 1)
    assert runs == ["a", "b"]


class Name(int):
    """A key that is equal to others, and an object of its own."""


async def test_keys_that_often_come_sooner_leave_nothing_behind(autojump_clock):
    queue: KeyedQueue[int] = KeyedQueue()
    runs = 0

    async def worker(key: int) -> float:
        nonlocal runs
        runs += 1
        return 3600.0

    async with trio.open_nursery() as nursery:
        await nursery.start(queue.run, worker)
        for number in range(5000):
            queue.add(Name(number % 3))
            await trio.sleep(0.1)
        assert runs == 5000
        assert len(queue) == 3
        assert len(held(queue, Name)) < 100
        await trio.sleep(3600)
        assert runs == 5003
        nursery.cancel_scope.cancel()


async def test_a_key_that_is_to_be_looked_at_some_day_does_not_wait(autojump_clock):
    queue: KeyedQueue[str] = KeyedQueue()

    async def worker(key: str) -> float:
        if key == "bad":
            raise TransientError("not now")
        return 600.0

    queue.add("good")
    queue.add("bad")
    assert queue.waiting == 2
    await run_for(queue, worker, 5, on_error=lambda key, error: None)
    assert len(queue) == 2
    assert queue.waiting == 1
    queue.add("good")
    assert queue.waiting == 2


async def test_age_and_discard(autojump_clock):
    queue: KeyedQueue[str] = KeyedQueue()
    assert queue.oldest == 0
    queue.add("later", after=100)
    assert queue.oldest == 0
    queue.add("now")
    await trio.sleep(5)
    assert queue.oldest == 5
    assert "now" in queue
    queue.discard("now")
    assert "now" not in queue
    assert queue.oldest == 0
    assert len(queue) == 1


async def test_no_work_no_turns(autojump_clock):
    """At rest nothing wakes up: a queue that waits costs nothing."""
    queue: KeyedQueue[str] = KeyedQueue()

    async def worker(key: str) -> None:
        return

    queue.add("later", after=3600)
    async with trio.open_nursery() as nursery:
        await nursery.start(queue.run, worker)
        await trio.testing.wait_all_tasks_blocked()
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        await trio.sleep(3000)
        trio.lowlevel.remove_instrument(steps)
        nursery.cancel_scope.cancel()
    assert steps.count <= 2


STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),  # key
        st.integers(0, 5),  # time of the event
        st.integers(0, 4),  # its delay
        st.booleans(),  # whether the next run of the key fails
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(1, 4))
def test_whatever_happens_the_last_event_is_seen(steps, concurrency):
    """Level-triggered: after the dust has settled each key was worked on after its last event."""

    async def main() -> None:
        queue: KeyedQueue[int] = KeyedQueue(Backoff(first=0.5, last=2))
        state: dict[int, int] = {}
        seen: dict[int, int] = {}
        failing: dict[int, int] = {}
        busy: set[int] = set()

        async def worker(key: int) -> None:
            assert key not in busy
            assert len(busy) < concurrency
            busy.add(key)
            value = state[key]
            await trio.sleep(0.7)
            busy.discard(key)
            if failing.get(key, 0):
                failing[key] -= 1
                raise TransientError("again")
            seen[key] = value

        def quiet(key: int, error: Exception) -> None:
            return

        async with trio.open_nursery() as nursery:

            async def work() -> None:
                await queue.run(worker, concurrency=concurrency, on_error=quiet)

            nursery.start_soon(work)
            for number, (key, at, delay, fails) in enumerate(sorted(steps, key=lambda s: s[1])):
                await trio.sleep_until(at)
                state[key] = number
                failing[key] = failing.get(key, 0) + fails
                queue.add(key, after=delay)
            await trio.sleep(300)
            assert seen == state
            assert len(queue) == 0
            assert queue.oldest == 0
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@given(st.integers(1, 10_000), st.floats(0, 0.999))
def test_backoff_stays_in_its_bounds(failures, jitter):
    pauses = Backoff(first=0.05, last=60)
    delay = pauses.delay(failures, lambda: jitter)
    assert 0.025 <= delay <= 60
    assert delay <= 0.05 * 2.0 ** min(failures - 1, 20)


@pytest.mark.parametrize("failures", [0, -1])
def test_backoff_of_no_failure(failures):
    assert Backoff().delay(failures, lambda: 0.0) <= 0.05
