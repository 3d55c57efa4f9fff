"""A call of a plugin is timed and named, and nothing that it raises gets further than its wall."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine
from time import thread_time
from typing import Any

import pytest
import trio

from liqod.errors import PluginError, Unreachable
from liqod.plugins import callguard, exceptions
from liqod.plugins.callguard import ORDINARY, CallGuard, CallGuards
from liqod.plugins.currentplugin import RunningPlugin, running
from tests.unit.plugins.broken import Speechless, raising


@pytest.fixture
def slow(monkeypatch) -> Callable[[float], Callable[[], None]]:
    """Makes functions that take so many seconds, without the wait."""
    now = [0.0]
    monkeypatch.setattr(callguard, "perf_counter", lambda: now[0])

    def taking(seconds: float) -> Callable[[], None]:
        def function() -> None:
            now[0] += seconds

        return function

    return taking


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("odd"), "ValueError: odd"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_what_a_plugin_raises_names_it_and_ends_nothing(error: BaseException, said: str):
    gauge = CallGuard("reflector", "gadgets")
    with pytest.raises(PluginError) as caught:
        gauge.call(raising(error))
    assert str(caught.value) == f"the reflector gadgets raised {said}"
    assert caught.value.__cause__ is error

    async def waits() -> None:
        raise error

    with pytest.raises(PluginError):
        await gauge.run(waits)


async def test_what_a_plugins_own_tasks_raise_is_told_without_the_cancellations():
    gauge = CallGuard("discovery", "dns")

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise SystemExit(1)

    with pytest.raises(PluginError, match="the discovery dns raised SystemExit: 1"):
        await gauge.run(run)


async def test_an_error_on_purpose_stays_what_it_is():
    async def run() -> None:
        raise Unreachable("no route")

    with pytest.raises(Unreachable):
        await CallGuard("discovery", "dns").run(run)


async def test_a_cancellation_passes():
    gauge = CallGuard("discovery", "dns")
    with trio.CancelScope() as scope:
        scope.cancel()
        await gauge.run(trio.sleep_forever)
    assert scope.cancelled_caught

    assert not gauge.failures


async def cancelled() -> trio.Cancelled:
    """A cancellation that nobody asked for."""
    caught: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            caught.append(error)
            raise
    return caught[0]


async def test_a_cancellation_that_a_plugin_makes_up_is_a_failure_like_any_other():
    gauge, error = CallGuard("discovery", "dns"), await cancelled()

    async def waits() -> None:
        raise error

    with pytest.raises(PluginError, match="the discovery dns raised Cancelled"):
        gauge.call(raising(error))
    with pytest.raises(PluginError, match="the discovery dns raised Cancelled"):
        await gauge.run(waits)
    assert gauge.failures == 2


async def shielded() -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep(60)


async def swallowing() -> None:
    until = trio.current_time() + 60
    while trio.current_time() < until:
        with contextlib.suppress(BaseException):
            await trio.sleep(1)
            continue
        # It spins: each wait is cancelled again. Time passes all the same.
        with trio.CancelScope(shield=True):
            await trio.sleep(1)


@pytest.mark.parametrize("clinging", [shielded, swallowing], ids=lambda each: each.__name__)
async def test_who_does_not_end_is_left_behind_and_not_called_meanwhile(
    clinging: Callable[[], Coroutine[Any, Any, None]], autojump_clock, caplog
):
    gauge = CallGuard("discovery", "dns")
    with trio.move_on_after(5) as scope:
        await gauge.run(clinging)
    assert scope.cancelled_caught
    assert trio.current_time() == 5 + ORDINARY.ending
    said = f"does not end: {clinging.__name__} was cancelled, and goes on"
    assert gauge.trouble == said
    assert f"the discovery dns {said}" in caplog.text
    with pytest.raises(PluginError, match="does not end"):
        await gauge.run(trio.sleep, 0)
    await trio.sleep(60)
    await gauge.run(trio.sleep, 0)
    assert not gauge.trouble


async def test_what_liqod_brings_is_waited_for(autojump_clock):
    gauge = CallGuard("network", "wireguard", own=True)
    with trio.move_on_after(5):
        await gauge.run(shielded)
    assert trio.current_time() == 60
    assert not gauge.left


async def test_what_has_to_come_back_in_time_is_named_when_it_does_not(autojump_clock):
    gauge = CallGuard("network", "rope")
    with pytest.raises(PluginError, match="the network rope has not come back from sleep_forever"):
        await gauge.run(trio.sleep_forever, within=10)
    assert trio.current_time() == 10
    assert gauge.failures == 1


async def test_each_stretch_between_two_waits_is_timed(slow):
    gauge = CallGuard("discovery", "dns")

    async def now_and_then() -> str:
        for _ in range(callguard.PATIENCE):
            slow(ORDINARY.slow)()
            await trio.lowlevel.checkpoint()
        return "done"

    assert await gauge.run(now_and_then) == "done"
    assert gauge.slow == callguard.PATIENCE
    assert not gauge.rests
    with pytest.raises(PluginError, match="the discovery dns is parked"):
        await gauge.run(now_and_then)
    assert gauge.slow == callguard.PATIENCE + 1


async def test_what_is_not_to_be_awaited_is_said():
    with pytest.raises(PluginError, match="it is to be awaited, and gave int"):
        await CallGuard("check", "etcd").run(int)  # type: ignore[arg-type]  # the fault under test


async def test_calls_are_timed(slow):
    gauge = CallGuards().of("reflector", "gadgets")
    for seconds in (0.1, 0.3, 0.2):
        gauge.call(slow(seconds))
    assert gauge.calls == 3
    assert gauge.spent == pytest.approx(0.6)
    assert gauge.worst == pytest.approx(0.3)
    assert gauge.slow == 0


async def test_who_is_slow_again_and_again_is_parked_ever_longer(slow, autojump_clock):
    gauge = CallGuard("reflector", "gadgets")
    for _ in range(callguard.PATIENCE):
        gauge.call(slow(ORDINARY.slow))
    assert not gauge.rests
    gauge.call(slow(ORDINARY.slow))
    assert gauge.rests == ORDINARY.parked
    assert "was slow 4 times" in gauge.trouble
    await trio.sleep(ORDINARY.parked)
    assert not gauge.rests
    gauge.call(slow(ORDINARY.stuck))
    assert gauge.rests == 2 * ORDINARY.parked
    await trio.sleep(2 * ORDINARY.forgiven)
    gauge.call(slow(ORDINARY.stuck))
    assert gauge.rests == ORDINARY.parked


async def test_who_is_slow_now_and_then_is_not_parked(slow, autojump_clock):
    gauge = CallGuard("reflector", "gadgets")
    for _ in range(20):
        gauge.call(slow(ORDINARY.slow))
        await trio.sleep(ORDINARY.within / 2)
    assert not gauge.rests


async def test_one_that_gets_stuck_is_parked_at_once_but_for_what_is_liqods_own(slow, caplog):
    gauge, own = CallGuard("reflector", "gadgets"), CallGuard("reflector", "pods", own=True)
    gauge.call(slow(ORDINARY.stuck))
    own.call(slow(ORDINARY.stuck))
    assert gauge.rests
    assert not own.rests
    assert "the reflector gadgets is parked for 60 s: a call took 5.0 s" in caplog.text


async def test_who_always_fails_is_shown_and_one_success_ends_that():
    everyone = CallGuards()
    gauge = everyone.of("check", "gadgets")
    for _ in range(callguard.FAILING):
        assert not everyone.troubles()
        with pytest.raises(PluginError):
            gauge.call(raising(ValueError("odd")))
    said = everyone.troubles()["the check gadgets"]
    assert said == "the last 3 calls failed: the check gadgets raised ValueError: odd"
    gauge.call(lambda: None)
    assert not everyone.troubles()


async def test_objects_that_rest_are_counted_until_their_peer_goes():
    gauge = CallGuard("reflector", "gadgets")
    gauge.rest(("milan", "shop", "lamp"), "odd")
    gauge.rest(("turin", "shop", "lamp"), "odd")
    assert gauge.trouble == "shop/lamp and 1 other cannot be worked on: odd"
    gauge.forget_peer("turin")
    assert gauge.resting == {("milan", "shop", "lamp"): "odd"}


def test_who_is_running_is_found_in_the_frames():
    def look() -> RunningPlugin | None:
        return running(sys._getframe())

    assert look() is None
    named = CallGuard("check", "etcd").call(look)
    assert named is not None
    assert str(named.gauge) == "the check etcd"
    assert "test_callguard.py" in named.place
    assert named.place.endswith("in look")


async def test_who_is_running_is_found_behind_what_is_awaited():
    async def look() -> RunningPlugin | None:
        await trio.lowlevel.checkpoint()
        return running(sys._getframe())

    named = await CallGuard("check", "etcd").run(look)
    assert named is not None
    assert str(named.gauge) == "the check etcd"
    assert named.place.endswith("in look")


def test_the_wall_costs_little():
    """A call through the wall takes microseconds, of which a pod's reflection has thousands."""
    gauge, rounds = CallGuard("reflector", "gadgets"), 20_000
    began = thread_time()  # what passes meanwhile is other programs'
    for _ in range(rounds):
        gauge.call(int)
    assert (thread_time() - began) / rounds < 50e-6


