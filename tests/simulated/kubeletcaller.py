"""A caller of a virtual node's kubelet API: what this cluster's API server is to it."""

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import trio

from liqod.identity import certificates
from liqod.identity.certificates import Pair
from liqod.kube.http import tls
from liqod.kube.http.wire import TlsWire, connect

SPDY = (
    "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    "X-Stream-Protocol-Version: v4.channel.k8s.io\r\nX-Stream-Protocol-Version: channel.k8s.io\r\n"
)
WEBSOCKET = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Protocol: v5.channel.k8s.io, v4.channel.k8s.io\r\n"
)
EXEC = "/exec/shop/web/web?command=sh&command=-c&command=echo+%26+%2Fx&input=1&output=1"


@dataclass
class Answer:
    """An answer: the head, the body after it, and the connection."""

    status: int
    headers: dict[str, str]
    body: bytes
    wire: TlsWire

    async def line(self) -> dict[str, Any]:
        """The first line behind the head, as JSON: what the peer was asked for."""
        while b"\n" not in self.body:
            data = await self.wire.receive()
            assert data
            self.body += data
        line, _, self.body = self.body.partition(b"\n")
        return dict(json.loads(line))

    async def rest(self) -> bytes:
        """Everything to the end."""
        while data := await self.wire.receive():
            self.body += data
        return self.body


@dataclass
class Caller:
    """This cluster's API server, as far as a virtual node sees it."""

    port: int
    authority: Pair

    def context(self, *groups: str, name: str = "kube-apiserver") -> ssl.SSLContext:
        pair = certificates.make_client(self.authority, name, groups)
        context = self.anonymous()
        tls.load_chain(context, pair.certificate, pair.key)
        return context

    def anonymous(self) -> ssl.SSLContext:
        """Of somebody who shows no certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    @asynccontextmanager
    async def ask(
        self, target: str, more: str = "", *, method: str = "POST", of: ssl.SSLContext | None = None
    ) -> AsyncIterator[Answer]:
        """Send a request, and read the head of its answer."""
        wire = TlsWire(await connect("127.0.0.1", self.port), of or self.masters, "x")
        try:
            await wire.handshake()
            await wire.send(f"{method} {target} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode())
            data = b""
            with trio.fail_after(20):
                while b"\r\n\r\n" not in data:
                    came = await wire.receive()
                    assert came, data
                    data += came
            head, _, body = data.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            pairs = (line.split(": ", 1) for line in lines)
            found = {name.lower(): value for name, value in pairs}
            while len(body) < int(found.get("content-length", "0")):
                body += await wire.receive()
            yield Answer(int(first.split(" ")[1]), found, body, wire)
        finally:
            wire.close()

    def __post_init__(self) -> None:
        self.masters = self.context("system:masters")
