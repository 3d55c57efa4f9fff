"""A relay in front of an API server, `python -m tests.testbed.relay`: breaks traffic on purpose.

It ends TLS with a certificate of the cluster's own authority and asks the API server on behalf of
anyone who asked: a client certificate is passed on as impersonation by an administrator, a bearer
token as it is. So both sides see what they would see without it, until it is told to misbehave;
`relays` holds the other end of its control socket.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import trio

from liqod.errors import LiqodError
from liqod.kube.http.connection import Head, HttpConnection
from liqod.kube.http.parser import HttpRequest, Limits, RequestParser
from liqod.kube.http.wire import TlsWire, connect
from tests.testbed import wirefaults
from tests.testbed.wirefaults import Trouble

CHUNK = 65536
TRICKLE = 0.05
"""Seconds between the drops of an answer that trickles."""
FLOOD_PIECE = 262144
OWN_HEADERS = frozenset({"connection", "content-length", "transfer-encoding", "host", "keep-alive"})


class Settings(msgspec.Struct):
    """The relay's place: files in PEM, and the server behind it."""

    server: str
    authority: str
    certificate: str
    key: str
    admin_certificate: str
    admin_key: str


class Command(msgspec.Struct):
    """Command to the control socket: a list of troubles from now on, and if it is to play dead."""

    troubles: list[Trouble] = []
    frozen: bool = False
    refusing: bool = False
    cut: bool = False
    forgetting: bool = False


class _Over(Exception):
    """The connection to the client ends here."""