async def test_an_error_that_has_no_text_is_held_and_a_long_one_is_told_in_a_line():
    gauge = CallGuard("reflector", "gadgets")
    with pytest.raises(PluginError, match="raised Speechless: it has no text"):
        gauge.call(raising(Speechless()))

    async def waits() -> None:
        raise Speechless

    with pytest.raises(PluginError, match="raised Speechless: it has no text"):
        await gauge.run(waits)
    for error in (ValueError("one\n\n two " + 3_000_000 * "x"), Unreachable("a\nb " * 1000)):
        with pytest.raises(PluginError):
            gauge.call(raising(error))
        assert len(gauge.error) < 2 * exceptions.LONGEST
        assert "\n" not in gauge.error


async def test_an_answer_that_breaks_whoever_looks_at_it_is_nonsense():
    def looks(answer: object) -> str | None:
        raise SystemExit(4)

    gauge = CallGuard("reflector", "gadgets")
    with pytest.raises(PluginError, match=r"from .*: it cannot be looked at: Sys"):
        gauge.judge(looks, object)


async def test_a_task_that_a_plugin_begins_is_its_own(slow, autojump_clock):
    gauge, other = CallGuard("discovery", "hosts"), CallGuard("discovery", "other")
    seen: list[RunningPlugin | None] = []

    async def beside(seconds: float) -> None:
        await trio.sleep(1)
        slow(seconds)()
        seen.append(running(sys._getframe()))
        await trio.sleep(1)

    async def deeper() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beside, 2 * ORDINARY.slow)

    async def run() -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beside, ORDINARY.slow)
            nursery.start_soon(deeper)
        return "both are back"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(beside, 9 * ORDINARY.stuck)  # nobody's
        assert await gauge.run(run) == "both are back"
    assert gauge.slow == 2
    assert gauge.worst == 2 * ORDINARY.slow
    mine = [each for each in seen if each is not None]
    assert [each.gauge for each in mine] == [gauge, gauge]
    assert all("in beside" in each.place for each in mine)
    assert (other.slow, len(seen)) == (0, 3)


