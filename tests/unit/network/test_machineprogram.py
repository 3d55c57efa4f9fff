"""The part of `liqod node` that is ordered: its configuration, its plugins, its socket."""

import logging
import os
import pwd
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from liqod import config
from liqod.errors import ConfigError, NetworkError
from liqod.network import machineprogram, machinesocketdial
from liqod.network.dataplane.kernel import capabilities
from liqod.network.framestream import FrameStream
from liqod.network.machineprogram import MachineProgram, account_of
from liqod.network.orders.tunnels import (
    DISABLED,
    MachineFacts,
    MachineRead,
    ReadMachine,
    Surroundings,
    TunnelReport,
)
from liqod.runtime.account import NODE_SHARES, Account
from tests.testbed.daemon import toml
from tests.unit.network.ordering import admitted, hello, reply
from tests.unit.network.tunnels import ORDER

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
    return MachineProgram(config.parse(text), Account(shares=NODE_SHARES))


async def test_it_listens_where_it_can_have_tunnels(tmp_path: Path, lacks: Lacks):
    lacks(None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(program(tmp_path / "m").run)
        with trio.fail_after(5):
            while await machinesocketdial.problem(tmp_path / "m"):  # noqa: ASYNC110
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def ordered(made: MachineProgram, folder: Path) -> AsyncIterator[FrameStream]:
    """A daemon's connection to a program."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        with trio.fail_after(5):
            while await machinesocketdial.problem(folder):  # noqa: ASYNC110
                await trio.sleep(0.01)
        async with await machinesocketdial.dial(folder) as stream:
            yield await admitted(stream, hello())
        nursery.cancel_scope.cancel()


async def found(daemon: FrameStream) -> MachineFacts:
    """The capabilities that a daemon is told."""
    server = "https://192.0.2.5:6443"
    around = Surroundings(address="192.0.2.5", server=server, reached=server)
    await daemon.deliver(ReadMachine(7, around))
    with trio.fail_after(10):
        return (await reply(daemon, MachineRead)).facts


async def test_what_it_lacks_is_told_to_the_daemon_each_time_that_it_asks(
    tmp_path: Path, lacks: Lacks
):
    lacks("missing: nft")
    made = program(tmp_path / "m")
    async with ordered(made, tmp_path / "m") as daemon:
        assert (await found(daemon)).problem == "missing: nft"
        why = "no networks can be joined on this machine: missing: nft"
        with pytest.raises(NetworkError, match=why):
            await machinesocketdial.calls(tmp_path / "m")
        lacks("missing: /dev/net/tun")
        assert (await found(daemon)).problem == "missing: /dev/net/tun"
        lacks(None)
        assert not (await found(daemon)).problem.startswith("missing: /dev/net/tun")


async def test_calls_come_at_the_ports_of_its_own_configuration_alone(tmp_path: Path, lacks: Lacks):
    lacks("missing: nft")
    made = program(tmp_path / "m")
    async with ordered(made, tmp_path / "m") as daemon:
        assert (await found(daemon)).problem == "missing: nft"
        for port in (443, 6446):
            with pytest.raises(NetworkError, match="missing: nft"):
                await machinesocketdial.calls(tmp_path / "m", port)
        with pytest.raises(NetworkError, match="does not open port 22"):
            await machinesocketdial.calls(tmp_path / "m", 22)


async def test_networks_that_its_configuration_turns_off_are_told(tmp_path: Path, lacks: Lacks):
    lacks(None)
    made = program(tmp_path / "m", enabled=False)
    async with ordered(made, tmp_path / "m") as daemon:
        assert await found(daemon) == DISABLED


async def test_a_tunnel_that_would_take_what_its_configuration_reserves_is_refused(
    tmp_path: Path, lacks: Lacks
):
    lacks(None)
    [alias, *_] = ORDER.ranges.seen.pod
    made = program(tmp_path / "m", reserved=[alias])
    async with ordered(made, tmp_path / "m") as daemon:
        for now in ((), ("10.96.0.1",)):
            made.reserve(now)
            await daemon.deliver(ORDER)
            with trio.fail_after(10):
                report = await reply(daemon, TunnelReport)
            assert f"overlaps {alias}, which [network] reserved keeps" in report.state.why


async def test_a_configuration_without_sense_is_told(tmp_path: Path, lacks: Lacks):
    lacks(None)
    settings = {"settings": {"websocket": {"proxy": "ftp://proxy.example"}}}
    text = toml({"network": {"machine": str(tmp_path / "m")}, "plugins": settings})
    made = MachineProgram(config.parse(text), Account(shares=NODE_SHARES))
    async with ordered(made, tmp_path / "m") as daemon:
        assert "the configuration of liqod node: " in (await found(daemon)).problem


async def test_no_plugin_is_loaded_while_no_daemon_orders(
    tmp_path: Path, lacks: Lacks, monkeypatch: pytest.MonkeyPatch
):
    lacks(None)
    monkeypatch.setattr(machineprogram, "load_backends", None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(program(tmp_path / "m").run)
        await wait_all_tasks_blocked(0.05)
        nursery.cancel_scope.cancel()


async def test_without_rights_and_a_socket_it_says_so_and_warns_of_nothing(
    tmp_path: Path, lacks: Lacks, caplog: pytest.LogCaptureFixture
):
    lacks("missing: CAP_SYS_ADMIN")
    (tmp_path / "m").write_text("no folder can be made here")
    async with trio.open_nursery() as nursery:
        with caplog.at_level(logging.INFO):
            nursery.start_soon(program(tmp_path / "m").run)
            await wait_all_tasks_blocked(0.1)
        nursery.cancel_scope.cancel()
    said = [(each.levelname, each.getMessage()) for each in caplog.records]
    assert said == [("INFO", "this machine cannot be a gateway: missing: CAP_SYS_ADMIN")]


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
