"""The contract suite of tunnel backends: two gateways in network namespaces, and real packets.

    class TestRope(TunnelContract):
        provider = ROPE
        settings = {"strands": 3}                   # its table of the configuration

Needs pytest, root, and ``ip`` of iproute2; where it may not make namespaces its tests are skipped,
and so they are where the backend has a problem with this machine. Everything happens in namespaces
of its own, which are gone afterwards.
"""

import base64
import os
import signal
import socket
import traceback
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import msgspec
import pytest
import trio

from liqod.errors import LiqodError, PluginError
from liqod.network import backends
from liqod.network.backends import BackendTimings, guarded
from liqod.plugins.callguard import ORDINARY, CallGuard, CallGuardTimings
from liqod.plugins.providers import (
    TUNNEL_ADDRESSES,
    Side,
    Tunnel,
    TunnelProvider,
    TunnelSpec,
    TunnelStatus,
)
from liqod.plugins.typecheck import type_problem
from liqod.plugins.validation import provided_problem
from simulator.suites.gateways import (
    SIXES,
    UNDERLAY,
    Gateway,
    ip,
    needs_root,
    network,
    sent,
    sockets,
)
from simulator.suites.trials import at_rest, ended, no_system_tasks

KEYS: Mapping[Side, tuple[bytes, bytes]] = {
    "server": (
        bytes.fromhex("b0646b6a53915d25acd7d962758e6045d2dd382b0e1292d246523ec78bf48e6a"),
        bytes.fromhex("0859277e33df402e0954c35a3161d3ee38b430e207d2168d75978e880e50e20d"),
    ),
    "client": (
        bytes.fromhex("2035590da0011d23195eb2ede951698253cc1c761d56ab7f8104a3f024fc6167"),
        bytes.fromhex("58e1b12d25943b6bc6b775016b30832f59e306bbe32bc919691f7d08e6268808"),
    ),
}
"""Private and public keys, for these tests alone: the suite is not to need a library for them."""
MTU = 1340
NOBODY = "198.51.100.9"
"""An address of the same network at which nobody is."""
NAME = "0xc6336401"
"""The server's address in a form that has to be looked up, and that every resolver knows."""
ELSEWHERE = 30.0
"""Seconds within which another endpoint has been tried."""
JOINED = 10.0
"""Seconds within which a packet has gone there and back."""
WHOLE = 240.0
"""Seconds for a whole test: three functions may take the minute that they have in the daemon."""


class Gateways:
    """Both sides, with keys, and the tunnels that were built for them."""

    def __init__(self, suite: "TunnelContract", tag: str, folder: Path) -> None:
        self.suite = suite
        self.server = Gateway("server", tag, folder)
        self.client = Gateway("client", tag, folder)
        self.both = (self.server, self.client)
        self.tunnels: dict[Side, Tunnel] = {}
        self.gauge = CallGuard("network", type(suite).provider.name, timings=suite.timings)

    def spec(self, side: Side, **changed: Any) -> TunnelSpec:
        """The spec of the tunnel of one side."""
        other: Side = "client" if side == "server" else "server"
        port = type(self.suite).provider.port
        return msgspec.structs.replace(
            TunnelSpec(
                side=side,
                private_key=KEYS[side][0],
                public_key=KEYS[side][1],
                peer_public_key=KEYS[other][1],
                listen_port=port if side == "server" else 0,
                endpoints=(f"{UNDERLAY['server']}:{port}",) if side == "client" else (),
                mtu=MTU,
            ),
            **changed,
        )

    def build(self, gateway: Gateway) -> Tunnel:
        """A tunnel, as a daemon that starts builds it, and behind the same wall."""
        provider = type(self.suite).provider
        settings = msgspec.convert(dict(self.suite.settings), provider.config_type)
        self.tunnels[gateway.side] = guarded(
            *(provider, settings, gateway.services, gateway.place, self.gauge, gateway.side),
            timings=self.suite.backend_timings,
        )
        return self.tunnels[gateway.side]

    async def up(self, gateway: Gateway, *, silent: float = 0.0, **changed: Any) -> float:
        """Bring one side up."""
        tunnel = self.tunnels.get(gateway.side) or self.build(gateway)
        again = await tunnel.up(self.spec(gateway.side, **changed), silent=silent)
        await gateway.addresses()
        return again

    async def problem(self) -> str | None:
        """The reason that the backend cannot run on this machine, in a sentence; None normally."""
        return await self.build(self.server).problem()

    async def join(self) -> None:
        """Bring both sides up, and wait for a packet to go there and back."""
        for gateway in self.both:
            await self.up(gateway)
        with trio.fail_after(JOINED):
            while not await self.echo(b"?", seconds=0.2):
                pass

    async def echo(
        self, payload: bytes, *, seconds: float = 2.0, family: socket.AddressFamily = socket.AF_INET
    ) -> bool:
        """True if some bytes come back from the server."""
        with await self.server.socket(family) as there, await self.client.socket(family) as here:
            addresses = TUNNEL_ADDRESSES if family == socket.AF_INET else SIXES
            with trio.move_on_after(seconds):
                await here.sendto(payload, (addresses["server"], 7))
                got, origin = await there.recvfrom(1 << 16)
                assert origin[0] == addresses["client"], f"it comes from {origin[0]}"
                await there.sendto(got, origin)
                answer, _ = await here.recvfrom(1 << 16)
                assert answer == payload
                return True
        return False


