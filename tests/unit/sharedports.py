"""A port that tunnels and a daemon share: its three programs, in the process of a test."""

import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import trio
import trio.testing

from liqod.identity import tunnelkeys
from liqod.identity.tunnelcertificates import Pinned, pinned
from liqod.network import machinesocketdial
from liqod.network.machine import callrelay
from liqod.network.machine.machinesocket import DaemonAccount, MachineSocket
from liqod.network.orders.greeting import CALLS
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.plugins.network.websocketprogram import TunnelProcess
from liqod.plugins.providers import Place, TunnelServices
from liqod.runtime import account
from liqod.runtime.account import Account
from liqod.runtime.connectionlimit import ConnectionLimiter
from liqod.sharedport import be_handed
from liqod.tunnel.__main__ import Process, listening
from liqod.tunnel.tunnelsession import TunnelSession
from liqod.tunnel.tunneltls import context
from liqod.tunnel.wanted import Wanted
from tests.unit.plugins.network.machines import Here

NOBODY = "0123456789abcdef" * 2

Take = Callable[[trio.socket.SocketType], Awaitable[None]]


def hello(name: str | None) -> bytes:
    """The ClientHello of a client that calls a name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    said = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), said, server_hostname=name)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return said.read()


async def answer(port: int, name: str) -> str:
    """The server that takes a connection to a name; empty where it is closed."""
    with trio.fail_after(60):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(hello(name))
            try:
                return bytes(await stream.receive_some()).decode()
            except trio.BrokenResourceError:
                return ""


async def answers(port: int, name: str, whose: str) -> None:
    """Wait until it is theirs who take it: who is slow to call a name is hung up on."""
    with trio.fail_after(60):
        while True:
            with suppress(OSError, trio.TooSlowError):
                if await answer(port, name) == whose:
                    return
            await trio.sleep(0.01)


async def free(port: int) -> None:
    """Wait until nobody listens there."""
    with trio.fail_after(60), suppress(OSError):
        while True:
            await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
            await trio.sleep(0.01)


async def answers_as(whose: str, came: trio.socket.SocketType) -> None:
    """Say whose it is."""
    with came:
        await came.recv(1 << 16)
        await came.send(whose.encode())


class Served:
    """A server of a tunnel in a process that is this one.

    Attributes:
        wanted: the request for it.
        client: its peer's certificates.
        process: its part in the process.
    """

    def __init__(self, folder: Path, port: int, name: str = "liqod0", mark: int = 0) -> None:
        ours, theirs = tunnelkeys.generate(), tunnelkeys.generate()
        pins = pinned("server", ours.private, ours.public, theirs.public)
        self.client: Pinned = pinned("client", theirs.private, theirs.public, ours.public)
        self.wanted = Wanted("server", pins.name, pins.identity, pins.peer, port, mark=mark)
        services = TunnelServices(cluster_id="rome", host=Here(), folder=str(folder))
        self.process = TunnelProcess(services, Place(interface=name, namespace=""), name)

    async def be(self, **changed: object) -> None:
        """Have it be as wanted."""
        found = await self.process.be(msgspec.structs.replace(self.wanted, **changed), _device)
        assert not found.error

    async def reached(self) -> None:
        """Have its peer open a session with it."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.wanted.port)
        how = context("client", self.client.identity, self.client.peer)
        named = f"{self.client.name}.milan.example"
        session = TunnelSession("client", how, named, stream, stream.socket, "x")
        with trio.fail_after(60):
            await session.open()
        session.discard()


async def _device() -> int:
    here, there = socket.socketpair(type=socket.SOCK_DGRAM)
    here.setblocking(False)
    there.detach()  # as long as the process
    return here.detach()


@asynccontextmanager
async def tunnels(folder: Path, callers: Account | None = None) -> AsyncIterator[None]:
    """The process of the tunnels, in this one, with all rights."""
    with listening(folder / "tunnels.socket") as control:
        callers = callers or account.derived(account.TUNNEL_SHARES)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Process(control, 0, callers).run)
            yield
            nursery.cancel_scope.cancel()


def few(shared: int) -> Account:
    """An account with so many places for those who have called no name yet."""
    share = msgspec.structs.replace(account.TUNNEL_SHARES[account.SHARED], most=shared, divided=1)
    return Account(shares={**account.TUNNEL_SHARES, account.SHARED: share})


@asynccontextmanager
async def node(folder: Path, port: int, cluster: str = "rome", at: str = "") -> AsyncIterator[None]:
    """The part of `liqod node` that hands over calls, at its socket.

    Args:
        folder: of the tunnels' process.
        port: the port.
        cluster: id of the daemon's cluster.
        at: folder of the socket, in that one.
    """
    serve = partial(callrelay.serve, MachineProcess(Here(), folder), port=port, cluster=cluster)
    own = DaemonAccount(os.geteuid(), os.getegid())
    async with trio.open_nursery() as nursery:
        await nursery.start(MachineSocket(folder / at, own, {CALLS: serve}).run)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def daemon(
    folder: Path, places: ConnectionLimiter | None = None, take: Take | None = None
) -> AsyncIterator[None]:
    """A daemon that takes its calls."""
    counted = ConnectionLimiter(8) if places is None else places
    taking = (take or partial(answers_as, "daemon"), counted)
    stream = await machinesocketdial.calls(folder)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(be_handed, stream, *taking, nursery)
        yield
        nursery.cancel_scope.cancel()
