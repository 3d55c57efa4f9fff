"""A call of a plugin is timed and named, and nothing that it raises gets further than its wall."""

import asyncio
import sys
from collections.abc import Callable
from time import perf_counter

import pytest
import trio

from liqod.errors import PluginError, Unreachable
from liqod.plugins import calls
from liqod.plugins.calls import Calls, Gauge, Running, running


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


@pytest.fixture
def slow(monkeypatch) -> Callable[[float], Callable[[], None]]:
    """Makes functions that take so many seconds, without the wait."""
    now = [0.0]
    monkeypatch.setattr(calls, "perf_counter", lambda: now[0])

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
    gauge = Gauge("reflector", "gadgets")
    with pytest.raises(PluginError) as caught:
        gauge.ask(raising(error))
    assert str(caught.value) == f"the reflector gadgets raised {said}"
    assert caught.value.__cause__ is error

    async def waits() -> None:
        raise error

    with pytest.raises(PluginError):
        await gauge.run(waits)


async def test_what_a_plugins_own_tasks_raise_is_told_without_the_cancellations():
    gauge = Gauge("discovery", "dns")

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
        await Gauge("discovery", "dns").run(run)


async def test_a_cancellation_passes():
    gauge = Gauge("discovery", "dns")
    with trio.CancelScope() as scope:
        scope.cancel()
        await gauge.run(trio.sleep_forever)
    assert scope.cancelled_caught

    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            with pytest.raises(trio.Cancelled):
                gauge.ask(raising(cancelled))
            raise
    assert not gauge.failures


async def test_calls_are_timed(slow):
    gauge = Calls().of("reflector", "gadgets")
    for seconds in (0.1, 0.3, 0.2):
        gauge.ask(slow(seconds))
    assert gauge.calls == 3
    assert gauge.spent == pytest.approx(0.6)
    assert gauge.worst == pytest.approx(0.3)
    assert gauge.slow == 0


async def test_who_is_slow_again_and_again_is_parked_ever_longer(slow, autojump_clock):
    gauge = Gauge("reflector", "gadgets")
    for _ in range(calls.PATIENCE):
        gauge.ask(slow(calls.SLOW))
    assert not gauge.rests
    gauge.ask(slow(calls.SLOW))
    assert gauge.rests == calls.PARKED
    assert "was slow 4 times" in gauge.trouble
    await trio.sleep(calls.PARKED)
    assert not gauge.rests
    gauge.ask(slow(calls.STUCK))
    assert gauge.rests == 2 * calls.PARKED
    await trio.sleep(2 * calls.FORGIVEN)
    gauge.ask(slow(calls.STUCK))
    assert gauge.rests == calls.PARKED


async def test_who_is_slow_now_and_then_is_not_parked(slow, autojump_clock):
    gauge = Gauge("reflector", "gadgets")
    for _ in range(20):
        gauge.ask(slow(calls.SLOW))
        await trio.sleep(calls.WITHIN / 2)
    assert not gauge.rests


async def test_one_that_gets_stuck_is_parked_at_once_but_for_what_is_liqods_own(slow, caplog):
    gauge, own = Gauge("reflector", "gadgets"), Gauge("reflector", "pods", own=True)
    gauge.ask(slow(calls.STUCK))
    own.ask(slow(calls.STUCK))
    assert gauge.rests
    assert not own.rests
    assert "the reflector gadgets is parked for 60 s: a call took 5.0 s" in caplog.text


async def test_who_always_fails_is_shown_and_one_success_ends_that():
    everyone = Calls()
    gauge = everyone.of("reflector", "gadgets")
    for _ in range(calls.FAILING):
        assert not everyone.troubles()
        with pytest.raises(PluginError):
            gauge.ask(raising(ValueError("odd")))
    said = everyone.troubles()["the reflector gadgets"]
    assert said == "the last 3 calls failed: the reflector gadgets raised ValueError: odd"
    gauge.ask(lambda: None)
    assert not everyone.troubles()


def test_objects_that_rest_are_counted_until_their_peer_goes():
    gauge = Gauge("reflector", "gadgets")
    gauge.rest(("milan", "shop", "lamp"), "odd")
    gauge.rest(("turin", "shop", "lamp"), "odd")
    gauge.leave("turin")
    assert gauge.resting == {("milan", "shop", "lamp"): "odd"}


def test_who_is_running_is_found_in_the_frames():
    def look() -> Running | None:
        return running(sys._getframe())

    assert look() is None
    named = Gauge("check", "etcd").ask(look)
    assert named is not None
    assert str(named.gauge) == "the check etcd"
    assert "test_calls.py" in named.place
    assert named.place.endswith("in look")
    assert not named.awaits


def test_the_wall_costs_little():
    """A call through the wall takes microseconds, of which a pod's reflection has thousands."""
    gauge, rounds = Gauge("reflector", "gadgets"), 20_000
    began = perf_counter()
    for _ in range(rounds):
        gauge.ask(int)
    assert (perf_counter() - began) / rounds < 50e-6
