"""Hosts on a TCP connection's path: a relay, an HTTP proxy, a host that ends TLS."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from liqod.network.dataplane.kernel.namespaces import inside


class Relay:
    """Passes connections on to a server, in the network namespace where it runs.

    Attributes:
        came: what each connection's client has sent.
    """

    def __init__(self, namespace: str, to: tuple[str, int]) -> None:
        self.namespace, self.to = namespace, to
        self.came: list[bytearray] = []

    @asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[None]:
        """Stands at a port meanwhile."""
        made = await inside(self.namespace, partial(socket.create_server, ("", port)))
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(made))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._serve, [listener])
            yield
            nursery.cancel_scope.cancel()

    async def _serve(self, stream: trio.SocketStream) -> None:
        try:
            async with stream:
                await self.serve(stream)
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def serve(self, stream: trio.abc.Stream) -> None:
        await self.between(stream, *self.to)

    async def pass_on(self, data: bytes, seen: int, there: trio.abc.Stream) -> None:
        """Pass on what came of the server, with which so many bytes have come."""
        await there.send_all(data)

    async def between(self, one: trio.abc.Stream, host: str, port: int) -> None:
        """Pass on what comes from either side until one ends it."""
        dial = partial(socket.create_connection, (host, port), 5)
        made = await inside(self.namespace, dial)
        other = trio.SocketStream(trio.socket.from_stdlib_socket(made))
        seen = bytearray()
        self.came.append(seen)
        async with other, trio.open_nursery() as nursery:

            async def pump(here: trio.abc.Stream, there: trio.abc.Stream, note: bytearray) -> None:
                while data := await here.receive_some(1 << 16):
                    note += data
                    if here is other:
                        await self.pass_on(bytes(data), len(note), there)
                    else:
                        await there.send_all(data)
                nursery.cancel_scope.cancel()

            nursery.start_soon(pump, one, other, seen)
            nursery.start_soon(pump, other, one, bytearray())


class Proxy(Relay):
    """An HTTP proxy that knows CONNECT.

    Args:
        namespace: where it runs.
        user: ``user:password`` that it wants; empty for none.
        tls: how it speaks TLS itself; None for not at all.
    """

    def __init__(self, namespace: str, user: str = "", tls: ssl.SSLContext | None = None) -> None:
        super().__init__(namespace, ("", 0))
        self.user, self.tls = user, tls
        self.asked: list[str] = []

    async def serve(self, stream: trio.abc.Stream) -> None:
        if self.tls is not None:
            stream = trio.SSLStream(stream, self.tls, server_side=True, https_compatible=True)
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive_some(1)
        lines = head.decode().split("\r\n")
        self.asked.append(lines[0])
        wanted = "Proxy-Authorization: Basic " + base64.b64encode(self.user.encode()).decode()
        if self.user and wanted not in lines:
            await stream.send_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        host, _, port = lines[0].split()[1].rpartition(":")
        await stream.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self.between(stream, host.strip("[]"), int(port))


class Spoiler(Relay):
    """Slips some bytes of its own into what a server sends, after so many of the server's.

    Attributes:
        spoiled: how many connections.
    """

    after = 20_000
    spoiled = 0

    async def pass_on(self, data: bytes, seen: int, there: trio.abc.Stream) -> None:
        if seen - len(data) < self.after <= seen:
            self.spoiled += 1
            data += bytes.fromhex("1703030020") + bytes(32)
        await there.send_all(data)


class Interceptor(Relay):
    """Ends TLS with a certificate of its own, and would read along.

    Attributes:
        read: what it could read.
    """

    def __init__(self, namespace: str, to: tuple[str, int], tls: ssl.SSLContext) -> None:
        super().__init__(namespace, to)
        self.tls = tls
        self.read = bytearray()

    async def serve(self, stream: trio.abc.Stream) -> None:
        ended = trio.SSLStream(stream, self.tls, server_side=True, https_compatible=True)
        while data := await ended.receive_some(1 << 16):
            self.read += data
