"""Problems of a machine without the means, and the process whose reports are accepted."""

import errno
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
import trio

from liqod.errors import ConfigError, NetworkError
from liqod.plugins.network import (
    machineprocess,
    processes,
    rtnetlink,
    uapi,
    websocket,
)
from liqod.plugins.network.processrights import SET_USER
from liqod.plugins.network.rtnetlink import Link
from liqod.plugins.network.websocket import WEBSOCKET, WebsocketSettings, WebsocketTunnel
from liqod.plugins.providers import Place, TunnelServices, TunnelSpec
from liqod.runtime.unixpeer import UnixPeer
from liqod.tunnel.wanted import VERSION, decoded
from tests.unit.plugins.network.machines import Here

PLACE = Place(interface="lqt0", namespace="")
SPEC = TunnelSpec(
    side="client",
    private_key=bytes(range(32)),
    public_key=bytes(range(32)),
    peer_public_key=bytes(range(32, 64)),
    endpoints=("203.0.113.7:443",),
)


@pytest.fixture
def tunnel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WebsocketTunnel:
    """One on a machine with rights and a TUN, in a folder of its own."""
    monkeypatch.setattr(websocket, "may", lambda capability: True)
    monkeypatch.setattr(websocket, "is_device", lambda path: True)
    link = Link(index=7, name="lqt0", mtu=1340, up=True, kind="tun", received=5, sent=6)
    monkeypatch.setattr(rtnetlink, "find", lambda name: link)
    monkeypatch.setattr(rtnetlink, "delete", lambda name: False)
    services = TunnelServices(cluster_id="rome", host=Here(), folder=str(tmp_path))
    return WebsocketTunnel(WebsocketSettings(), services, PLACE)


@asynccontextmanager
async def process(folder: Path, **said: Any) -> AsyncIterator[list[dict[str, Any]]]:
    """Something that answers as the tunnel's process does; gives what it was asked.

    It says that it follows the request that it was given, unless it is to say something else.
    """
    asked: list[dict[str, Any]] = []
    answer = {"version": VERSION, "digest": "", "endpoint": "", "age": None, "why": "", **said}

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            text = await stream.receive_some(1 << 16)
            if text:
                asked.append(json.loads(text))
                request = decoded(text)
                if request.wanted is not None:
                    answer["digest"] = request.wanted.digest
                await stream.send_all(json.dumps(answer).encode() + b"\n")

    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "tunnels.socket"))
        made.listen()
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(made))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, serve, [listener])
            yield asked
            nursery.cancel_scope.cancel()


async def test_what_is_missing_is_named(tunnel: WebsocketTunnel, monkeypatch: pytest.MonkeyPatch):
    assert await tunnel.problem() is None
    monkeypatch.setattr(websocket, "is_device", lambda path: False)
    assert await tunnel.problem() == "there is no /dev/net/tun"
    with pytest.raises(ConfigError, match="there is no"):
        await tunnel.up(SPEC)
    monkeypatch.setattr(websocket, "may", lambda capability: False)
    assert await tunnel.problem() == "the right CAP_NET_ADMIN is missing"
    for lacking in SET_USER:
        monkeypatch.setattr(
            websocket, "may", lambda capability, lacking=lacking: capability != lacking
        )
        assert "CAP_SETUID" in (await tunnel.problem() or "")


async def test_a_proxys_issuers_are_read_by_the_parent(tunnel: WebsocketTunnel, tmp_path: Path):
    """The process of the tunnels may not read the file, and is handed its text."""
    issuers = tmp_path / "issuers.pem"
    issuers.write_text("-----BEGIN CERTIFICATE-----")
    services = TunnelServices(cluster_id="rome", host=Here(), folder=str(tmp_path))
    made = WebsocketTunnel(WebsocketSettings(proxy_ca=str(issuers)), services, PLACE)
    async with process(tmp_path) as asked:
        await made.up(SPEC)
    assert asked[1]["wanted"]["proxy_ca"] == issuers.read_text()
    issuers.unlink()
    with pytest.raises(ConfigError, match=r"proxy_ca .*issuers\.pem: .*No such file"):
        await made.up(SPEC)


async def test_a_process_that_is_told_already_is_not_told_again(
    tunnel: WebsocketTunnel, tmp_path: Path
):
    async with process(tmp_path) as asked:
        for _ in range(3):
            await tunnel.up(SPEC)
    assert [each["do"] for each in asked] == ["status", "be", "status", "status"]


async def test_in_silence_it_is_hurried_once(tunnel: WebsocketTunnel, tmp_path: Path):
    async with process(tmp_path) as asked:
        for silent in (0.0, 1.5, 3.0, 0.0, 1.5):
            await tunnel.up(SPEC, silent=silent)
    told = [each["do"] for each in asked if each["do"] != "status"]
    assert told == ["be", "hurry", "hurry"]


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.EADDRNOTAVAIL, "TCP port 8443: .*assign"),
        (errno.EACCES, "TCP port 8443: .* needs CAP_NET_BIND_SERVICE"),
    ],
)
async def test_a_port_that_cannot_be_had_is_named_with_the_reason(
    tunnel: WebsocketTunnel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    why: str,
):
    def refuse(port: int, mark: int) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(machineprocess, "bound", refuse)
    async with process(tmp_path):
        with pytest.raises(NetworkError, match=why):
            await tunnel.up(
                TunnelSpec(
                    side="server",
                    private_key=SPEC.private_key,
                    public_key=SPEC.public_key,
                    peer_public_key=SPEC.peer_public_key,
                    listen_port=8443,
                )
            )


async def test_somebody_elses_process_hears_no_key(
    tunnel: WebsocketTunnel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for module in (machineprocess, uapi):
        monkeypatch.setattr(module, "unix_peer", lambda connection: UnixPeer(1, 4712))
    begun: list[Sequence[str]] = []

    def start(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
        begun.append(command)
        raise OSError("nothing can be begun here")

    monkeypatch.setattr(processes, "start", start)
    async with process(tmp_path) as asked:
        assert await tunnel.status() is None
        with pytest.raises(NetworkError, match="nothing can be begun here"):
            await tunnel.up(SPEC)
    assert asked == []
    assert len(begun) == 1


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1], ids=["older", "newer"])
async def test_to_look_at_one_of_another_release_ends_nothing(
    tunnel: WebsocketTunnel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
):
    ended: list[int] = []

    async def end(process: int, *, named: str) -> None:
        ended.append(process)

    monkeypatch.setattr(processes, "end", end)
    async with process(tmp_path, version=version, oldest=version):
        status = await tunnel.status()
        assert status is not None
        assert "another release" in status.why
        assert ended == []


def test_it_encrypts_and_is_used_where_wireguard_is_not():
    assert WEBSOCKET.encrypted
    assert not WEBSOCKET.on_request
    assert (WEBSOCKET.transport, WEBSOCKET.port, WEBSOCKET.shared_port) == ("TCP", 443, True)
