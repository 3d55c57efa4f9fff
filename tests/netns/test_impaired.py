"""Long, lossy and narrow ways between two gateways: no false alarm, and figures that are right."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.names import PeerNames, Side
from liqod.network.probing.conncheck import Prober
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.tunnel.probes.messages import PeerHello, ProbeResult
from tests.netns.lab import run
from tests.netns.test_faults import QUICK, known
from tests.netns.test_joined_clusters import Site, two
from tests.netns.wires import cable
from tests.simulated.borrower import eventually
from tests.simulated.network.test_networking import join
from tests.testbed import netns

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]
MTU = 1340
WATCHED = 6.0
"""Seconds without a false alarm."""


class NotingProber(Prober):
    """A prober that keeps its verdicts as well.

    Args:
        verdicts: of the probers of both sides, one after the other.
    """

    def __init__(
        self,
        verdicts: list[bool],
        process: MachineProcess,
        names: PeerNames,
        side: Side,
        heard: Callable[[ProbeResult], None],
        tells: Callable[[], PeerHello],
    ) -> None:
        def noted(said: ProbeResult) -> None:
            verdicts.append(said.alive)
            heard(said)

        super().__init__(process, names, side, noted, tells)


@asynccontextmanager
async def joined_by(
    program: str, folder: Path, *, delay: float = 0.0, loss: float = 0.0, rate: float = 0.0
) -> AsyncIterator[tuple[Site, Site, list[bool]]]:
    """rome and milan, joined over such a cable, and the verdicts of their probes."""
    verdicts: list[bool] = []
    prober = partial(NotingProber, verdicts)
    async with two(program, folder, timings=QUICK, prober=prober) as (rome, milan):
        run("ip", "-n", rome.node, "link", "delete", "wan")
        with cable((rome.node, milan.node), "wan", delay=delay, loss=loss, rate=rate):
            for site, own, other in ((rome, 1, 2), (milan, 2, 1)):
                run("ip", "-n", site.node, "addr", "add", f"198.51.100.{own}/24", "dev", "wan")
                way = ("default", "via", f"198.51.100.{other}")
                run("ip", "-n", site.node, "route", "add", *way)
            assert (await join(rome.member, milan.member)).without == ""
            yield rome, milan, verdicts


async def measured(*sites: Site) -> None:
    """Wait until sizes and trips are known on each side."""

    async def look() -> bool:
        facts = [known(site) for site in sites]
        return all(each.passes == MTU and each.pods and not each.pods.error for each in facts)

    try:
        await eventually(look, seconds=30)
    except trio.TooSlowError:
        raise AssertionError([known(site) for site in sites]) from None


async def test_a_long_way_that_loses_a_tenth_is_no_alarm(wireguard: str, tmp_path: Path):
    """100 ms there and back, and a tenth of all packets lost each way."""
    async with joined_by(wireguard, tmp_path, delay=0.05, loss=0.1) as (rome, milan, verdicts):
        await measured(rome, milan)
        verdicts.clear()
        with trio.move_on_after(WATCHED):
            while True:
                await trio.sleep(0.2)
                for site in (rome, milan):
                    assert known(site).passes == MTU

        async def told() -> bool:
            """True once the loss of questions and answers together is measured."""
            return all((known(site).loss or 0.0) > 0.02 for site in (rome, milan))

        await eventually(told, seconds=30)
        assert False not in verdicts
        for site in (rome, milan):
            facts = known(site)
            assert facts.rtt is not None
            print(f"rtt {facts.rtt * 1000:.0f} ms, lost {facts.loss or 0.0:.0%}")
            assert 0.09 < facts.rtt < 0.4


async def test_a_narrow_way_that_is_full_is_no_alarm_and_carries_what_it_did(
    wireguard: str, tmp_path: Path
):
    """A megabit a second, with more than that sent on it."""
    async with joined_by(wireguard, tmp_path, delay=0.01, rate=1e6) as (rome, milan, verdicts):
        await measured(rome, milan)
        alias = await rome.alias(6)

        def opened() -> socket.socket:
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

        verdicts.clear()
        with enter(rome.pod.namespace, opened) as sock, trio.move_on_after(WATCHED):
            while True:
                # About three times as much as passes in bursts, then silence: the queue fills up.
                for _ in range(16):
                    sock.sendto(bytes(1200), (alias, 9))
                await trio.sleep(0.1)
                assert known(rome).passes == known(milan).passes == MTU
        assert False not in verdicts
        await measured(rome, milan)
        assert await milan.reaches(5) == 3
        # What is found of its size is right, too: a packet in the tunnel is filled up to 16 bytes.
        rule = 'table netdev fault { chain c { type filter hook ingress device "wan" priority 0; '
        netns.nft(milan.node, rule + "ip length > 1380 drop; }; }")
        await eventually(lambda: known(rome).passes == 1312, seconds=40)
