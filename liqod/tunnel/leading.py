"""Leads one caller of Liqo's proxy at port 8118 to this cluster's API server.

A plain HTTP proxy that accepts ``CONNECT`` to one endpoint alone, by the name and port that peers
use. TLS is between the peer and the API server, which authenticates it, so that the proxy sees
nothing. The parent accepts the caller, and hands over a connection to the server once the caller
has named it: this process connects nowhere.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import trio

from liqod.errors import Unreachable
from liqod.runtime.gather import either
from liqod.runtime.splice import PIECE, splice
from liqod.sharedport import as_socket, received
from liqod.tunnel.wanted import Lead

HEAD_LIMIT: Final = 8192
"""Bytes of a request."""
WANTED: Final = b"?"
"""The byte by which a connection to the server is requested; the answer has it, or is another."""


async def lead(order: Lead, caller: socket.socket, parent: trio.SocketStream) -> None:
    """Lead a caller until it or the server has ended, or the parent ends it.

    Args:
        order: where to.
        caller: its connection, which ends with this.
        parent: a connection to the parent, which has the server's.
    """
    async with trio.SocketStream(trio.socket.from_stdlib_socket(caller)) as client:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            server = await _answered(order, client, parent)
            if server is not None:
                async with server:
                    splices = partial(_splice, order, _End(client), _End(server))
                    await either(splices, partial(_until_ended, parent))


class _End:
    """A connection in a splice."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream

    async def receive(self) -> bytes:
        with _reported():
            return bytes(await self._stream.receive_some(PIECE))

    async def send(self, data: bytes, /) -> None:
        with _reported():
            await self._stream.send_all(data)

    async def finish(self) -> None:
        with _reported():
            await self._stream.send_eof()


@contextmanager
def _reported() -> Iterator[None]:
    """Raise Unreachable for a connection that is broken."""
    try:
        yield
    except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
        raise Unreachable(str(error)) from error


async def _answered(
    order: Lead, client: trio.SocketStream, parent: trio.SocketStream
) -> trio.SocketStream | None:
    """The server's connection, once the caller has been told of it; None for a refusal."""
    with trio.move_on_after(order.head_within) as patience:
        found = await _head(client)
    refusal: tuple[str, ...]
    if patience.cancelled_caught:
        refusal = ("408 Request Timeout",)
    elif found is None:
        refusal = ("400 Bad Request",)
    elif found[0][0] != "CONNECT":
        refusal = ("405 Method Not Allowed", "Allow: CONNECT")
    elif _place(found[0][1]) != (order.host, order.port):
        refusal = ("403 Forbidden",)
    else:
        server = await _server(parent)
        if server is not None:
            return await _accepted(client, server, found[1])
        refusal = ("502 Bad Gateway",)
    await _refuse(client, *refusal)
    return None


async def _accepted(
    client: trio.SocketStream, server: trio.SocketStream, rest: bytes
) -> trio.SocketStream:
    """The server's connection, with what came behind the request on it."""
    try:
        await client.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await server.send_all(rest)
    except BaseException:
        server.socket.close()
        raise
    return server


async def _server(parent: trio.SocketStream) -> trio.SocketStream | None:
    """The connection to the server; None where the parent has none."""
    await parent.send_all(WANTED)
    _, files = await received(parent.socket, 1, 1)
    if not files:
        return None
    return trio.SocketStream(trio.socket.from_stdlib_socket(as_socket(files[0])))


async def _splice(order: Lead, client: _End, server: _End) -> None:
    with suppress(Unreachable):
        await splice(client, server, idle=order.idle, lingering=order.half_idle)


async def _until_ended(parent: trio.SocketStream) -> None:
    """Wait for the end of the parent's connection, on which nothing more comes."""
    with suppress(trio.BrokenResourceError):
        await parent.receive_some(1)


def _place(target: str) -> tuple[str, int] | None:
    """The host and port that a request names; None where it names none."""
    try:
        parts = urlsplit(f"//{target}")
        plain = parts.netloc == target and "@" not in target
        return (parts.hostname, parts.port) if plain and parts.hostname and parts.port else None
    except ValueError:
        return None


async def _head(client: trio.SocketStream) -> tuple[tuple[str, str], bytes] | None:
    """Method and target of a request, and the bytes after it; None for anything else."""
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > HEAD_LIMIT:
            return None
        more = await client.receive_some(PIECE)
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


async def _refuse(client: trio.SocketStream, status: str, *headers: str) -> None:
    lines = (f"HTTP/1.1 {status}", *headers, "Content-Length: 0", "Connection: close", "", "")
    await client.send_all("\r\n".join(lines).encode("ascii"))
    await client.send_eof()
