"""The part of `liqod node` that is ordered: its configuration, its plugins, its socket."""

import logging
import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from liqod import config
from liqod.errors import ConfigError
from liqod.network import machinesocketdial
from liqod.network.dataplane.kernel import capabilities
from liqod.network.machineprogram import MachineProgram, account_of
from liqod.plugins import loader
from liqod.runtime.account import Account
from tests.testbed.daemon import toml

Lacks = Callable[[str | None], None]


@pytest.fixture
def lacks(monkeypatch: pytest.MonkeyPatch) -> Lacks:
    """Has this machine lack something, or nothing."""

    def set_so(what: str | None) -> None:
        async def problem() -> str | None:
            return what

        monkeypatch.setattr(capabilities, "problem", problem)

    return set_so


def program(folder: Path, **network: object) -> MachineProgram:
    text = toml({"network": {"machine": str(folder), **network}})
    return MachineProgram(config.parse(text), Account())


async def test_it_listens_where_it_can_have_tunnels(tmp_path: Path, lacks: Lacks):
    lacks(None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(program(tmp_path / "m").run)
        with trio.fail_after(5):
            while await machinesocketdial.problem(tmp_path / "m"):  # noqa: ASYNC110
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("lack", "enabled"), [("missing: nft", True), (None, False)])
async def test_elsewhere_it_does_not_and_loads_no_plugin(
    tmp_path: Path,
    lacks: Lacks,
    lack: str | None,
    enabled: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    lacks(lack)
    monkeypatch.setattr(loader, "load_backends", None)
    async with trio.open_nursery() as nursery:
        with caplog.at_level(logging.INFO):
            nursery.start_soon(program(tmp_path / "m", enabled=enabled).run)
            await wait_all_tasks_blocked(0.05)
        assert not (tmp_path / "m").exists()
        nursery.cancel_scope.cancel()
    assert "this machine cannot be a gateway: " in caplog.text


def test_the_daemon_is_a_user_by_name_or_this_one():
    assert account_of(config.parse("").network) == (os.geteuid(), os.getegid())
    known = pwd.getpwall()[0]
    named = config.parse(toml({"network": {"daemon": known.pw_name}})).network
    assert account_of(named) == (known.pw_uid, known.pw_gid)
    numbered = config.parse(toml({"network": {"daemon": "65532"}})).network
    assert account_of(numbered) == (65532, 65532)
    missing = config.parse(toml({"network": {"daemon": "nobody-of-ours"}})).network
    with pytest.raises(ConfigError, match="there is no user nobody-of-ours"):
        account_of(missing)


async def test_a_user_that_is_not_there_yet_is_said_and_waited_for(
    tmp_path: Path, lacks: Lacks, caplog: pytest.LogCaptureFixture, autojump_clock: object
):
    lacks(None)
    made = program(tmp_path / "m", daemon="nobody-of-ours")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        await trio.sleep(100)
        nursery.cancel_scope.cancel()
    said = [each for each in caplog.messages if "no daemon can order this machine" in each]
    assert said == [
        "no daemon can order this machine: [network] daemon: there is no user nobody-of-ours"
    ]
