"""Floods of connections to the ports of a daemon with few files, and its metrics of places."""

import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import trio

from liqod.apimachinery.kinds import NAMESPACES
from liqod.errors import LiqodError
from liqod.handshake.protocol.messages import Ask
from liqod.handshake.protocol.outputs import ExpectedPeer, LocalIdentity
from liqod.handshake.transport.peerdialler import PeerDialler
from liqod.kube.http.wire import Wire, wire_of
from liqod.kube.selection import Selection
from liqod.resources import INCOMING_PEERINGS, IncomingPeering
from liqod.runtime.account import SHARES, Account, PortShare
from tests.simulated.borrower import eventually
from tests.simulated.inspect.test_inspector import get
from tests.simulated.processes import Site, sites
from tests.testbed import pki
from tests.testbed.processes import free_ports
from tests.unit.handshake.listeners import TURIN

FILES = 512
CROWD = 600
FACES = ("webhook", "kubelet", "health", "handshake", "inspector")
ELSEWHERE = "127.9.9.9"
"""Another address of this machine: honest clients have 127.0.0.1."""


@contextmanager
def crowd(port: int, many: int = CROWD) -> Iterator[None]:
    """So many connections from one address elsewhere, that say nothing."""
    with ExitStack() as stack:
        for _ in range(many):
            made = stack.enter_context(socket.socket())
            made.bind((ELSEWHERE, 0))
            made.setblocking(False)
            made.connect_ex(("127.0.0.1", port))
        yield


@contextmanager
def crowd_on(path: Path, many: int) -> Iterator[None]:
    """The same at a socket's path."""
    with ExitStack() as stack:
        for _ in range(many):
            made = stack.enter_context(socket.socket(socket.AF_UNIX))
            made.setblocking(False)
            made.connect_ex(os.fspath(path))
        yield


@asynccontextmanager
async def milan_with_few_files(folder: Path) -> AsyncIterator[tuple[Site, dict[str, int]]]:
    """A daemon that leads, and the ports of its faces."""
    ports = dict(zip(FACES, free_ports(len(FACES)), strict=True))
    pair = pki.Authority("inspector", folder / "pki").server("server", "inspector", ["127.0.0.1"])
    tables: dict[str, dict[str, object]] = {face: {"port": port} for face, port in ports.items()}
    tables["handshake"]["host"] = tables["inspector"]["host"] = "127.0.0.1"
    tables["inspector"] |= {"cert_file": str(pair.certificate), "key_file": str(pair.key)}
    async with sites(folder, "milan", settings=tables) as (milan,):
        milan.daemon.files = FILES
        await met(milan)
        yield milan, ports


async def met(site: Site) -> None:
    """Start its daemon, and wait until others are met there."""
    await site.start()

    async def listens() -> bool:
        return any("daemons are met at port" in each for each in site.daemon.lines())

    await eventually(listens)


@dataclass(frozen=True)
class Figures:
    """Figures of one face of a daemon: places, and refused connections by the reason."""

    taken: int
    most: int
    of_one: int
    refused: dict[str, int]


async def figures(port: int, face: str) -> Figures:
    """Returns a face's figures in the metrics of the daemon with that port of probes."""
    return figures_in(await get(port, "/metrics"), face)


def figures_in(text: str, face: str, shares: Mapping[str, PortShare] = SHARES) -> Figures:
    """The same of its metrics."""

    def read(name: str) -> dict[str, int]:
        found = re.findall(rf'^{name}{{face="{face}"(?:,reason="(\w+)")?.*}} (\S+)$', text, re.M)
        return {reason: int(float(value)) for reason, value in found}

    names = ("liqod_places_taken", "liqod_places", "liqod_places_of_one")
    taken, most, of_one = (read(each)[""] for each in names)
    places = Account(files=FILES, shares=shares)[face]
    assert (most, of_one) == (places.most, places.of_one)
    return Figures(taken, most, of_one, read("liqod_places_refused_total"))


def open_files(site: Site) -> int:
    """How many its daemon has open."""
    assert site.daemon.child is not None
    return len(os.listdir(f"/proc/{site.daemon.child.pid}/fd"))


async def entries(site: Site) -> list[IncomingPeering]:
    """Returns the requests for a peering that a site has received."""
    found = Selection("liqo")
    return await site.admin.list(INCOMING_PEERINGS, found, decode=IncomingPeering)


async def honest(milan: Site, ports: dict[str, int], turn: int) -> None:
    """Probes, a watch and a peer that asks, from an address of which nobody else comes."""
    with trio.fail_after(120):
        assert (await get(ports["health"], "/readyz")).startswith("HTTP/1.1 200")
        name = f"shop-{turn}"
        await milan.admin.create(NAMESPACES, {"metadata": {"name": name}})
        asked = await milan.liqod("offload", "namespace", name, check=False)
        assert "no virtual node matches" in asked.err  # the daemon's own word
        address = f"127.0.0.1:{ports['handshake']}"
        async with (
            PeerDialler(TURIN, environ={}).meet([address], ExpectedPeer()) as meeting,
            trio.open_nursery() as nursery,
        ):
            waits = trio.Event()
            ask = Ask(request=str(UUID(int=turn)), lifetime=600)
            nursery.start_soon(meeting.ask, ask, lambda lifetime: waits.set())
            await waits.wait()
            assert [each.spec.request for each in await entries(milan)] == [ask.request]
            nursery.cancel_scope.cancel()


def unchecked(pair: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """TLS with anyone who answers, as one with a certificate and key or as nobody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if pair is not None:
        context.load_cert_chain(*pair)
    return context


def ask(port: int, request: bytes, context: ssl.SSLContext) -> tuple[ssl.SSLSocket, int]:
    """A connection from elsewhere after one request, and the answer's HTTP status; 0 for none."""
    made = socket.create_connection(("127.0.0.1", port), 20, (ELSEWHERE, 0))
    secured = context.wrap_socket(made, do_handshake_on_connect=False)
    try:
        secured.do_handshake()
        secured.sendall(request)
        head = secured.recv(4096)
    except OSError:
        head = b""
    return secured, int(head.split()[1]) if head else 0


@asynccontextmanager
async def answered(
    port: int, request: bytes, many: int, context: ssl.SSLContext
) -> AsyncIterator[list[int]]:
    """So many connections from elsewhere that stay after the answer to a request each."""
    with ExitStack() as stack:
        statuses = []
        for _ in range(many):
            made, status = await trio.to_thread.run_sync(ask, port, request, context)
            stack.enter_context(made)
            statuses.append(status)
        yield statuses


async def from_elsewhere(host: str, port: int) -> Wire:
    """A connection, as a dialler makes them, by an address of which nobody else comes."""
    return wire_of(await trio.open_tcp_stream(host, port, local_address=ELSEWHERE))


@asynccontextmanager
async def asking(own: LocalIdentity, port: int, number: int) -> AsyncIterator[None]:
    """One from elsewhere that asks to be let in, and has an entry."""
    waits = trio.Event()
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            dialler = PeerDialler(own, environ={}, dial=from_elsewhere)
            with suppress(LiqodError):  # put out, as the last it may be
                async with dialler.meet([f"127.0.0.1:{port}"], ExpectedPeer()) as meeting:
                    asked = Ask(request=str(UUID(int=number)), lifetime=600)
                    await meeting.ask(asked, lambda lifetime: waits.set())

        nursery.start_soon(run)
        await waits.wait()
        yield
        nursery.cancel_scope.cancel()
