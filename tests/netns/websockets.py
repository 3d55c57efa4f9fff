"""Two gateways with a tunnel in a websocket between them, and who else may speak to them."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import trio

from liqod.identity.tunnelcertificates import Pinned, pinned
from liqod.network.dataplane.kernel.namespaces import inside
from liqod.plugins.network.websocket import WEBSOCKET, WebSocket
from liqod.plugins.network.websocketd.session import Session
from liqod.plugins.network.websocketd.tls import context
from liqod.plugins.network.websocketprogram import Program
from liqod.plugins.providers import Side, TunnelStatus
from simulator.suites import TunnelContract
from simulator.suites.gateways import UNDERLAY, Gateway
from simulator.suites.tunnels import Gateways
from tests.testbed.netns import nft

SERVER = UNDERLAY["server"]
Body = Callable[[Gateways], Awaitable[None]]


class Suite(TunnelContract):
    """Runs a test between two gateways; not collected, since its name does not say test."""

    provider = WEBSOCKET
    settings: ClassVar[Mapping[str, Any]] = {}


def between(body: Body, **settings: Any) -> None:
    """Run a test between two gateways."""
    suite = type("_Suite", (Suite,), {"settings": settings})()
    suite.run(body)


async def why(both: Gateways, side: str, *words: str, seconds: float = 8.0) -> str:
    """Waits until a side's reason for no connection has all these words, and returns it."""
    with trio.fail_after(seconds):
        while True:
            status = await both.tunnels[side].status()  # type: ignore[index]
            if status is not None and all(word in status.why for word in words):
                return status.why
            await trio.sleep(0.02)


def program_of(gateway: Gateway) -> Program:
    """The program of a gateway's tunnel, past the wall that a daemon has around it."""
    tunnel = WEBSOCKET.build(WEBSOCKET.config_type(), gateway.services, gateway.place)
    assert isinstance(tunnel, WebSocket)
    return tunnel._program


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


async def opened(both: Gateways, identity: str | None = None) -> Session:
    """A session with the server, of the peer's own or with another identity."""
    mine = pins(both, "client")
    how = context("client", identity or mine.identity, mine.peer)
    stream = await dialled(both)
    session = Session("client", how, f"{mine.name}.x", stream, stream.socket, "x")
    try:
        with trio.fail_after(5):
            await session.open()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return session


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