class Relay:
    """One relay: the listener, its connections, and what is wrong now."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._serving = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cafile=settings.authority
        )
        self._serving.load_cert_chain(settings.certificate, settings.key)
        self._serving.verify_mode = ssl.CERT_OPTIONAL
        self._asking = ssl.create_default_context(cafile=settings.authority)
        self._asking.load_cert_chain(settings.admin_certificate, settings.admin_key)
        self._bearing = ssl.create_default_context(cafile=settings.authority)
        self._command = Command()
        self._open = trio.Event()
        self._open.set()
        self._connections: set[trio.CancelScope] = set()
        self._listening = trio.CancelScope()
        self._closed = trio.Event()
        self._nursery: trio.Nursery | None = None
        self.port = 0
        self.requests = 0

    # What is wrong

    async def obey(self, command: Command) -> None:
        """Apply a command from now on."""
        was, self._command = self._command, command
        if command.frozen and self._open.is_set():
            self._open = trio.Event()
        if not command.frozen:
            self._open.set()
        if command.refusing or command.cut or command.forgetting:
            for scope in set(self._connections):
                scope.cancel()
        if command.refusing and not was.refusing:
            self._listening.cancel()
            await self._closed.wait()
        if was.refusing and not command.refusing:
            assert self._nursery is not None
            await self._nursery.start(self._listen)

    def trouble(self, verb: str, path: str) -> Trouble | None:
        """Applies the first trouble that matches a request, and returns it."""
        found = next((each for each in self._command.troubles if each.matches(verb, path)), None)
        if found is not None:
            found.strike()
        return found

    def has(self, trouble: Trouble) -> bool:
        """True if that trouble is still active."""
        return any(each is trouble for each in self._command.troubles)

    async def gate(self) -> None:
        """Wait while frozen."""
        await self._open.wait()

    # Serving

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as self._nursery:
            await self._nursery.start(self._listen)
            task_status.started()
            await trio.sleep_forever()

    async def _listen(self, *, task_status: trio.TaskStatus[None]) -> None:
        listeners = await trio.open_tcp_listeners(self.port, host="127.0.0.1", backlog=512)
        self.port = listeners[0].socket.getsockname()[1]
        self._closed = trio.Event()
        with trio.CancelScope() as self._listening:
            task_status.started()
            nursery = self._nursery
            await trio.serve_listeners(self._welcome, listeners, handler_nursery=nursery)
        for listener in listeners:
            listener.socket.close()
        self._closed.set()

    async def _welcome(self, raw: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            self._connections.add(scope)
            await self.gate()
            stream = trio.SSLStream(raw, self._serving, server_side=True)
            broken = (trio.BrokenResourceError, trio.ClosedResourceError, OSError, ssl.SSLError)
            with contextlib.suppress(_Over, LiqodError, *broken):
                await stream.do_handshake()
                await _Client(self, stream).run()
        self._connections.discard(scope)
        if scope.cancelled_caught and self._command.forgetting:
            await trio.sleep_forever()  # it stays open, and nothing goes over it any more
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(raw)

    async def upstream(self, *, bearing: bool) -> HttpConnection:
        """A connection to the API server: the administrator's, or nobody's for a bearer token."""
        parts = urlsplit(self._settings.server)
        wire = await connect(parts.hostname or "", parts.port or 443)
        context = self._bearing if bearing else self._asking
        secured = TlsWire(wire, context, parts.hostname or "")
        await secured.handshake()
        return HttpConnection(secured)


class _Client:
    """One client's connection, and the connection behind it."""

    def __init__(self, relay: Relay, stream: trio.SSLStream[trio.SocketStream]) -> None:
        self._relay = relay
        self._stream = stream
        self._inbox = RequestParser(Limits(body=16 << 20))
        self._behind: HttpConnection | None = None
        self._left: int | None = None
        self._rate = 0

    async def run(self) -> None:
        """Answer until either side closes."""
        try:
            while (request := await self._next()) is not None:
                self._relay.requests += 1
                await self._relay.gate()
                await self._serve(request)
        finally:
            if self._behind is not None:
                self._behind.close()

    async def _next(self) -> HttpRequest | None:
        while not self._inbox.ready:
            data = await self._stream.receive_some(CHUNK)
            if not data or self._inbox.fault:
                return None
            self._inbox.feed(data)
        return self._inbox.ready.popleft()

    async def _serve(self, request: HttpRequest) -> None:
        verb = wirefaults.verb_of(request.method, request.query)
        trouble = self._relay.trouble(verb, request.path) or Trouble()
        self._left, self._rate = trouble.stall, trouble.rate
        if trouble.delay:
            await trio.sleep(trouble.delay)
        if trouble.silent:
            await trio.sleep_forever()
        if trouble.status:
            await self._whole(*wirefaults.refusal(trouble))
        elif trouble.garbage == "bytes":
            await self._send(wirefaults.NOT_HTTP)
            raise _Over
        elif trouble.garbage in ("json", "kind"):
            text = wirefaults.BROKEN_JSON if trouble.garbage == "json" else wirefaults.OTHER_KIND
            await self._whole(200, {"content-type": "application/json"}, text)
        elif verb == "watch":
            await self._watch(request, trouble)
        else:
            await self._pass_on(request, trouble)

    # Asking the API server

    async def _ask(self, request: HttpRequest) -> tuple[HttpConnection, Head]:
        certificate = self._stream.getpeercert()
        bearing = not certificate
        if self._behind is None or not self._behind.reusable:
            self._behind = await self._relay.upstream(bearing=bearing)
        query = urlencode(request.query, doseq=True)
        target = quote(request.path) + (f"?{query}" if query else "")
        lines = [f"{request.method} {target} HTTP/1.1", "Host: relay"]
        named = {name: text for name, text in request.headers.items() if name not in OWN_HEADERS}
        lines += [f"{name}: {text}" for name, text in named.items()]
        lines += [] if not certificate else _impersonation(certificate)
        lines.append(f"Content-Length: {len(request.body)}")
        whole = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + request.body
        return self._behind, await self._behind.exchange(whole)

    async def _pass_on(self, request: HttpRequest, trouble: Trouble) -> None:
        connection, head = await self._ask(request)
        body = await connection.body(64 << 20)
        if trouble.garbage == "chunk":
            await self._begin(head.status, head.headers)
            await self._chunk(body[: len(body) // 2])
            await self._send(wirefaults.BAD_CHUNK)
            raise _Over
        await self._whole(head.status, head.headers, body)

    async def _watch(self, request: HttpRequest, trouble: Trouble) -> None:
        connection, head = await self._ask(request)
        await self._begin(head.status, head.headers)
        seconds = trouble.cut if trouble.cut is not None else trouble.expire
        shown: list[bytes] = []
        with trio.move_on_after(float("inf") if seconds is None else seconds) as patience:
            async for lines in _lines(connection):
                await self._chunk(b"".join(lines))
                if trouble.garbage == "chunk":
                    await self._send(wirefaults.BAD_CHUNK)
                    raise _Over
                shown += [line for line in lines if b'"ADDED"' in line or b'"MODIFIED"' in line]
                if trouble.flood and shown:
                    await self._flood(wirefaults.variants(shown, trouble.flood), trouble)
        if patience.cancelled_caught and trouble.expire is not None:
            await self._chunk(wirefaults.expiry())
        elif patience.cancelled_caught:
            raise _Over
        await self._send(b"0\r\n\r\n")
        raise _Over

    async def _flood(self, events: bytes, trouble: Trouble) -> None:
        """Send them again and again until that is no more the trouble."""
        while True:
            for start in range(0, len(events), FLOOD_PIECE):
                if not self._relay.has(trouble):
                    raise _Over
                await self._chunk(events[start : start + FLOOD_PIECE])

    # Answering the client

    async def _whole(self, status: int, headers: dict[str, str], body: bytes) -> None:
        await self._send(_head(status, headers, f"content-length: {len(body)}") + body)

    async def _begin(self, status: int, headers: dict[str, str]) -> None:
        await self._send(_head(status, headers, "transfer-encoding: chunked"))

    async def _chunk(self, data: bytes) -> None:
        if data:
            await self._send(b"%x\r\n%b\r\n" % (len(data), data))

    async def _send(self, data: bytes) -> None:
        """Send it, as slowly and as far as the trouble of this request says."""
        if self._left is not None:
            part, self._left = data[: self._left], max(0, self._left - len(data))
            await self._relay.gate()
            await self._stream.send_all(part)
            if len(part) < len(data):
                await trio.sleep_forever()
            return
        step = max(1, int(self._rate * TRICKLE)) if self._rate else len(data) or 1
        for start in range(0, len(data), step):
            await self._relay.gate()
            await self._stream.send_all(data[start : start + step])
            if self._rate:
                await trio.sleep(TRICKLE)


async def _lines(connection: HttpConnection) -> AsyncIterator[list[bytes]]:
    """The events of a watch, whole lines at a time."""
    rest = b""
    while data := await connection.chunk():
        *whole, rest = (rest + data).split(b"\n")
        if whole:
            yield [line + b"\n" for line in whole]


def _head(status: int, headers: dict[str, str], framing: str) -> bytes:
    kept = {name: text for name, text in headers.items() if name not in OWN_HEADERS}
    lines = [f"HTTP/1.1 {status} Relayed", *(f"{name}: {text}" for name, text in kept.items())]
    return "\r\n".join([*lines, framing]).encode("latin-1") + b"\r\n\r\n"


def _impersonation(certificate: dict[str, object]) -> list[str]:
    """The headers that say whose certificate it was."""
    subject = certificate.get("subject", ())
    assert isinstance(subject, tuple)
    pairs = [pair for part in subject for pair in part]
    names = {"commonName": "Impersonate-User", "organizationName": "Impersonate-Group"}
    return [f"{names[key]}: {text}" for key, text in pairs if key in names]


async def control(relay: Relay, path: str) -> None:
    """Obey what the socket says, a JSON line at a time; each is answered when it is so."""
    listening = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    await listening.bind(path)
    listening.listen(1)

    async def converse(stream: trio.SocketStream) -> None:
        rest = b""
        while data := await stream.receive_some(CHUNK):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                command = msgspec.json.decode(line, type=Command | None)
                if command is not None:
                    await relay.obey(command)
                told = {"port": relay.port, "requests": relay.requests}
                await stream.send_all(msgspec.json.encode(told) + b"\n")

    await trio.serve_listeners(converse, [trio.SocketListener(listening)])


async def serve(settings: Settings, path: str) -> None:
    """Relay until cancelled."""
    relay = Relay(settings)
    async with trio.open_nursery() as nursery:
        await nursery.start(relay.run)
        await control(relay, path)


def main(arguments: list[str]) -> None:
    """Runs until it is asked to end."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed.relay")
    parser.add_argument("settings", type=Path, help="JSON file")
    parser.add_argument("control", help="path of the control socket")
    chosen = parser.parse_args(arguments)
    settings = msgspec.json.decode(chosen.settings.read_bytes(), type=Settings)
    trio.run(serve, settings, chosen.control)


if __name__ == "__main__":
    main(sys.argv[1:])
