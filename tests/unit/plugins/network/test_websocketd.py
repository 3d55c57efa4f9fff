"""The tunnels of one process: each fails and ends by itself."""

from pathlib import Path

import trio
import trio.testing
from trio.testing import MockClock

from liqod.identity import tunnelkeys
from liqod.identity.tunnelcertificates import pinned
from liqod.plugins.network.websocketd.__main__ import UNUSED, Process
from liqod.plugins.network.websocketd.datagrams import Datagrams
from liqod.plugins.network.websocketd.tunnel import CarriedTunnel
from liqod.plugins.network.websocketd.wanted import Wanted
from liqod.runtime import account


class Broken(Datagrams):
    """A device whose packets nobody can read."""

    def read(self) -> bytes:
        raise RuntimeError("nobody has thought of this")


def client(local: int) -> Wanted:
    """A client's part, that dials nobody."""
    ours, theirs = tunnelkeys.generate(), tunnelkeys.generate()
    pins = pinned("client", ours.private, ours.public, theirs.public)
    return Wanted("client", pins.name, pins.identity, pins.peer, local=local)


async def test_what_fails_in_one_tunnel_ends_it_alone(tmp_path: Path):
    shares = account.derived(account.TUNNEL_SHARES)
    ended: list[str] = []
    over = trio.Event()

    async def run(name: str, tunnel: CarriedTunnel) -> None:
        await tunnel.run()
        ended.append(name)
        over.set()

    devices = (Datagrams(), Broken())
    good, bad = (CarriedTunnel("x", tmp_path, device, shares) for device in devices)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, "good", good)
        nursery.start_soon(run, "bad", bad)
        await trio.testing.wait_all_tasks_blocked()
        with trio.socket.socket(type=trio.socket.SOCK_DGRAM) as sender:
            await sender.sendto(bytes(64), ("127.0.0.1", devices[1].port))
        with trio.fail_after(5):
            await over.wait()
        assert ended == ["bad"]
        assert devices[1].fileno() == -1
        await good.be(client(9))
        assert good.status()["digest"]
        assert good.status()["why"]
        await good.end()
    assert ended == ["bad", "good"]
    assert devices[0].fileno() == -1


async def test_a_process_without_tunnels_ends_by_itself(tmp_path: Path, autojump_clock: MockClock):
    control = tmp_path / "tunnels.socket"
    began = trio.current_time()
    await Process(control).run()
    assert UNUSED <= trio.current_time() - began < 2 * UNUSED
    assert not control.exists()


async def test_a_tunnel_that_is_ended_twice_or_asked_again_stays_so(tmp_path: Path):
    tunnel = CarriedTunnel("one", tmp_path, Datagrams(), account.derived(account.TUNNEL_SHARES))
    async with trio.open_nursery() as nursery:
        await nursery.start(tunnel.run)
        wanted = client(9)
        await tunnel.be(wanted)
        before = tunnel.status()
        await tunnel.be(wanted)
        assert tunnel.status()["digest"] == before["digest"] == wanted.digest
        await tunnel.be(wanted._replace(quiet=True))
        assert tunnel.status()["why"] == "it stands by"
        await tunnel.end()
        await tunnel.end()
