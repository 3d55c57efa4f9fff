"""`liqod node` as a whole: what ends it, and what does not."""

from pathlib import Path
from typing import NoReturn

import pytest
import trio

from liqod import config
from liqod.network.machineprogram import MachineProgram
from liqod.network.overlay.kernel import NodeKernel
from liqod.node import NodeDaemon
from tests.testbed.daemon import toml


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
