"""The end of a tunnel in the machine's process: one that hangs or begins is not waited for."""

from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.network.dataplane.datapath import KernelDatapath
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.plugins.network.websocketprogram import TunnelProcess
from liqod.plugins.providers import Place, TunnelServices
from liqod.tunnel.wanted import TunnelReport


def process_of(folder: Path) -> TunnelProcess:
    """One tunnel's part in the process of a machine."""
    services = TunnelServices(cluster_id="rome", host=KernelDatapath("rome"), folder=str(folder))
    return TunnelProcess(
        services, Place(interface="lqt1", namespace="liqod-1", underlay=""), "lqt1"
    )


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        (TimeoutError("no answer of its process within 5 s"), [True]),
        (ConnectionRefusedError("nobody listens"), [False]),
        (TunnelReport(tunnels=0), [False]),
        (TunnelReport(tunnels=1), []),
    ],
    ids=["it hangs", "it is gone", "it was the last", "others have theirs in it"],
)
async def test_the_process_ends_at_once_where_it_hangs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: object, ended: list[bool]
):
    ends = list[bool]()

    async def ask(*_: Any, **__: Any) -> tuple[TunnelReport, list[int]]:
        if isinstance(answer, OSError):
            raise answer
        assert isinstance(answer, TunnelReport)
        return answer, []

    async def end(_: MachineProcess, *, hangs: bool = False) -> None:
        ends.append(hangs)

    monkeypatch.setattr(MachineProcess, "ask", ask)
    monkeypatch.setattr(MachineProcess, "end", end)
    await process_of(tmp_path).end()
    assert ends == ended


async def test_a_tunnel_ends_while_somebody_begins_the_process(tmp_path: Path):
    """WireGuard's, which has no part in it, is made after that."""
    process = process_of(tmp_path)
    async with process.machine.turn:
        with trio.fail_after(10):
            await process.end()
