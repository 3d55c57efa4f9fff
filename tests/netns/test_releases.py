"""A gateway's parts are upgraded, and go back, while packets go through it.

They come from a later release that is pretended, and from the version before.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.netns import laterrelease
from tests.netns.flows import Flow, flowing
from tests.netns.threesites import DAEMON, NODE, Machine, three
from tests.testbed import former
from tests.testbed.daemon import STOP_DEADLINE

# A copy of the project without git has no version before.
pytestmark = [
    *(pytest.mark.netns, pytest.mark.network, pytest.mark.long),
    pytest.mark.usefixtures("networks"),
]

THIS, LATER = former.PROGRAM, laterrelease.PROGRAM
EACH_ALONE = ((NODE, LATER, 15.0), (DAEMON, LATER, 0.0), (NODE, THIS, 0.0), (DAEMON, THIS, 0.0))
"""Parts that are replaced, and the seconds without an answer in a websocket at the most; 0 where no
packet may be lost. With a later `liqod node` the process of the tunnels is begun anew."""
BACK = 120.0
"""Seconds at the most for which a websocket waits for the daemon of the version before: for three
programs to begin, one after the other, of which each takes long on a busy machine."""
AGAIN = 30.0
"""Seconds at the most for which it waits when `liqod node` has taken its tunnel over."""


async def go_on(what: str, flows: Sequence[Flow], began: float, most: float) -> None:
    """Of WireGuard's packets none is lost, and those in a websocket come again in time."""
    kernel, web = flows
    gap = await web.gets_well(began)
    print(f"{what}: {gap:.2f} s, {web.lost(began, time.monotonic() - 1.0)} lost in a websocket")
    await kernel.loses_none(began)
    if not most:
        await web.loses_none(began)
    assert gap < (most or 15.0), what


async def end(machine: Machine, part: str) -> None:
    """Stops a part as systemd does, and waits until it has ended."""
    child = machine.site.daemon.child if part == DAEMON else machine.program.child
    await machine.send(part, signal.SIGTERM)
    assert child is not None
    await trio.to_thread.run_sync(child.wait, STOP_DEADLINE)


async def replaced_alone(rome: Machine, part: str, program: tuple[str, ...]) -> None:
    """Begins one part anew in another release."""
    (rome.program if part == NODE else rome.site.daemon).program = program
    await rome.send(part, signal.SIGTERM)
    await rome.back(part)


async def go_back(rome: Machine, before: Path, python: Path, wireguard: str) -> None:
    """Takes the steps of the pages to the version before, whose daemon has the tunnels."""
    for part in (DAEMON, NODE):
        await end(rome, part)
    for process in rome.tunnels():
        os.kill(process, signal.SIGTERM)
    words = ("install", "--kubeconfig", str(rome.site.kubeconfig))
    await trio.to_thread.run_sync(partial(former.command, before, *words))
    daemon = rome.site.daemon
    daemon.packages, daemon.python, daemon.program = before, str(python), former.PROGRAM
    daemon.settings = {
        **daemon.settings,
        "network": {"advertise": ["198.51.100.1"], "backends": ["wireguard", "websocket"]},
        "plugins": {"settings": {"wireguard": {"program": wireguard, "kernel": False}}},
    }
    await rome.site.start()


async def test_each_part_is_upgraded_alone_and_all_go_back_to_the_version_before(
    wireguard: str, tmp_path: Path, version_before: Path
):
    python = former.python(version_before, tmp_path / "former")
    async with three(tmp_path, wireguard, "Consumer") as (rome, milan, genoa):
        daemon, peers = rome.site.daemon, (milan.site.name, genoa.site.name)
        settings = daemon.settings
        carried = [await rome.alias(each, last) for last, each in enumerate(peers, 6)]
        async with flowing(rome.pod, carried[0]) as kernel, flowing(rome.pod, carried[1]) as web:
            try:
                for part, program, most in EACH_ALONE:
                    began = time.monotonic()
                    await replaced_alone(rome, part, program)
                    for each in peers:
                        await rome.attends(each)
                    await go_on(f"{part} by {program[-1]}", (kernel, web), began, most)
                began = time.monotonic()
                await go_back(rome, version_before, python, wireguard)
                await go_on("the version before", (kernel, web), began, BACK)

                began = time.monotonic()
                await end(rome, DAEMON)
                daemon.packages, daemon.python, daemon.program = None, sys.executable, THIS
                daemon.settings = settings
                await rome.site.install()
                await rome.site.start()
                await go_on("the daemon of this one", (kernel, web), began, 0.0)
                began = time.monotonic()
                rome.program.start()
                for each in peers:
                    await rome.attends(each)
                await go_on("liqod node of this one", (kernel, web), began, AGAIN)
                assert len(rome.tunnels()) == 1
            except BaseException:
                print(rome.said())
                raise