class TunnelContract:
    """The contract of tunnel backends, as tests. Set the attributes in a sub-class.

    Attributes:
        provider: the backend under test.
        settings: its table of the configuration.
        timings: by which its calls are judged; the daemon's, if not set.
        backend_timings: within which its functions come back; the daemon's, if not set.
    """

    provider: ClassVar[TunnelProvider]
    settings: ClassVar[Mapping[str, Any]] = {}
    timings: ClassVar[CallGuardTimings] = ORDINARY
    backend_timings: ClassVar[BackendTimings] = backends.ORDINARY

    def test_its_description_fits(self) -> None:
        assert provided_problem(type(self).provider) is None

    def test_its_settings_are_strict(self) -> None:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({**self.settings, "no-such-key": 1}, type(self).provider.config_type)

    def test_begins_no_system_task(self) -> None:
        no_system_tasks((type(self).provider.build,))

    def test_carries_packets_of_both_families(self) -> None:
        async def body(both: Gateways) -> None:
            await both.join()
            for family, head in ((socket.AF_INET, 28), (socket.AF_INET6, 48)):
                for size in (0, 1, 1000, MTU - head):
                    assert await both.echo(bytes(size), family=family), f"{family.name}, {size} B"

        self.run(body)

    def test_is_nothing_before_and_says_how_it_is_afterwards(self) -> None:
        async def body(both: Gateways) -> None:
            for gateway in both.both:
                assert await both.build(gateway).status() is None
            await both.join()
            before = [await self._status(both, gateway) for gateway in both.both]
            for _ in range(3):
                assert await both.echo(bytes(1000))
            for gateway, then in zip(both.both, before, strict=True):
                # Counters may come a moment after the packets.
                await _until(partial(self._carried, both, gateway, then, 3000))
                assert not (await self._status(both, gateway)).why

        self.run(body)

    def test_up_again_loses_nothing(self) -> None:
        """Also by a daemon that has just started, and knows only what is written here."""

        async def body(both: Gateways) -> None:
            await both.join()
            before = [await gateway.index() for gateway in both.both]
            processes = [gateway.processes() for gateway in both.both]
            async with self._nothing_lost(both):
                for _ in range(3):
                    for gateway in both.both:
                        await both.up(gateway)
                for gateway in both.both:
                    both.build(gateway)
                    await both.up(gateway)
            assert [await gateway.index() for gateway in both.both] == before
            assert [gateway.processes() for gateway in both.both] == processes

        self.run(body)

    def test_outlives_the_daemon(self) -> None:
        """One that is killed with all of its group leaves the tunnel as it is."""

        async def body(both: Gateways) -> None:
            with trio.fail_after(JOINED):
                while not await both.echo(b"?", seconds=0.2):
                    for gateway in both.both:
                        await both.up(gateway)
            before = [await gateway.index() for gateway in both.both]
            async with self._nothing_lost(both):
                for gateway in both.both:
                    await both.up(gateway)
            assert [await gateway.index() for gateway in both.both] == before

        self.run(body, killed=True)

    def test_comes_back_when_its_interface_is_deleted(self) -> None:
        async def body(both: Gateways) -> None:
            await both.join()
            for gateway in both.both:
                ip("-n", gateway.inside, "link", "delete", gateway.place.interface)
                await _until(partial(self._gone, both, gateway))
            await both.join()

        self.run(body)

    def test_comes_back_when_its_processes_are_killed(self) -> None:
        async def body(both: Gateways) -> None:
            await both.join()
            for gateway in both.both:
                processes = gateway.processes()
                for process in processes:
                    os.kill(process, signal.SIGKILL)
                if processes:
                    await _until(partial(self._gone, both, gateway))
            await both.join()

        self.run(body)

    def test_takes_another_mtu(self) -> None:
        async def body(both: Gateways) -> None:
            await both.join()
            index = await both.client.index()
            async with self._nothing_lost(both):
                for gateway in both.both:
                    await both.up(gateway, mtu=1300)
            assert await both.client.index() == index
            assert await both.echo(bytes(1300 - 28))
            with pytest.raises(OSError, match="too long"):
                await both.echo(bytes(1300 - 27))

        self.run(body)

    def test_goes_to_another_endpoint_where_nobody_is_at_the_first(self) -> None:
        """The backend is given the time without packets, and called again, as by the daemon."""

        async def body(both: Gateways) -> None:
            good = both.spec("client").endpoints[0]
            nobody = f"{NOBODY}:{good.rpartition(':')[2]}"
            await both.up(both.server)
            await self._reached(both, (nobody, good))

        self.run(body)

    def test_takes_a_name_for_an_endpoint(self) -> None:
        async def body(both: Gateways) -> None:
            port = both.spec("client").endpoints[0].rpartition(":")[2]
            await both.up(both.server)
            await self._reached(both, (f"{NAME}:{port}",))

        self.run(body)

    async def _reached(self, both: Gateways, endpoints: tuple[str, ...]) -> None:
        """Bring the client up, and have it go on, until a packet has gone there and back."""
        began = trio.current_time()
        with trio.fail_after(ELSEWHERE):
            while True:
                silent = trio.current_time() - began
                again = await both.up(both.client, endpoints=endpoints, silent=silent)
                assert again >= 0
                if await both.echo(b"?", seconds=min(max(again, 0.2), 1.0)):
                    return

    def test_stands_by_without_a_word_and_takes_over_in_a_moment(self) -> None:
        async def body(both: Gateways) -> None:
            if not type(self).provider.stands_by:
                return  # a machine that stands by has none of its tunnels
            await both.join()
            index = await both.client.index()
            await both.up(both.client, quiet=True, mark=18)
            before = sent(both.client)
            assert not await both.echo(b"?", seconds=2.5)
            # What the kernel asks by itself (neighbours, routers) is little, and not the tunnel's.
            assert sent(both.client) - before <= 3
            endpoint = both.spec("client").endpoints[0]
            await both.up(both.client, mark=18, last=endpoint)
            with trio.fail_after(2.0):
                while not await both.echo(b"?", seconds=0.1):
                    pass
            assert await both.client.index() == index
            # The mark is on its packets, by which they are fenced.
            name = both.client.underlay
            rule = "type filter hook output priority 0; meta mark 18 drop"
            text = f"table inet fence {{\nchain out {{\n{rule}\n}}\n}}"
            await trio.to_thread.run_sync(partial(ip, "netns", "exec", name, "nft", text))
            assert not await both.echo(b"?", seconds=1.0)

        self.run(body)

    def test_leaves_nothing(self) -> None:
        async def body(both: Gateways) -> None:
            await both.join()
            for gateway in both.both:
                # A daemon of later has begun nothing itself.
                await both.build(gateway).down()
                assert await gateway.index() is None
                assert gateway.processes() == {}
                assert list(gateway.folder.iterdir()) == []
                assert gateway.place.interface not in ip("-n", gateway.underlay, "link")
                assert not any(gateway.place.interface in path.name for path in sockets())
                assert await both.tunnels[gateway.side].status() is None
                await both.tunnels[gateway.side].down()

        self.run(body)

    def test_shows_its_keys_to_nobody(self) -> None:
        async def body(both: Gateways) -> None:
            await both.join()
            for gateway in both.both:
                key = both.spec(gateway.side).private_key
                shapes = (key, key.hex().encode(), base64.b64encode(key), repr(key).encode())
                shown = b"".join(_open_to_others(gateway))
                shown += repr(await both.tunnels[gateway.side].status()).encode()
                assert not any(shape in shown for shape in shapes)

        self.run(body)

    def test_says_why_it_cannot(self) -> None:
        """A failure of this machine is raised as an error of liqod's, which the caller shows."""

        async def body(both: Gateways) -> None:
            ip("netns", "delete", both.client.inside)
            with pytest.raises(LiqodError) as caught:
                await both.build(both.client).up(both.spec("client"))
            assert not isinstance(caught.value, PluginError), f"it is told as its own: {caught}"
            await both.tunnels["client"].down()

        self.run(body)

    async def _carried(
        self, both: Gateways, gateway: Gateway, then: TunnelStatus, size: int
    ) -> bool:
        now = await self._status(both, gateway)
        return now.received >= then.received + size and now.sent >= then.sent + size

    async def _gone(self, both: Gateways, gateway: Gateway) -> bool:
        return await both.tunnels[gateway.side].status() is None

    async def _status(self, both: Gateways, gateway: Gateway) -> TunnelStatus:
        found = await both.tunnels[gateway.side].status()
        assert type(found) is TunnelStatus
        assert type_problem(found) is None
        return found

    @asynccontextmanager
    async def _nothing_lost(self, both: Gateways) -> AsyncIterator[None]:
        """Packets go one way, numbered, all the while, and each of them arrives."""
        seen: set[int] = set()
        with (
            await both.server.socket(socket.AF_INET) as there,
            await both.client.socket(socket.AF_INET) as here,
        ):

            async def receive() -> None:
                while True:
                    seen.add(int.from_bytes((await there.recvfrom(64))[0], "big"))

            sent, over, through = 0, False, trio.Event()

            async def send() -> None:
                nonlocal sent
                while not over:
                    await here.sendto(sent.to_bytes(4, "big"), (TUNNEL_ADDRESSES["server"], 7))
                    sent += 1
                    await trio.sleep(0.002)
                through.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)
                nursery.start_soon(send)
                await trio.sleep(0.05)
                yield
                over = True
                await through.wait()
                with trio.move_on_after(2.0):
                    await _until(lambda: _answer(len(seen) == sent))
                nursery.cancel_scope.cancel()
        lost = sorted(set(range(sent)) - seen)
        assert not lost, f"of {sent} packets these were lost: {lost[:20]}"

    def run(self, body: Callable[[Gateways], Awaitable[None]], *, killed: bool = False) -> None:
        """Run a test. With ``killed``, daemons that are killed then have brought both sides up."""
        needs_root()
        with TemporaryDirectory(prefix="liqod-") as folder, network() as tag:
            both = Gateways(self, tag, Path(folder))
            problem = ended(both.problem, WHOLE)
            if problem is not None:
                pytest.skip(problem)

            async def main() -> None:
                try:
                    await body(both)
                finally:
                    with trio.CancelScope(shield=True):
                        for gateway in both.both:
                            await both.build(gateway).down()

            if killed:
                for gateway in both.both:
                    _killed_after(partial(both.up, gateway))
            ended(main, WHOLE)
            at_rest(both.gauge)


def _killed_after(begun: Callable[[], Awaitable[Any]]) -> None:
    """Do something in a process of its own, which is killed with its group when it is done."""
    with warnings.catch_warnings():
        # The other threads, those of a test runner, have nothing to do with what comes.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.setsid()
        try:
            trio.run(begun)
            os.killpg(0, signal.SIGKILL)
        finally:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it could not be brought up"


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition that notifies nobody when it comes true."""
    with trio.fail_after(JOINED):
        while True:
            if await condition():
                return
            await trio.sleep(0.01)


async def _answer(value: bool) -> bool:
    return value


def _open_to_others(gateway: Gateway) -> Iterator[bytes]:
    """The text that others could read: command lines, environments, files not root's alone."""
    for process in gateway.processes():
        for name in ("cmdline", "environ"):
            yield Path(f"/proc/{process}/{name}").read_bytes()
    for folder in (gateway.folder, Path("/var/run/wireguard")):
        for path in folder.rglob("*") if folder.exists() else ():
            if path.is_file():
                yield path.read_bytes()
