"""Liqo's proxy at port 8118, by which peers with the grant reach this cluster's API server.

A plain HTTP proxy that accepts ``CONNECT`` to one endpoint alone: the API server, by the name and
port that peers use. TLS is between the peer and the API server, which authenticates it, so that the
proxy sees nothing and has no right of its own. It listens on the peer's own pair of interfaces, to
which nothing but the peer's tunnel leads, and is what a peer that runs Liqo uses; liqod's own
connections take the path in the kernel (:mod:`.dataplane.entrances`).
"""

import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NoReturn
from urllib.parse import urlsplit

import msgspec
import trio

from liqod.errors import LiqodError, NetworkError
from liqod.kube.http.splice import splice
from liqod.kube.http.wire import Wire, wire_of
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import OUTER_ADDRESS, PROXY_PORT, PeerNames
from liqod.runtime.connectionlimit import ConnectionLimiter, serve_one
from liqod.runtime.log import Seldom

HEAD_LIMIT: Final = 8192
"""Bytes of a request."""
BACKLOG: Final = 64

log = logging.getLogger(__name__)

Dial = Callable[[], Awaitable[Wire]]


class VethListeners:
    """Listens on the interfaces of the node that lead to peers' namespaces."""

    def listen(self, veth: str) -> tuple[socket.socket, int]:
        """A socket that listens to a peer's namespace, and the number of that interface.

        Args:
            veth: the name of the interface.

        Raises:
            OSError: there is no such interface, or somebody else listens.
        """
        index = self.index(veth)
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, veth.encode())
            made.bind((OUTER_ADDRESS, PROXY_PORT))
            made.listen(BACKLOG)
            made.setblocking(False)
        except BaseException:
            made.close()
            raise
        return made, index

    def index(self, veth: str) -> int:
        """The number of an interface; 0 where there is none."""
        try:
            return socket.if_nametoindex(veth)
        except OSError:
            return 0


class ProxyTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times that the proxy waits, all in seconds.

    Attributes:
        idle: without a byte in either direction, after which a connection is closed.
        half_idle: the same where one side has closed its direction: mostly it is gone.
        head_within: for a request to come.
        connect_within: for the API server to accept.
        retry: until a listener that cannot be had is tried again.
    """

    idle: float
    half_idle: float = 30.0
    head_within: float = 5.0
    connect_within: float = 5.0
    retry: float = 1.0


class ConnectProxy:
    """The proxy of one cluster.

    Args:
        server: URL of the API server for peers: the only endpoint that is connected to.
        dial: connects to it, by any path that this daemon has.
        kernel: of this machine.
        places: of all peers' connections.
        listeners: listens to peers' namespaces; called in the node's.
    """

    def __init__(
        self,
        server: str,
        dial: Dial,
        kernel: KernelDatapath,
        places: ConnectionLimiter,
        timings: ProxyTimings,
        listeners: VethListeners | None = None,
    ) -> None:
        self._allowed = place_of(server)
        self._dial = dial
        self._kernel = kernel
        self._places, self._timings = places, timings
        self._listeners = listeners or VethListeners()
        self._seldom = Seldom()

    async def run(self, names: PeerNames, healed: Callable[[], Awaitable[None]]) -> NoReturn:
        """Serve one peer until cancelled.

        Args:
            names: the peer's.
            healed: waits until the peer's interfaces may be others.
        """
        listen = partial(self._listeners.listen, names.veth)
        number = partial(self._listeners.index, names.veth)
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    opened, index = await self._kernel.within("", listen)
                except (OSError, NetworkError) as error:
                    if self._seldom.allows(str(error)):
                        log.warning("the proxy for %s: %s", names.peer_id, error)
                    await trio.sleep(self._timings.retry)
                    continue
                listener = trio.SocketListener(trio.socket.from_stdlib_socket(opened))
                async with trio.open_nursery() as listening:
                    attend = partial(self._attend, names.peer_id)
                    listening.start_soon(serve_one, attend, listener, nursery)
                    while await self._kernel.within("", number) == index:
                        await healed()
                    listening.cancel_scope.cancel()
        raise AssertionError("a proxy ends by cancellation only")

    async def _attend(self, peer: str, stream: trio.SocketStream) -> None:
        client = wire_of(stream)
        place = self._places.enter(peer)
        try:
            if place is not None:
                await self.serve(client)
        except LiqodError as error:
            log.debug("a connection by the proxy ended: %s", error)
        finally:
            client.close()
            if place is not None:
                place.release()

    async def serve(self, client: Wire) -> None:
        """One connection of a peer's, which is the caller's to close. Raises Unreachable."""
        with trio.move_on_after(self._timings.head_within) as patience:
            found = await _head(client)
        if patience.cancelled_caught:
            return await _respond(client, "408 Request Timeout")
        if found is None:
            return await _respond(client, "400 Bad Request")
        (method, target), rest = found
        if method != "CONNECT":
            return await _respond(client, "405 Method Not Allowed", "Allow: CONNECT")
        if _place(target) != self._allowed:
            return await _respond(client, "403 Forbidden")
        server: Wire | None = None
        try:
            with trio.move_on_after(self._timings.connect_within):
                server = await self._dial()
        except LiqodError as error:
            if self._seldom.allows(str(error)):
                log.warning("a peer asks for the API server, which cannot be reached: %s", error)
        if server is None:
            return await _respond(client, "502 Bad Gateway")
        try:
            await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            if rest:
                await server.send(rest)
            idle, lingering = self._timings.idle, self._timings.half_idle
            await splice(client, server, idle=idle, lingering=lingering)
        finally:
            server.close()


def place_of(server: str) -> tuple[str, int]:
    """Host and port of an API server's URL."""
    parts = urlsplit(server)
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)


def _place(target: str) -> tuple[str, int] | None:
    """The host and port that a request names; None where it names none."""
    try:
        parts = urlsplit(f"//{target}")
        plain = parts.netloc == target and "@" not in target
        return (parts.hostname, parts.port) if plain and parts.hostname and parts.port else None
    except ValueError:
        return None


async def _head(client: Wire) -> tuple[tuple[str, str], bytes] | None:
    """Method and target of a request, and the bytes after it; None for anything else."""
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > HEAD_LIMIT:
            return None
        more = await client.receive()
        if not more:
            return None
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    words = head.split(b"\r\n")[0].split(b" ")
    if len(head) > HEAD_LIMIT or len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return None
    if not head.isascii():
        return None
    return (words[0].decode("ascii"), words[1].decode("ascii")), rest


async def _respond(client: Wire, status: str, *headers: str) -> None:
    lines = (f"HTTP/1.1 {status}", *headers, "Content-Length: 0", "Connection: close", "", "")
    await client.send("\r\n".join(lines).encode("ascii"))
    await client.finish()
