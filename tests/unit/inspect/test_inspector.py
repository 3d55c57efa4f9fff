"""The inspector as a whole: where it listens, and that nothing of it stops the daemon."""

import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from liqod import config
from liqod.cli import inspectorclient as client
from liqod.cluster.podselection import PodSelection
from liqod.cluster.transitaddresses import TransitAddresses
from liqod.inspect.components import Components
from liqod.inspect.inspector import Inspector
from liqod.kube.http.transport import ClientStats
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins
from liqod.runtime.account import Account
from liqod.telemetry.hub import Hub


async def answer(method: str, path: str) -> Any:
    """The answer of an API server to any request."""
    return SimpleNamespace(headers={"date": "Sat, 21 Nov 2026 15:00:00 GMT"}, body=b"ok")


async def nothing(*_: Any, **__: Any) -> None:
    """There is no such object."""


OWN = "inspected"
"""An id that no daemon of the machine has that runs the tests."""


def context(text: str = "", raw: Any = answer) -> Any:
    """As much of a ClusterContext as a standby's inspector needs."""
    return SimpleNamespace(
        cluster_id=OWN,
        namespace="liqo",
        hub=Hub(),
        own_pods=PodSelection(),
        config=config.parse(text),
        informers=SimpleNamespace(find=lambda *_, **__: None, all=list),
        client=SimpleNamespace(
            server="https://rome", certificate=None, raw=raw, find=nothing, stats=ClientStats()
        ),
        version="v1.35.0",
        transit=TransitAddresses(),
    )


async def test_of_two_daemons_of_one_cluster_each_has_a_socket(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    names = (f"{OWN}.sock", f"{OWN}-{os.getpid()}.sock")
    for number in (1, 2):
        await nursery.start(
            Inspector(context(), Components(), PluginHost(Plugins()), Account()).run
        )
        there = await trio.Path(tmp_path).iterdir()
        assert {each.name for each in there} == set(names[:number])
    nursery.cancel_scope.cancel()


async def test_a_standby_tells_what_it_is(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    standby = Inspector(context(), Components(), PluginHost(Plugins()), Account())
    standby.become("standing by; host-1 leads")
    await nursery.start(standby.run)
    logging.getLogger("liqod").warning("a line of the log, token=PLANTED")
    async with client.connect(None, OWN) as looker:
        first, state = await looker.snapshot(lines=10)
        assert state.daemon.state == "standing by; host-1 leads"
        assert state.peers == {}
        assert first.lines[-1].text == "a line of the log, token=(redacted)"


async def test_a_socket_that_cannot_be_had_is_said_and_no_more(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
):
    with trio.fail_after(5):
        await nursery.start(
            Inspector(
                context('[inspector]\nsocket = "/nowhere/x.sock"'),
                Components(),
                PluginHost(Plugins()),
                Account(),
            ).run
        )
    assert "the inspector is not served" in caplog.text


async def test_a_fault_in_it_is_named_and_stops_nothing(
    tmp_path: Path,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    async def broken(method: str, path: str) -> Any:
        raise AttributeError("a fault of ours")

    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    await nursery.start(
        Inspector(context(raw=broken), Components(), PluginHost(Plugins()), Account()).run
    )
    async with client.connect(None, OWN) as looker:
        await looker.snapshot()
    assert "a part of the inspector failed" in caplog.text


async def test_switched_off_it_serves_nobody(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    await nursery.start(
        Inspector(
            context("[inspector]\nenabled = false"), Components(), PluginHost(Plugins()), Account()
        ).run
    )
    with pytest.raises(client.NoDaemon):
        client.find(None, OWN)
