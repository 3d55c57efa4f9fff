"""The options of ``liqod run``."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from liqod import daemon
from liqod.config import Config
from liqod.plugins import loader
from liqod.runtime import log


def test_the_kubeconfig_of_the_command_line_counts_before_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
):
    seen: list[str] = []

    class Noted:
        def __init__(self, config: Config, plugins: object, read: Callable[[], Config]) -> None:
            seen.extend((config.cluster.kubeconfig, read().cluster.kubeconfig))

        async def run(self) -> None:
            """Nothing to run."""

    monkeypatch.setattr(daemon, "Daemon", Noted)
    monkeypatch.setattr(log, "set_up", lambda *_, **__: None)
    monkeypatch.setattr(loader, "load", lambda **_: SimpleNamespace(records=(), left_out={}))
    monkeypatch.setattr(loader, "log_loaded", lambda _: None)
    monkeypatch.setenv("LIQOD_KUBECONFIG", "/by/the/environment")
    assert daemon.command([]) == 0
    assert daemon.command(["--kubeconfig", "/by/the/command"]) == 0
    assert seen == ["/by/the/environment"] * 2 + ["/by/the/command"] * 2
