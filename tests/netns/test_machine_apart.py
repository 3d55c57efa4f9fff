"""`liqod node` has a gateway's tunnels as a program of its own, with a daemon and without one."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.network.dataplane.names import ALIASES_TABLE, PeerNames
from liqod.network.hostcapabilities import FOLDER
from liqod.plugins.network import processes, uapi
from tests.netns.flows import LATE, flowing
from tests.netns.lab import Lab, run
from tests.netns.nodeprogram import NodeProgram
from tests.netns.test_floods import has_ranges
from tests.netns.test_joined_clusters import Site, known_path, part, two
from tests.netns.test_package import nodes, settings
from tests.simulated.addressed import pod_alias
from tests.simulated.borrower import eventually
from tests.simulated.network.test_networking import join
from tests.simulated.processes import Site as Service
from tests.simulated.processes import sites
from tests.testbed.netns import doorway

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

AWAY = 4.5
"""Seconds for which one is away: in a websocket a client goes over after 3 s."""


async def connected(site: Site) -> None:
    """Waits until the daemon knows that its tunnel works, by a report of the program."""

    async def works() -> bool:
        peer = site.member.components.peers.get(site.names.peer_id)
        return peer is not None and bool(peer.network.connected)

    await eventually(works, seconds=30)
    await known_path(site)


async def test_it_joins_keeps_and_ends_the_networks_of_its_daemons_orders(
    wireguard: str, tmp_path: Path
):
    programs = dict[str, NodeProgram]()
    async with two(wireguard, tmp_path, programs=programs) as (rome, milan):
        assert (await join(rome.member, milan.member)).without == ""
        assert await rome.reaches(6) == 3
        assert await milan.reaches(5) == 3
        await part(rome, milan)
        assert all(each.child is not None and each.child.alive for each in programs.values())


@pytest.mark.parametrize("backend", ["wireguard", "websocket"])
async def test_whichever_of_both_is_away_no_packet_is_lost(
    wireguard: str, tmp_path: Path, backend: str
):
    programs = dict[str, NodeProgram]()
    async with two(wireguard, tmp_path, programs=programs) as (rome, milan):
        assert (await join(rome.member, milan.member, backend=backend)).without == ""
        async with flowing(rome.pod, await rome.alias(6)) as flow:
            began = time.monotonic()
            for site in (rome, milan):
                await site.member.stop()
            await trio.sleep(AWAY)
            for site in (rome, milan):
                await site.member.start()
                await connected(site)
            await flow.loses_none(began)
            for name, site in (("rome", rome), ("milan", milan)):
                began = time.monotonic()
                programs[name].kill()
                await trio.sleep(AWAY)
                programs[name].start()
                await adopts(site)
                await flow.loses_none(began)


async def adopts(site: Site) -> None:
    """Waits until a program attends the tunnel that it found: it puts back what is taken away."""
    table = ("table", str(ALIASES_TABLE))
    mark = ("1.2.3.4/32", "dev", "lo", "metric", str(site.names.metrics[0]), *table)
    run("ip", "-n", site.node, "route", "add", *mark)
    await eventually(
        lambda: "1.2.3.4" not in run("ip", "-n", site.node, "route", "show", *table), seconds=30
    )


async def test_without_a_daemon_it_heals_what_others_take_away(wireguard: str, tmp_path: Path):
    programs = dict[str, NodeProgram]()
    async with two(wireguard, tmp_path, programs=programs) as (rome, milan):
        assert (await join(rome.member, milan.member)).without == ""
        await rome.member.stop()
        table = str(ALIASES_TABLE)
        run("ip", "-n", rome.node, "route", "flush", "table", table)
        assert await rome.reaches(6, times=1) == 0 or run(
            "ip", "-n", rome.node, "route", "show", "table", table
        )
        await eventually(lambda: rome.reaches(6, times=1), lambda found: found == 1, seconds=15)


async def test_a_program_that_is_stopped_is_reported_and_taken_up_again(
    wireguard: str, tmp_path: Path
):
    programs = dict[str, NodeProgram]()
    async with two(wireguard, tmp_path, programs=programs) as (rome, milan):
        assert (await join(rome.member, milan.member)).without == ""
        child = programs["rome"].child
        assert child is not None
        async with flowing(rome.pod, await rome.alias(6)) as flow:
            began = time.monotonic()
            os.kill(child.pid, signal.SIGSTOP)
            await trio.sleep(AWAY)
            os.kill(child.pid, signal.SIGCONT)
            await connected(rome)
            await flow.loses_none(began)


@pytest.mark.parametrize(("backend", "most"), [("wireguard", LATE), ("websocket", 13.0)])
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


@asynccontextmanager
async def ended(both: Iterable[Service]) -> AsyncIterator[None]:
    """Ends daemons before the clusters that they have connections to."""
    try:
        yield
    finally:
        for site in both:
            site.daemon.close()


async def test_both_programs_as_processes_join_two_clusters_and_a_killed_daemon_costs_no_packet(
    wireguard: str, tmp_path: Path
):
    word = f"t{secrets.token_hex(2)}"
    lab, names, doors = Lab(tmp_path, word), (f"{word}r", f"{word}m"), ExitStack()
    try:
        pods = nodes(lab)
        clusters = (lab.rome, lab.milan)
        async with sites(tmp_path, *names) as both, ended(both):
            for cluster in clusters:
                for site in both:
                    doors.enter_context(doorway(cluster.node, site.cluster.port))
            for number, (site, cluster) in enumerate(zip(both, clusters, strict=True), 1):
                site.daemon.settings = settings(number, wireguard)
                site.daemon.settings["network"].pop("daemon", None)
                site.daemon.enter = ("nsenter", f"--net=/run/netns/{cluster.node}")
                await site.start()
            rome, milan = both
            for site in both:
                await eventually(partial(has_ranges, site))
            user = await milan.user_for(rome.name)
            await rome.liqod("peer", "--remote-kubeconfig", str(user))
            alias = await pod_alias(milan.admin, rome.name, 5)
            async with flowing(pods[1], alias) as flow:
                began = time.monotonic()
                rome.daemon.kill()
                await trio.sleep(AWAY)
                await rome.start()
                await trio.sleep(2.0)
                await flow.loses_none(began)
    finally:
        doors.close()
        lab.close()
        for own, peer in (names, names[::-1]):
            run("ip", "netns", "delete", PeerNames(own, peer).namespace, check=False)
