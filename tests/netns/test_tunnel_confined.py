"""The real process of the tunnels, once somebody has taken it over: all that it cannot do."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import PeerNames
from liqod.network.probing.conncheck import Prober
from liqod.plugins.network import processes
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.tunnel.confinement import USER
from liqod.tunnel.dialsockets import SPARE
from liqod.tunnel.probes.messages import ProbeResult
from simulator.suites.tunnels import Gateways
from tests.netns import takenover
from tests.netns.websockets import SERVER, between, files, joined, program_of, status_of
from tests.simulated.borrower import eventually
from tests.testbed.machine import run
from tests.testbed.netns import Networks

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

REPOSITORY = Path(__file__).parents[2]
REFUSED = {"EPERM", "EACCES", "ENOSYS"}


def states(process: int) -> dict[str, str]:
    """The lines of a process's state."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def kinds(process: int) -> set[str]:
    """The kinds of descriptors that a process has."""
    found = os.scandir(f"/proc/{process}/fd")
    return {os.readlink(each).partition(":")[0] for each in found}


@between
async def test_it_runs_as_nobody_without_capabilities_and_with_its_own_descriptors_alone(
    both: Gateways,
) -> None:
    await both.join()
    for gateway in both.both:
        (process,) = gateway.processes()
        found = states(process)
        assert found["Uid"].split() == found["Gid"].split() == [str(USER)] * 4
        assert found["Groups"] == ""
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(found[name], 16) == 0, name
        assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
        # Nobody but root may look into it.
        assert os.stat(f"/proc/{process}/mem").st_uid == 0
        assert kinds(process) <= {"/dev/null", "/dev/net/tun", "socket", "anon_inode"}


@between
async def test_who_takes_it_over_has_no_right_on_the_machine(both: Gateways) -> None:
    takenover.KEY.write_text("secret")
    takenover.KEY.chmod(0o600)
    program = program_of(both.server)
    taken = [
        sys.executable,
        "-I",
        takenover.__file__,
        str(REPOSITORY),
        str(program.machine.control),
    ]
    try:
        start = partial(processes.start, taken, {})
        await both.server.services.host.within(both.server.underlay, start)
        await eventually(lambda: program.machine.process(), lambda found: found is not None)
        await both.join()
        found = await program.status()
        assert found is not None
        outcomes: dict[str, str] = json.loads(found.why)
        assert len(outcomes) > 20
        assert {name: why for name, why in outcomes.items() if why not in REFUSED} == {}
        # It was none of the attempts that ended it.
        await joined(both)
    finally:
        takenover.KEY.unlink()


async def test_whoever_takes_it_over_lies_about_its_own_tunnels_alone(
    networks: Networks, tmp_path: Path
) -> None:
    """Two peers' tunnels at which nobody is: one is probed by an attacker's process."""
    kernel, heard = KernelDatapath("rome"), {"taken": list[ProbeResult](), "honest": []}
    process: dict[str, MachineProcess] = {}
    names = {name: PeerNames("rome", name) for name in heard}
    for name, each in names.items():
        (tmp_path / name).mkdir()
        process[name] = MachineProcess(kernel, tmp_path / name)
        run("ip", "netns", "add", networks.adopt(each.namespace))
    taken = [sys.executable, "-I", takenover.__file__, str(REPOSITORY)]
    await kernel.within("", partial(processes.start, [*taken, str(process["taken"].control)], {}))
    await eventually(lambda: process["taken"].process(), lambda found: found is not None)
    began = await process["taken"].process()
    async with trio.open_nursery() as nursery:
        for name, told in heard.items():
            made = Prober(process[name], names[name], "server", told.append)
            nursery.start_soon(made.run)
        await eventually(lambda: all(heard.values()))
        nursery.cancel_scope.cancel()
    assert {name: told[-1].alive for name, told in heard.items()} == {
        "taken": True,
        "honest": False,
    }
    outcomes = json.loads(heard["taken"][-1].why)
    assert len(outcomes) == 2
    assert set(outcomes.values()) <= REFUSED
    assert await process["taken"].process() == began
    for each_process in process.values():
        await each_process.end()


@between
async def test_it_dials_on_without_its_parent_with_the_sockets_that_it_has(both: Gateways) -> None:
    """Each try takes five of them, and there are five before the server is."""
    assert SPARE < 5 * 5
    nobody = tuple(f"{SERVER}:{port}" for port in range(444, 448))
    await both.up(both.client, endpoints=(*nobody, f"{SERVER}:443"))
    (process,) = both.client.processes()
    before = files(process)
    await trio.sleep(5.0)
    await both.up(both.server)
    await joined(both, 20)
    assert files(process) <= before + 2
    status = await status_of(both, "client")
    assert (status.path, status.endpoint) == ("websocket", f"{SERVER}:443")
