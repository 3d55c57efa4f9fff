"""The choice of a WireGuard, and the problem that is reported of a machine without one."""

import os
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.errors import ConfigError, NetworkError
from liqod.plugins.network import processes, rtnetlink, uapi, wgnetlink, wireguard
from liqod.plugins.network.device import Change, WireGuardDevice
from liqod.plugins.network.wireguard import WIREGUARD, WireGuardSettings, WireGuardTunnel
from liqod.plugins.providers import Place, TunnelServices, TunnelSpec
from liqod.runtime.unixpeer import UnixPeer
from tests.kube_cases import until
from tests.unit.plugins.network.machines import Here

PLACE = Place(interface="lqt0", namespace="liqod-0")
SPEC = TunnelSpec(
    side="client",
    private_key=b"k" * 32,
    public_key=b"m" * 32,
    peer_public_key=b"p" * 32,
    endpoints=("203.0.113.7:1",),
)


NOWHERE = Path("/nowhere")
"""A folder that is not there."""


def tunnel(*, kernel: bool = False, **settings: Any) -> WireGuardTunnel:
    services = TunnelServices(cluster_id="rome", host=Here(), folder=str(NOWHERE))
    return WireGuardTunnel(
        *(WireGuardSettings(**settings), services, PLACE),
        kernel_has=lambda: kernel,
        sockets=NOWHERE,
    )


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One with rights and a TUN, and programs in a folder that is empty at first."""
    monkeypatch.setattr(wireguard, "may", lambda capability: True)
    monkeypatch.setattr(wireguard, "is_device", lambda path: True)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install(folder: Path, name: str, text: str = "exit 3") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


async def test_what_is_missing_is_named(machine: Path, monkeypatch: pytest.MonkeyPatch):
    assert await tunnel().problem() == (
        "the kernel has no WireGuard, and there is neither wireguard nor wireguard-go"
    )
    assert await tunnel(program="/opt/wg").problem() == "there is no program /opt/wg"
    install(machine, "wireguard-go")
    assert await tunnel().problem() is None
    monkeypatch.setattr(wireguard, "is_device", lambda path: False)
    assert await tunnel().problem() == "there is no /dev/net/tun"
    assert await tunnel(kernel=True).problem() is None
    monkeypatch.setattr(wireguard, "may", lambda capability: False)
    assert await tunnel(kernel=True).problem() == "the right CAP_NET_ADMIN is missing"
    monkeypatch.setattr(rtnetlink, "find", lambda name: None)
    with pytest.raises(ConfigError, match="CAP_NET_ADMIN"):
        await tunnel(kernel=True).up(SPEC)


async def test_the_newest_program_is_begun_but_for_another_that_is_named(
    machine: Path, monkeypatch: pytest.MonkeyPatch
):
    began: list[list[str]] = []
    start = processes.start

    def noted(command: list[str], environment: dict[str, str], **more: Any) -> Any:
        began.append(command)
        assert environment == {"GOMEMLIMIT": "96MiB", "GOGC": "off", "LOG_LEVEL": "silent"}
        return start(command, environment, **more)

    monkeypatch.setattr(processes, "start", noted)
    monkeypatch.setattr(rtnetlink, "find", lambda name: None)
    older = install(machine, "wireguard-go")
    newer = install(machine, "wireguard")
    other = install(machine, "another")
    for chosen, program in (("", newer), (other, other)):
        with pytest.raises(NetworkError, match="ended with status 3"):
            await tunnel(program=chosen).up(SPEC)
        assert began[-1] == [program, "-f", "lqt0"]
    os.unlink(newer)
    with pytest.raises(NetworkError):
        await tunnel().up(SPEC)
    assert began[-1][0] == older


async def test_the_kernels_is_made_moved_and_configured(monkeypatch: pytest.MonkeyPatch):
    calls: list[tuple[Any, ...]] = []
    there: list[rtnetlink.Link] = []

    def make(name: str, kind: str, *data: bytes, mac: str = "") -> None:
        calls.append(("make", name, kind))

    def move(name: str, namespace: str) -> None:
        calls.append(("move", name, namespace))
        there.append(rtnetlink.Link(3, name, 1500, False, "wireguard"))

    def raised(name: str, mtu: int, *, segments: int = 0) -> None:
        calls.append(("raise", name, mtu))
        there[0] = rtnetlink.Link(3, name, mtu, True, "wireguard")

    device = WireGuardDevice()

    def write(name: str, change: Change) -> None:
        calls.append(("write", name, change))

    monkeypatch.setattr(rtnetlink, "find", lambda name: there[0] if there else None)
    monkeypatch.setattr(rtnetlink, "is_namespace", lambda name: name == "tmp")
    for name, function in (("make", make), ("move", move), ("raise_", raised)):
        monkeypatch.setattr(rtnetlink, name, function)
    monkeypatch.setattr(wgnetlink, "read", lambda name, key=b"": device)
    monkeypatch.setattr(wgnetlink, "write", write)
    made = WireGuardTunnel(
        WireGuardSettings(),
        TunnelServices(cluster_id="rome", host=Here(), folder=str(NOWHERE)),
        Place(interface="lqt0", namespace="tmp"),
        kernel_has=lambda: True,
        sockets=NOWHERE,
    )
    await made.up(SPEC)
    assert [each[0] for each in calls] == ["make", "move", "raise", "write"]
    assert calls[0] == ("make", "lqt0", "wireguard")
    assert calls[1] == ("move", "lqt0", "tmp")
    assert calls[3][2].peers[0].endpoint == "203.0.113.7:1"
    # Its second half finds what the first one made.
    calls.clear()
    await made.up(SPEC)
    assert [each[0] for each in calls] == ["write"]
    status = await made.status()
    assert status is not None
    assert status.path == "kernel"


def test_it_is_what_is_used_where_nothing_is_said():
    assert WIREGUARD.encrypted
    assert not WIREGUARD.on_request


async def test_a_program_that_hangs_is_ended_and_reaped(machine: Path):
    program = install(machine, "slow", "exec sleep 60")
    child = await trio.to_thread.run_sync(processes.start, [program, "lqt0"], {"PATH": "/bin"})
    with trio.fail_after(5):
        await until(lambda: processes.command_line(child.pid)[:1] == ["sleep"])
        await processes.end(child.pid, named="lqt0")
        assert child.poll() is None, "another program has that number"
        await processes.end(child.pid, named="60")
    assert child.poll() is not None
    await processes.end(child.pid, named="60")


async def test_somebody_elses_socket_hears_no_key(machine: Path, monkeypatch: pytest.MonkeyPatch):
    place = uapi.path("lqt0", machine)
    monkeypatch.setattr("os.geteuid", lambda: 4711)
    monkeypatch.setattr(uapi, "unix_peer", lambda connection: UnixPeer(1, 4712))
    heard: list[bytes | bytearray] = []

    async def listen(stream: trio.SocketStream) -> None:
        heard.extend([part async for part in stream])

    with trio.socket.socket(trio.socket.AF_UNIX) as sock:
        await sock.bind(str(place))
        sock.listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, listen, [trio.SocketListener(sock)])
            assert await uapi.process(place) is None
            with pytest.raises(PermissionError, match="somebody else"):
                await uapi.write(place, Change(private_key=b"k" * 32))
            nursery.cancel_scope.cancel()
    assert heard == []
