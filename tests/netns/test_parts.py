"""Each part of a gateway is killed, stopped and frozen under traffic: alone, and with others.

Of WireGuard's packets none is lost, whatever ends. In a websocket they wait for `liqod tunnel`, and
that one for `liqod node` and the daemon where these have ended with it.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest
import trio

from tests.netns.flows import Flow, flowing
from tests.netns.threesites import DAEMON, NODE, PARTS, TUNNEL, Machine, three
from tests.testbed.api import BUSY

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("networks")]

Parts = tuple[str, ...]
Fault = tuple[signal.Signals, Parts]

APART = 0.3
"""Seconds between two faults, each of which falls into the one before."""
HELD = 4.0
"""Seconds for which all are frozen: in a websocket a client goes over after 3 s."""
MOST = {1: BUSY * 5.0, 2: BUSY * 20.0, 3: BUSY * 30.0}
"""Seconds without an answer in a websocket at the most, by the number of programs that begin anew.
Each starts within a second on a machine with nothing else to do, and a daemon that was killed leads
when its Lease has run out, in 15 s."""
SINGLES, PAIRS = (tuple(permutations(PARTS, count)) for count in (1, 2))
ALL = tuple(permutations(PARTS, 3))
KILLED, STOPPED, FROZEN = signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP
ONCE = [(KILLED, each) for each in SINGLES]
CONSUMER = [(KILLED, each) for each in (*PAIRS, *ALL[::2])]
PROVIDER = [
    *((STOPPED, each) for each in (*SINGLES, *PAIRS)),
    *((FROZEN, each) for each in (*SINGLES, *PAIRS)),
    *((KILLED, each) for each in ALL[1::2]),
]
STOPS = [(number, each) for number in (STOPPED, FROZEN) for each in ALL]


async def fault(machine: Machine, parts: Parts, number: signal.Signals) -> None:
    """Send a signal to one part after the other; they come back in the same order."""
    for part in parts:
        await machine.send(part, number)
        await trio.sleep(APART)
    if number == FROZEN:
        await trio.sleep(HELD)
        for part in parts:
            await machine.send(part, signal.SIGCONT)
        return
    for part in parts:
        await machine.back(part)


def most(parts: Parts, number: signal.Signals) -> float:
    """Seconds without an answer in a websocket at the most; 0 where no packet may be lost."""
    if TUNNEL not in parts:
        return 0.0
    if number == FROZEN:
        return MOST[1]
    return MOST[len(parts) if NODE in parts else 1]


async def goes_on(flows: Sequence[Flow], began: float, limits: Sequence[float]) -> list[str]:
    """Packets come again in time, and none is lost where there is no limit; how it was."""
    told = []
    for flow, limit in zip(flows, limits, strict=True):
        gap = await flow.gets_well(began, MOST[3])
        if not limit:
            await flow.loses_none(began)
        assert gap < (limit or MOST[1]), (gap, limit)
        told.append(f"{gap:.2f} s, {flow.lost(began, time.monotonic() - 1.0)} lost")
    return told


@pytest.mark.parametrize(
    ("server", "faults"),
    [
        pytest.param("Consumer", ONCE, id="each part once"),
        pytest.param("Consumer", CONSUMER, id="Consumer", marks=pytest.mark.network),
        pytest.param("Provider", PROVIDER, id="Provider", marks=pytest.mark.network),
        pytest.param("Consumer", STOPS, id="all three", marks=pytest.mark.network),
    ],
)
async def test_each_part_fails_and_packets_go_on(
    wireguard: str, tmp_path: Path, server: str, faults: Sequence[Fault]
):
    """All faults one after the other: making three clusters takes longer than most of these.

    `server` is that cluster of a peering that serves the websocket.
    """
    async with three(tmp_path, wireguard, server) as (rome, milan, genoa):
        peers = (milan.site.name, genoa.site.name)
        carried = [await rome.alias(each, last) for last, each in enumerate(peers, 6)]
        async with flowing(rome.pod, carried[0]) as kernel, flowing(rome.pod, carried[1]) as web:
            for number, parts in faults:
                said = f"{number.name} {', '.join(parts)}"
                began = time.monotonic()
                try:
                    await fault(rome, parts, number)
                    limits = (0.0, most(parts, number))
                    told = await goes_on((kernel, web), began, limits)
                    for each in peers:
                        await rome.attends(each)
                    print(f"{said}: {'; '.join(told)}; attended {time.monotonic() - began:.1f} s")
                    assert len(rome.tunnels()) == 1
                    assert rome.has(DAEMON)
                    assert rome.has(NODE)
                except BaseException:
                    print(f"{said}\n{rome.said()}")
                    raise
