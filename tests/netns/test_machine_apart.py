"""`liqod node` has a gateway's tunnels as a program of its own, with a daemon and without one."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from liqod.network.hostcapabilities import FOLDER
from liqod.plugins.network import processes, uapi
from tests.netns.flows import LATE, flowing
from tests.netns.nodeprogram import NodeProgram
from tests.netns.test_joined_clusters import Site, known_path, two
from tests.simulated.borrower import eventually
from tests.simulated.network.test_networking import join
from tests.testbed.api import BUSY

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]


async def connected(site: Site) -> None:
    """Waits until the daemon knows that its tunnel works, by a report of the program."""

    async def works() -> bool:
        peer = site.member.components.peers.get(site.names.peer_id)
        return peer is not None and bool(peer.network.connected)

    await eventually(works, seconds=30)
    await known_path(site)


@pytest.mark.parametrize(("backend", "most"), [("wireguard", LATE), ("websocket", BUSY * 10.0)])
async def test_a_process_of_the_tunnels_that_is_frozen_is_replaced_within_seconds(
    wireguard: str, tmp_path: Path, backend: str, most: float
):
    programs = dict[str, NodeProgram]()
    async with two(wireguard, tmp_path, programs=programs) as (rome, milan):
        assert (await join(rome.member, milan.member, backend=backend)).without == ""
        process = await uapi.process(Path(FOLDER) / f"tunnels-{rome.node}.socket")
        assert process is not None
        async with flowing(rome.pod, await rome.alias(6)) as flow:
            began = time.monotonic()
            os.kill(process, signal.SIGSTOP)
            await eventually(lambda: not processes.command_line(process), seconds=30)
            print(f"{backend}: ended after {time.monotonic() - began:.1f} s")
            gap = await flow.gets_well(began)
            print(f"{backend}: {gap:.1f} s without an answer")
            assert gap < most
            await connected(rome)
