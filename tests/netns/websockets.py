"""Two gateways with a tunnel in a websocket between them, and who else may speak to them."""

from __future__ import annotations

import inspect
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from typing import Any, ClassVar, cast

import trio
from websockets.client import ClientProtocol
from websockets.protocol import State
from websockets.uri import WebSocketURI

from liqod.identity.tunnelcertificates import Pinned, pinned
from liqod.network.dataplane.kernel.namespaces import inside
from liqod.plugins.network.websocket import WEBSOCKET
from liqod.plugins.network.websocketprogram import TunnelProcess
from liqod.plugins.providers import Side, TunnelProvider, TunnelStatus
from liqod.tunnel.tunnelsession import SPEAKS, TunnelSession
from liqod.tunnel.tunneltls import context
from simulator.suites import TunnelContract
from simulator.suites.gateways import UNDERLAY, Gateway
from simulator.suites.tunnels import Gateways
from tests.testbed.netns import nft

SERVER = UNDERLAY["server"]


class Suite(TunnelContract):
    """Runs a test between two gateways; not collected, since its name does not say test."""

    provider = WEBSOCKET
    settings: ClassVar[Mapping[str, Any]] = {}


def suite(provider: TunnelProvider = WEBSOCKET, **settings: Any) -> TunnelContract:
    """A suite that runs tests between two gateways with such settings."""
    made = type("_Suite", (Suite,), {"provider": provider, "settings": settings})()
    return cast("TunnelContract", made)


def between(
    test: Callable[..., Awaitable[None]],
    of: Callable[[Mapping[str, Any]], TunnelContract] = lambda given: suite(),
) -> Callable[..., None]:
    """Has a test, which may be a suite's own, run between two gateways, its argument `both`.

    Args:
        of: makes the suite for a test that belongs to none, by its other arguments.
    """
    shown = inspect.signature(test)

    @wraps(test)
    def run(*own: TunnelContract, **given: Any) -> None:
        (own[0] if own else of(given)).run(lambda both: test(*own, both=both, **given))

    others = [each for each in shown.parameters.values() if each.name != "both"]
    vars(run)["__signature__"] = shown.replace(parameters=others)
    return run


async def why(both: Gateways, side: str, *words: str, seconds: float = 8.0) -> str:
    """Waits until a side's reason for no connection has all these words, and returns it."""
    with trio.fail_after(seconds):
        while True:
            status = await both.tunnels[side].status()  # type: ignore[index]
            if status is not None and all(word in status.why for word in words):
                return status.why
            await trio.sleep(0.02)


def program_of(gateway: Gateway) -> TunnelProcess:
    """The program of a gateway's tunnel, past the wall that a daemon has around it."""
    return TunnelProcess(gateway.services, gateway.place, gateway.place.interface)


async def status_of(both: Gateways, side: Side) -> TunnelStatus:
    """How a side's tunnel is, which is there."""
    status = await both.tunnels[side].status()
    assert status is not None
    return status


async def joined(both: Gateways, seconds: float = 8.0) -> None:
    with trio.fail_after(seconds):
        while not await both.echo(b"?", seconds=0.2):
            pass


def drops(gateway: Gateway, *rules: str) -> None:
    """Has packets dropped that arrive where a gateway's packets travel."""
    lines = "\n".join(f"{rule} drop" for rule in rules)
    hook = "type filter hook input priority 0"
    nft(gateway.underlay, f"table inet wall {{\nchain c {{\n{hook}\n{lines}\n}}\n}}\n")


def pins(both: Gateways, side: str) -> Pinned:
    """Returns the certificates of one side."""
    spec = both.spec(side)  # type: ignore[arg-type]
    return pinned(spec.side, spec.private_key, spec.public_key, spec.peer_public_key)


async def dialled(both: Gateways) -> trio.SocketStream:
    """A connection of somebody's at the client to the server."""
    dial = partial(socket.create_connection, (SERVER, 443), 5)
    made = await inside(both.client.underlay, dial)
    return trio.SocketStream(trio.socket.from_stdlib_socket(made))


async def opened(both: Gateways, identity: str | None = None) -> TunnelSession:
    """A session with the server, of the peer's own or with another identity."""
    mine = pins(both, "client")
    how = context("client", identity or mine.identity, mine.peer)
    stream = await dialled(both)
    session = TunnelSession("client", how, f"{mine.name}.x", stream, stream.socket, "x")
    try:
        with trio.fail_after(5):
            await session.open()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return session


class Speaker:
    """The peer's own end of a websocket to the server, with which a test says anything.

    Attributes:
        protocol: the websocket; what is given to it goes with :meth:`send`.
    """

    def __init__(self, tls: trio.SSLStream[trio.SocketStream], name: str) -> None:
        self._tls = tls
        uri = WebSocketURI(True, name, 443, "/", "")
        self.protocol = ClientProtocol(uri, subprotocols=[SPEAKS])

    async def open(self) -> None:
        """Have both ends prove themselves, and begin the websocket."""
        self.protocol.send_request(self.protocol.connect())
        await self.send()
        while self.protocol.state is State.CONNECTING:
            self.protocol.receive_data(await self._tls.receive_some())
        assert self.protocol.state is State.OPEN

    async def send(self) -> None:
        """Send all that the websocket has been given."""
        await self._tls.send_all(b"".join(self.protocol.data_to_send()))

    async def left(self) -> None:
        """Wait until the other end has hung up."""
        with suppress(trio.BrokenResourceError):
            while await self._tls.receive_some():
                pass


@asynccontextmanager
async def speaking(both: Gateways) -> AsyncIterator[Speaker]:
    """The peer's own end of a websocket that has begun."""
    mine = pins(both, "client")
    how, stream = context("client", mine.identity, mine.peer), await dialled(both)
    speaker = Speaker(trio.SSLStream(stream, how, server_hostname=f"{mine.name}.x"), mine.name)
    try:
        with trio.fail_after(5):
            await speaker.open()
        yield speaker
    finally:
        await trio.aclose_forcefully(stream)


def files(process: int) -> int:
    """How many a process has open."""
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def resident(process: int) -> float:
    """MiB of a process's memory."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("it has ended")


async def flooding(gateway: Gateway) -> trio.socket.SocketType:
    """A UDP socket from which a gateway's tunnel can be filled."""
    made = await inside(gateway.inside, partial(socket.socket, type=socket.SOCK_DGRAM))
    return trio.socket.from_stdlib_socket(made)
