"""Validation of the figures that a peer reports, and the counters that are made from them."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.crossing import usage
from liqod.model.crossing.usage import Counters, NodeReading, PodMetrics, RunningPod, samples

START = 1_700_000_000.0
WEB = RunningPod("shop", "web", "u1", START - 100, {"main": START - 100})


def item(stamp: str = "1", cpu: Any = "250m", memory: Any = "64Mi", name: str = "main") -> Any:
    return {
        "metadata": {"name": "web"},
        "timestamp": stamp,
        "window": "15s",
        "containers": [{"name": name, "usage": {"cpu": cpu, "memory": memory}}],
    }


def sampled(*items: Any) -> dict[str, usage.Sample]:
    return samples([msgspec.convert(each, PodMetrics) for each in items])


def told(counters: Counters, now: float, *items: Any, pod: RunningPod = WEB) -> NodeReading:
    known = {("shop", name): each for name, each in sampled(*items).items()}
    return counters.take("milan", [pod], known, now)


def total(reading: NodeReading) -> float:
    [(_, containers)] = reading.pods
    return containers["main"].total


def test_a_rate_is_what_a_scraper_finds_again() -> None:
    counters = Counters(START)
    first = told(counters, START, item("1", "250m"))
    second = told(counters, START + 15, item("2", "2"))
    assert (total(second) - total(first)) / 15 == pytest.approx(2.0)
    assert second.pods[0][1]["main"].memory == 64 << 20
    assert second.whole.total - first.whole.total == pytest.approx(30.0)


def test_the_same_sample_counts_once_and_not_for_ever() -> None:
    counters = Counters(START)
    first = told(counters, START, item("1"))
    again = told(counters, START + 60, item("1"))
    assert again.pods == first.pods
    later = told(counters, START + 75, item("2", "1"))
    assert total(later) - total(first) == pytest.approx(75.0)
    assert told(counters, START + 76 + usage.STALE, item("2", "1")).pods == ()


def test_a_container_that_starts_again_begins_anew() -> None:
    counters = Counters(START)
    told(counters, START, item("1", "4"))
    before = told(counters, START + 100, item("2", "4"))
    again = msgspec.structs.replace(WEB, containers={"main": START + 105})
    after = told(counters, START + 110, item("3", "4"), pod=again)
    assert total(before) > 400
    assert total(after) == pytest.approx(4 * 5 + usage.BEGUN)  # it runs for five seconds
    assert after.whole.total >= before.whole.total  # a machine's does not shrink


def test_what_ended_is_forgotten() -> None:
    counters = Counters(START)
    told(counters, START, item("1"))
    gone = counters.take("milan", [], {}, START + 1)
    assert gone.pods == ()
    assert gone.whole.memory == 0
    assert total(told(counters, START + 2, item("2", "0"))) == pytest.approx(usage.BEGUN)


def test_only_containers_that_run_here_are_told() -> None:
    assert told(Counters(START), START, item(name="sidecar")).pods == ()
    stranger = {("other", "web"): sampled(item())["web"]}
    assert Counters(START).take("milan", [WEB], stranger, START).pods == ()


@pytest.mark.parametrize(
    "amount",
    ["-1", "1e30", "NaN", "inf", "Infinity", "1e999999999", "", "x" * 4000, None, 1 << 200, -1],
)
def test_what_cannot_be_is_left_out(amount: Any) -> None:
    plain = {"cpu": "1", "memory": "1Mi"}
    for name in plain:
        container = {"name": "main", "usage": {**plain, name: amount}}
        if amount is None:
            del container["usage"][name]  # type: ignore[attr-defined]
        body = {"metadata": {"name": "web"}, "containers": [container]}
        assert sampled(body) == {}, name


def test_so_many_containers_and_no_more() -> None:
    usages = {"cpu": "1", "memory": "1Mi"}
    many = [{"name": f"c{each}", "usage": usages} for each in range(5000)]
    [found] = sampled({"metadata": {"name": "web"}, "containers": many}).values()
    assert len(found.containers) == usage.MOST_CONTAINERS


@given(
    st.lists(
        st.tuples(
            st.text(max_size=3),
            st.sampled_from(["0", "1n", "250m", "4096", "1e3", "-5", "9E"]),
            st.floats(-4000, 4000),
        ),
        max_size=12,
    )
)
def test_counters_never_shrink_and_stay_finite(steps: list[tuple[str, str, float]]) -> None:
    """Counters hold for any report of a peer and any jump of the clock."""
    counters, now, before = Counters(START), START, 0.0
    for stamp, cpu, passed in steps:
        now += passed
        reading = told(counters, now, item(stamp, cpu))
        assert math.isfinite(reading.whole.total)
        assert reading.whole.total >= before
        before = reading.whole.total
