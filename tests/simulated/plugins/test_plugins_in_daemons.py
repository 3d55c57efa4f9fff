"""Plugins that break in a daemon as it runs: it starts, works, says who it is, and ends in time."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES
from tests.simulated.borrower import eventually
from tests.simulated.processes import Site, command, sites
from tests.testbed.errors import TestbedError

PROGRAM = """
import sys
from liqod.__main__ import main
sys.exit(main())
"""

HOLDING = """
import threading
import trio
from liqod.plugins.diagnosis import Check, ok
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.providers import DiscoveryProvider

class Shields:
    async def run(self, sighted, *, task_status=trio.TASK_STATUS_IGNORED):
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()

class Swallows:
    async def run(self, sighted, *, task_status=trio.TASK_STATUS_IGNORED):
        while True:
            try:
                await trio.sleep(1)
            except BaseException:
                pass

class Threads:
    async def run(self, sighted, *, task_status=trio.TASK_STATUS_IGNORED):
        threading.Thread(target=threading.Event().wait, name="theirs").start()
        await trio.sleep_forever()

async def probe(asker):
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()

@hookimpl
def liqod_discovery():
    made = {"shields": Shields, "swallows": Swallows, "threads": Threads}
    return [
        DiscoveryProvider(name=name, build=lambda settings, services, kind=kind: kind())
        for name, kind in made.items()
    ]

@hookimpl
def liqod_checks():
    look = lambda facts: ok("fine")
    return [Check(name="shut", title="shut", scope="cluster", order=1, look=look, probe=probe)]
"""

TASKS = """
import trio
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.providers import DiscoveryProvider

class Leaks:
    async def run(self, sighted, *, task_status=trio.TASK_STATUS_IGNORED):
        async def boom():
            raise ValueError("boom")
        trio.lowlevel.spawn_system_task(boom)
        await trio.sleep_forever()

@hookimpl
def liqod_discovery():
    return [DiscoveryProvider(name="leaks", build=lambda settings, services: Leaks())]
"""


BLOCKS = """
import trio
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.providers import DiscoveryProvider

class Spins:
    async def run(self, sighted, *, task_status=trio.TASK_STATUS_IGNORED):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.beside)

    async def beside(self):
        await trio.sleep(1)
        while True:
            pass

@hookimpl
def liqod_discovery():
    return [DiscoveryProvider(name="spins", build=lambda settings, services: Spins())]
"""


@asynccontextmanager
async def rome_with(folder: Path, **modules: str) -> AsyncIterator[Site]:
    """A cluster whose daemon has plugins installed, each a module."""
    place = folder / "installed"
    place.mkdir()
    (place / "daemon.py").write_text(PROGRAM)
    for name, text in modules.items():
        (place / f"{name}.py").write_text(text)
        info = place / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[liqod.plugins]\n{name} = {name}\n")
    async with sites(folder, "rome") as (rome,):
        rome.daemon.program = (str(place / "daemon.py"),)
        yield rome


async def logged(site: Site, *texts: str) -> None:
    async def all_there() -> bool:
        log = await trio.Path(site.daemon.log).read_text()
        return all(text in log for text in texts)

    await eventually(all_there, seconds=60)


@pytest.mark.plugins
@pytest.mark.long
async def test_those_that_do_not_end_are_named_and_hold_neither_the_lease_nor_the_end(
    tmp_path: Path,
):
    async with rome_with(tmp_path, holding=HOLDING) as rome:
        await rome.start()
        await logged(rome, "shut does not end: probe")
        asked = await command("plugins", "--socket", str(rome.daemon.inspector), "-o", "json")
        states = {(one["kind"], one["name"]): one for one in json.loads(asked.out)}
        shut = states["check", "shut"]
        assert (shut["state"], "does not end: probe" in shut["why"]) == ("failing", True)
        assert states["discovery", "threads"]["state"] == "active", "it runs in the daemon"
        assert await rome.stop() < 10
        await logged(
            rome,
            "the discovery shields does not end: Shields.run was cancelled, and goes on",
            "the discovery swallows does not end: Swallows.run",
            "though these have not ended:",
            "the thread theirs",
        )
        lease = await rome.admin.get(LEASES, labels.LEADER_LEASE, "liqo")
        assert not lease["spec"].get("holderIdentity"), "the next one need not wait for it"


@pytest.mark.long
async def test_a_task_that_no_wall_holds_is_not_let_in(tmp_path: Path):
    async with rome_with(tmp_path, tasks=TASKS) as rome:
        await rome.start()
        await logged(rome, "the plugin tasks of tasks is left out: Leaks.run (tasks.py:")
        assert await rome.stop() < 10


@pytest.mark.plugins
@pytest.mark.long
async def test_one_that_holds_the_event_loop_is_named_and_holds_up_no_end(tmp_path: Path):
    async with rome_with(tmp_path, blocks=BLOCKS) as rome:
        await rome.start()
        who = "the discovery spins (blocks.py:"
        await logged(rome, f"the daemon is held up: {who}")
        with pytest.raises(TestbedError, match="ended with 1"), trio.fail_after(10):
            await rome.stop()
        await logged(rome, f"leaving after 8 s, though these have not ended: {who}")
