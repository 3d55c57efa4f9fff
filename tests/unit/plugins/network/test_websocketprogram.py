"""The end of a tunnel in the machine's process: one that hangs is not waited for."""

from pathlib import Path
from typing import Any

import pytest

from liqod.network.dataplane.datapath import KernelDatapath
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.plugins.network.websocketprogram import TunnelProcess
from liqod.plugins.providers import Place, TunnelServices
from liqod.tunnel.wanted import TunnelReport


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
    services = TunnelServices(cluster_id="rome", host=KernelDatapath("rome"), folder=str(tmp_path))
    place = Place(interface="lqt1", namespace="liqod-1", underlay="")
    await TunnelProcess(services, place, "lqt1").end()
    assert ends == ended
