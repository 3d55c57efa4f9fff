"""The tunnels of one process: each fails and ends by itself."""

import os
import socket
from pathlib import Path

import msgspec
import trio
import trio.testing
from trio.testing import MockClock

from liqod.identity import tunnelkeys
from liqod.identity.tunnelcertificates import pinned
from liqod.runtime import account
from liqod.tunnel.__main__ import UNUSED, Process, listening
from liqod.tunnel.listening import Ports
from liqod.tunnel.packets import Tun
from liqod.tunnel.tunnel import CarriedTunnel
from liqod.tunnel.wanted import Wanted


class Broken(Tun):
    """A device whose packets nobody can read."""

    def read(self) -> bytes:
        raise RuntimeError("nobody has thought of this")


def device(kind: type[Tun] = Tun) -> tuple[Tun, socket.socket]:
    """A device, and the end at which packets are put into it."""
    here, there = socket.socketpair(type=socket.SOCK_DGRAM)
    here.setblocking(False)
    return kind(here.detach()), there


def client() -> Wanted:
    """A client's part, that dials nobody."""
    ours, theirs = tunnelkeys.generate(), tunnelkeys.generate()
    pins = pinned("client", ours.private, ours.public, theirs.public)
    return Wanted("client", pins.name, pins.identity, pins.peer)


def is_closed(device: Tun) -> bool:
    """True if a device's file is closed."""
    try:
        os.fstat(device.fileno())
    except OSError:
        return True
    return False


async def test_what_fails_in_one_tunnel_ends_it_alone():
    ports = Ports(account.derived(account.TUNNEL_SHARES))
    ended: list[str] = []
    over = trio.Event()

    async def run(name: str, tunnel: CarriedTunnel) -> None:
        await tunnel.run()
        ended.append(name)
        over.set()

    (one, kept), (other, sender) = device(), device(Broken)
    good, bad = (CarriedTunnel(each, ports) for each in (one, other))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, "good", good)
        nursery.start_soon(run, "bad", bad)
        await trio.testing.wait_all_tasks_blocked()
        with sender:
            sender.send(bytes(64))
            with trio.fail_after(5):
                await over.wait()
        assert ended == ["bad"]
        assert is_closed(other)
        await good.be(client())
        assert good.status().digest
        assert good.status().why
        await good.end()
    assert ended == ["bad", "good"]
    assert is_closed(one)
    kept.close()


async def test_a_process_without_tunnels_ends_by_itself(tmp_path: Path, autojump_clock: MockClock):
    control = tmp_path / "tunnels.socket"
    began = trio.current_time()
    with listening(control) as made:
        await Process(made, 0, account.derived(account.TUNNEL_SHARES)).run()
    assert UNUSED <= trio.current_time() - began < 2 * UNUSED


async def test_a_tunnel_that_is_ended_twice_or_asked_again_stays_so():
    made, there = device()
    tunnel = CarriedTunnel(made, Ports(account.derived(account.TUNNEL_SHARES)))
    async with trio.open_nursery() as nursery:
        await nursery.start(tunnel.run)
        wanted = client()
        await tunnel.be(wanted)
        before = tunnel.status()
        await tunnel.be(wanted)
        assert tunnel.status().digest == before.digest == wanted.digest
        await tunnel.be(msgspec.structs.replace(wanted, quiet=True))
        assert tunnel.status().why == "it stands by"
        await tunnel.end()
        await tunnel.end()
    there.close()
