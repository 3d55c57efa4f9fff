"""Measurements of a network that exists, and what follows from them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import cast

import msgspec
import pytest
import trio

from liqod.errors import NetworkError, PluginError
from liqod.model.network.ranges import ClusterCidrs, PeerRanges, TransitEntrance
from liqod.network.dataplane.names import PeerNames, Side
from liqod.network.dataplane.values import KernelChange
from liqod.network.probing.pathmetrics import PathMetrics, ProbeTarget, alias_of
from liqod.network.probing.pathprobe import KernelPathProbe, Unit
from liqod.network.timings import ORDINARY
from liqod.plugins.checks.network import ARRIVED
from liqod.plugins.providers import TunnelSpec, TunnelStatus
from liqod.tunnel.probes.messages import PeerHello, ProbeResult

NAMES = PeerNames("rome", "milan")
RANGES = PeerRanges(
    own=ClusterCidrs(pod=("10.244.0.0/16",)),
    peer=ClusterCidrs(pod=("10.244.0.0/16", "fd00::/64")),
    seen=ClusterCidrs(pod=("10.71.0.0/16", "fd71::/64")),
)
ALIVE = ProbeResult(True, 0.001, hello=PeerHello("10.244.3.1"))


@dataclass
class Way:
    """A path probe and a tunnel of a way that carries what it is set to."""

    carries: int | None = 1340
    back: float | None = 0.001
    counts: dict[str, int] = field(default_factory=dict)
    stands: TunnelStatus | None = field(default_factory=lambda: TunnelStatus(path="kernel"))
    searched: int = 0
    trips: list[tuple[str, str]] = field(default_factory=list)
    fails: str = ""
    arrivals: int = 0
    listened: int = 0
    deaf: bool = False
    every: float = 0.0
    slow: float = -1.0
    breaks: str = ""
    ranges: PeerRanges = RANGES
    passing: dict[tuple[str, Unit], int] = field(default_factory=dict)
    asked_for: list[tuple[str, ...]] = field(default_factory=list)

    async def largest(self, names: PeerNames, side: Side, mtu: int, slow: float) -> int | None:
        self.slow = slow
        self.searched += 1
        return None if self.carries is None else min(self.carries, mtu)

    async def passes(self, names: PeerNames, side: Side, size: int, slow: float) -> bool:
        return self.carries is not None and size <= self.carries

    async def answering(self, pods: Sequence[str]) -> str:
        return "10.244.0.1"

    async def trip(self, source: str, target: str, slow: float) -> float | None:
        self.trips.append((source, target))
        return self.back

    async def way_to(self, endpoint: str) -> str:
        return ""

    async def arriving(self, endpoint: str, port: int, seconds: float) -> int:
        self.listened += 1
        if not self.deaf:
            await trio.sleep(seconds)
        return int(seconds // self.every) if self.every else self.arrivals

    async def guards(self) -> list[str]:
        return ["ip filter FORWARD"]

    async def dropped(self, names: PeerNames) -> dict[str, int]:
        if self.fails:
            raise NetworkError(self.fails)
        return dict(self.counts)

    async def passed(self, names: PeerNames, owners: Sequence[str]) -> dict[tuple[str, Unit], int]:
        self.asked_for.append(tuple(owners))
        return dict(self.passing)

    async def problem(self) -> str | None:
        return None

    async def up(self, spec: TunnelSpec, /, *, silent: float = 0.0) -> float:
        return inf

    async def status(self) -> TunnelStatus | None:
        if self.breaks:
            raise PluginError(self.breaks)
        return self.stands

    async def down(self) -> None:
        return None


@asynccontextmanager
async def measuring(port: int = 0) -> AsyncIterator[tuple[Way, PathMetrics, list[int]]]:
    """A way, and what is measured of it; turns are counted."""
    way, turns = Way(), list[int]()
    measures = PathMetrics(NAMES, cast("KernelPathProbe", way), lambda: turns.append(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(measures.run, lambda: ProbeTarget(way, "client", 1340, way.ranges, port))
        await trio.sleep(0.5)
        yield way, measures, turns
        nursery.cancel_scope.cancel()


async def test_a_backend_that_breaks_is_named_until_it_works(autojump_clock):
    async with measuring() as (way, measures, _):
        way.breaks = "the network rope raised KeyError: 'a'"
        await trio.sleep(2 * ORDINARY.measured_every)
        assert (measures.broken, measures.status) == (way.breaks, None)
        way.breaks = ""
        await trio.sleep(2 * ORDINARY.measured_every)
        assert (measures.broken, measures.status) == ("", way.stands)


async def test_nothing_is_sent_before_the_other_side_answers(autojump_clock):
    async with measuring() as (way, measures, _):
        await trio.sleep(2 * ORDINARY.measured_every)
        assert (way.searched, way.trips) == (0, [])
        assert measures.pods.text == "trying"


async def test_where_answers_take_long_they_are_waited_for(autojump_clock):
    async with measuring() as (way, measures, _):
        measures.on_result(msgspec.structs.replace(ALIVE, latency=0.7))
        await trio.sleep(2)
        assert way.slow == 0.7


async def test_routes_follow_what_the_way_carries_down_at_once_and_up_seldom(autojump_clock):
    async with measuring() as (way, measures, turns):
        measures.on_result(ALIVE)
        await trio.sleep(2)
        assert measures.carries(1340) == 1340
        before = len(turns)
        way.carries = 1300
        await trio.sleep(ORDINARY.measured_every + 1)
        assert measures.carries(1340) == 1300
        assert len(turns) == before + 1
        # It carries more again, which is not tried all the time.
        way.carries, before = 1340, way.searched
        await trio.sleep(ORDINARY.size_raised - 2 * ORDINARY.measured_every)
        assert (measures.carries(1340), way.searched) == (1300, before)
        await trio.sleep(4 * ORDINARY.measured_every)
        assert measures.carries(1340) == 1340
        # Where all is well nothing is looked for.
        before = way.searched
        await trio.sleep(10 * ORDINARY.size_raised)
        assert way.searched == before


async def test_nothing_is_made_for_less_than_ipv6_needs(autojump_clock):
    async with measuring() as (way, measures, _):
        way.carries = 900
        measures.on_result(ALIVE)
        await trio.sleep(2)
        assert measures.passes == 900
        assert measures.carries(1340) == 1280


async def test_a_gateway_that_answers_no_echo_changes_nothing(autojump_clock):
    async with measuring() as (way, measures, _):
        way.carries = None
        measures.on_result(ALIVE)
        await trio.sleep(2)
        assert measures.passes is None
        assert measures.carries(1340) == 1340


async def test_a_trip_goes_from_a_pods_address_to_one_of_the_peers(autojump_clock):
    async with measuring() as (way, measures, turns):
        measures.on_result(ALIVE)
        await trio.sleep(2)
        assert way.trips == [("10.244.0.1", "10.71.3.1")]
        assert measures.pods.text == "reached"
        before = len(turns)
        way.back = None
        await trio.sleep(2 * ORDINARY.measured_every)
        assert measures.pods.text == "failed: nothing came back, 10.244.0.1 to 10.71.3.1"
        assert len(turns) == before + 1
        way.back = 0.002
        await trio.sleep(ORDINARY.measured_every + 1)
        assert measures.pods.text == "reached"


async def test_a_peer_that_names_no_address_is_not_said_to_be_reached(autojump_clock):
    async with measuring() as (way, measures, _):
        measures.on_result(ProbeResult(True, 0.001))
        await trio.sleep(2)
        assert way.trips == []
        assert measures.pods.text.startswith("untried: ")


@pytest.mark.parametrize(
    "address", ["", "10.71.0.1", "192.0.2.1", "169.254.169.254", "fd00:1::1", "x" * 400, "::"]
)
def test_an_address_that_is_none_of_the_peers_is_not_asked(address: str):
    assert alias_of(address, RANGES) == ""


def test_an_address_of_the_peers_is_asked_by_its_alias():
    assert alias_of("10.244.9.7", RANGES) == "10.71.9.7"
    assert alias_of("fd00::9", RANGES) == "fd71::9"


async def test_counts_go_on_where_a_counter_begins_anew(autojump_clock):
    async with measuring() as (way, measures, _):
        way.counts = {"spoofed": 5}
        await trio.sleep(2)
        way.counts = {"spoofed": 7}
        await trio.sleep(2)
        assert measures.dropped["spoofed"] == 7
        # Somebody has flushed the table, which was written anew.
        way.counts = {"spoofed": 1}
        await trio.sleep(2)
        assert measures.dropped["spoofed"] == 8


async def test_what_passes_to_other_peers_is_added_up(autojump_clock):
    async with measuring() as (way, measures, _):
        assert way.asked_for == []  # nothing is opened
        way.ranges = msgspec.structs.replace(
            RANGES, transit=(TransitEntrance("turin", "10.99.0.5", "10.70.0.5"),)
        )
        way.passing = {("turin", "packets"): 5, ("turin", "bytes"): 500}
        await trio.sleep(2)
        way.passing = {("turin", "packets"): 1, ("turin", "bytes"): 50}
        await trio.sleep(2)
        assert measures.passed == {("turin", "packets"): 6, ("turin", "bytes"): 550}
        assert set(way.asked_for) == {("turin",)}
        # It is closed, and opened again with a counter that begins anew.
        way.ranges = RANGES
        await trio.sleep(2)
        way.ranges = msgspec.structs.replace(
            RANGES, transit=(TransitEntrance("turin", "10.99.0.5", "10.70.0.5"),)
        )
        way.passing = {("turin", "packets"): 3, ("turin", "bytes"): 90}
        await trio.sleep(2)
        assert measures.passed == {("turin", "packets"): 9, ("turin", "bytes"): 640}


@pytest.mark.parametrize("arrivals", [0, 64])
async def test_what_is_answered_at_once_is_asked_no_more_often(autojump_clock, arrivals):
    """An endpoint that cannot be listened for, and a stranger who sends many."""
    async with measuring(port=51840) as (way, measures, _):
        way.deaf, way.arrivals = True, arrivals
        measures.on_result(ProbeResult(False))
        await trio.sleep(60)
        assert 5 <= way.listened <= 11


async def test_datagrams_are_listened_for_while_nothing_answers_only(autojump_clock):
    async with measuring(port=51840) as (way, measures, _):
        way.arrivals = 5
        measures.on_result(ALIVE)
        await trio.sleep(30)
        measures.arrived_at, way.listened = -inf, 0
        await trio.sleep(300)
        assert (way.listened, measures.arrived_at) == (0, -inf)
        measures.on_result(ProbeResult(False))
        await trio.sleep(13)
        assert way.listened
        assert measures.arrived_at > 0
        # One may be anybody's.
        way.arrivals = 1
        await trio.sleep(13)
        measures.arrived_at = -inf
        await trio.sleep(30)
        assert measures.arrived_at == -inf


async def test_handshakes_that_are_refused_are_told_from_silence_for_as_long_as_they_come(
    autojump_clock,
):
    """As WireGuard tries them: each 5 s and a third of one."""
    async with measuring(port=51840) as (way, measures, _):
        way.every = 5.33
        measures.on_result(ProbeResult(False))
        await trio.sleep(30)
        for _ in range(100):
            await trio.sleep(1)
            assert trio.current_time() - measures.arrived_at < ARRIVED


async def test_what_cannot_be_measured_hinders_nothing_else(autojump_clock):
    async with measuring() as (way, measures, _):
        way.fails = "no such namespace"
        measures.on_result(ALIVE)
        await trio.sleep(2)
        assert measures.pods.text == "reached"


async def test_who_takes_away_what_is_mended_is_known_by_that(autojump_clock):
    async with measuring() as (_, measures, _):
        route = KernelChange("route 10.71.0.0/16 in table 7 set")
        table = KernelChange("table inet liqod written", table=True)
        measures.mended([route])
        assert not measures.quarrel
        for _ in range(2):
            measures.mended([route, table])
        assert measures.quarrel
        assert measures.lately()[table] == 2
        await trio.sleep(ORDINARY.fought_within + 1)
        assert not measures.quarrel
        assert not measures.lately()


async def test_who_looks_is_served_each_second_at_most(autojump_clock):
    async with measuring() as (way, measures, _):
        measures.on_result(ALIVE)
        await trio.sleep(5)
        asked = 0

        async def status() -> TunnelStatus | None:
            nonlocal asked
            asked += 1
            return TunnelStatus(path="kernel", received=asked)

        way.status = status  # type: ignore[method-assign]
        for _ in range(100):
            measures.nudge()
            await trio.sleep(0.1)
        assert 8 <= asked <= 11