async def test_what_a_task_of_a_plugin_raises_is_raised_by_the_plugin():
    gauge = CallGuard("discovery", "hosts")

    async def beside() -> None:
        await trio.lowlevel.checkpoint()
        raise SystemExit(3)

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beside)
            await trio.sleep_forever()

    with pytest.raises(PluginError, match="the discovery hosts raised SystemExit: 3"):
        await gauge.run(run)


@pytest.mark.parametrize("beside", [False, True])
async def test_what_goes_on_and_is_parked_is_ended_at_once(slow, autojump_clock, beside: bool):
    gauge, blocked = CallGuard("discovery", "hosts"), list[float]()

    async def blocks() -> None:
        while True:
            slow(ORDINARY.slow)()
            blocked.append(trio.current_time())
            await trio.sleep(1)

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(blocks)

    with pytest.raises(PluginError, match="the discovery hosts is parked for 60 s more"):
        await gauge.run(run if beside else blocks)
    assert trio.current_time() - blocked[-1] < 0.1
    assert len(blocked) == callguard.PATIENCE + 1
    assert gauge.rests == pytest.approx(ORDINARY.parked, abs=1)


async def test_one_that_is_parked_and_does_not_end_is_left_behind_and_parked_once(
    slow, autojump_clock
):
    gauge = CallGuard("discovery", "hosts")

    async def shields() -> None:
        with trio.CancelScope(shield=True):
            for _ in range(5 * callguard.PATIENCE):
                slow(ORDINARY.slow)()
                await trio.sleep(1)

    with pytest.raises(PluginError, match="does not end"):
        await gauge.run(shields)
    await trio.sleep(5 * callguard.PATIENCE)
    assert not gauge.left
    assert gauge.rests < ORDINARY.parked, "what goes on while it is parked is not parked again"
