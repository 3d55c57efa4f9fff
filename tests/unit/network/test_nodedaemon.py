"""`liqod node` as a whole: what ends it, and what does not."""

from pathlib import Path
from typing import Any, NoReturn

import pytest
import trio
import trio.testing

from liqod import config, node
from liqod.network.machineprogram import MachineProgram
from liqod.network.overlay.kernel import NodeKernel
from liqod.node import NodeDaemon
from liqod.runtime.account import PROXY, Account
from tests.testbed.daemon import toml
from tests.testbed.processes import free_ports


async def test_a_kubeconfig_that_cannot_be_read_ends_no_tunnel(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: object,
):
    kept = list[str]()

    async def run(program: MachineProgram) -> NoReturn:
        kept.append("began")
        try:
            await trio.sleep_forever()
        finally:
            kept.append("ended")

    monkeypatch.setattr(MachineProgram, "run", run)
    settings = config.parse(toml({"cluster": {"kubeconfig": str(tmp_path / "none")}}))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(NodeDaemon(settings, "one", NodeKernel(), 0).run)
        await trio.sleep(100)
        assert kept == ["began"]
        nursery.cancel_scope.cancel()
    said = [each for each in caplog.messages if "the cluster is not followed" in each]
    assert len(said) == 1, "once, and not at each try"
    assert "none" in said[0]


async def test_its_metrics_say_how_full_each_face_is_and_who_was_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    callers: list[Account] = []

    async def run(program: MachineProgram) -> NoReturn:
        await trio.sleep_forever()

    def noted(*known: Any, **more: Any) -> MachineProgram:
        callers.append(known[1])
        return MachineProgram(*known, **more)

    monkeypatch.setattr(MachineProgram, "run", run)
    monkeypatch.setattr(node, "MachineProgram", noted)
    [port] = free_ports(1)
    settings = config.parse(
        toml(
            {
                "cluster": {"kubeconfig": str(tmp_path / "none")},
                "health": {"host": "127.0.0.1", "port": port},
            }
        )
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(NodeDaemon(settings, "one", NodeKernel(), port).run)
        await trio.testing.wait_all_tasks_blocked(0.05)
        proxy = callers[0][PROXY]
        for _ in range(proxy.of_one + 2):
            proxy.enter("milan")
        lines = (await scraped(port)).splitlines()
        nursery.cancel_scope.cancel()
    assert f'liqod_places{{face="proxy"}} {proxy.most}' in lines
    assert f'liqod_places_of_one{{face="proxy"}} {proxy.of_one}' in lines
    assert f'liqod_places_taken{{face="proxy"}} {proxy.of_one}' in lines
    refused = 'liqod_places_refused_total{face="proxy",reason="source",source="peer"} 2'
    assert refused in lines
    assert 'liqod_places_taken{face="probes"} 1' in lines


async def scraped(port: int) -> str:
    """The metrics that are served at a port."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        text = b""
        with trio.fail_after(5):
            async for part in stream:
                text += part
        return text.decode()
