"""The tunnels' process of another release than the program that orders it, as real processes."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.errors import NetworkError
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.plugins.network import machineprocess, processes
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.tunnel import wanted
from liqod.tunnel.wanted import VERSION, TunnelRequest

PROGRAM = """
from liqod.tunnel import wanted
wanted.VERSION, wanted.OLDEST = {}, {}
import runpy
runpy.run_module("liqod.tunnel", run_name="__main__", alter_sys=True)
"""


class Machine:
    """The program on a machine, from which processes of its release are begun.

    Attributes:
        begun: processes until now.
        version, oldest: of the requests of its release.
    """

    def __init__(self, folder: Path) -> None:
        self.process = MachineProcess(KernelDatapath("rome"), folder)
        self.begun = 0
        self.version = self.oldest = VERSION

    async def begin(
        self, start: Any, host: Any, underlay: str, command: Any, *more: Any, **how: Any
    ) -> None:
        """Has a process begun as the plugin does, by the program that there is now."""
        self.begun += 1
        program = PROGRAM.format(self.version, self.oldest)
        await start(host, underlay, [command[0], "-I", "-c", program, command[-1]], *more, **how)

    async def have(self) -> wanted.TunnelReport:
        async with self.process.turn:
            return await self.process.have()


@pytest.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    made = Machine(tmp_path)
    start = partial(made.begin, processes.start_until_ready)
    monkeypatch.setattr(processes, "start_until_ready", start)
    monkeypatch.setattr(machineprocess, "LOOKED", 0.05)
    yield made
    await made.process.end()


async def test_one_of_a_later_release_goes_on_where_it_does_these_requests(
    machine: Machine,
) -> None:
    machine.version = VERSION + 1
    async with machine.process.attended(TunnelRequest(wanted.STAY)):
        there = await machine.process.process()
        with trio.move_on_after(0.5):
            await machine.process.watch()
        for _ in range(2):
            assert (await machine.have()).version == VERSION + 1
        assert (machine.begun, await machine.process.process()) == (1, there)


async def test_one_of_a_later_release_that_does_others_is_named(machine: Machine) -> None:
    machine.version = machine.oldest = VERSION + 1
    for _ in range(2):
        with pytest.raises(NetworkError, match="restart liqod node"):
            await machine.have()
    # After the restart, or with the former program again.
    machine.version = machine.oldest = VERSION
    assert (await machine.have()).fits


async def test_one_of_an_older_release_is_replaced_also_where_it_only_probes(
    machine: Machine,
) -> None:
    machine.version = machine.oldest = VERSION - 1
    with pytest.raises(NetworkError):
        await machine.have()
    machine.version = machine.oldest = VERSION
    stay = TunnelRequest(wanted.STAY)
    async with trio.open_nursery() as nursery:
        with trio.fail_after(20.0):
            async with machine.process.attended(stay) as stream:
                nursery.start_soon(machine.process.watch)
                assert await stream.receive_some(1) == b"", "it ends"
            async with machine.process.attended(stay):
                assert (machine.begun, (await machine.have()).version) == (2, VERSION)
        nursery.cancel_scope.cancel()
