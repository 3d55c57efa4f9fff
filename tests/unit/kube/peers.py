"""API servers made of memory: they answer what a test says, over streams that need no port."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import trio
import trio.testing

from liqod.errors import Unconnected, Unreachable
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http.wire import KeepAlive

CREDENTIALS = Credentials(server="http://api.test:8080")


class MemoryWire:
    """A wire over a memory stream."""

    def __init__(self, stream: "trio.StapledStream[Any, Any]") -> None:
        self.stream = stream
        self.closed = False
        self.dead = False
        self.setting: KeepAlive | None = None

    async def send(self, data: bytes) -> None:
        if self.dead:
            raise Unreachable("connection broken: reset")
        try:
            await self.stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise Unreachable("connection broken: reset") from error

    async def receive(self) -> bytes:
        try:
            return bytes(await self.stream.receive_some(65536))
        except trio.BrokenResourceError as error:
            raise Unreachable("connection broken: reset") from error

    def stale(self) -> bool:
        return self.dead

    def keep_alive(self, setting: KeepAlive) -> None:
        self.setting = setting

    async def finish(self) -> None:
        await self.stream.send_eof()

    def close(self) -> None:
        self.closed = True
        self.stream.send_stream.close()
        self.stream.receive_stream.close()


class Asked:
    """One request as the server got it, and the ways to answer it."""

    def __init__(self, conn: "Conn", head: str, body: bytes) -> None:
        first, *lines = head.split("\r\n")
        self.conn = conn
        self.method, target, _ = first.split(" ")
        self.path, _, query = target.partition("?")
        self.query = {name: values[0] for name, values in parse_qs(query).items()}
        self.headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines)
        }
        self.body = body

    def json(self) -> Any:
        return json.loads(self.body)

    async def reply(self, status: int = 200, value: Any = None, **headers: str) -> None:
        """A whole answer; ``value`` is bytes or becomes JSON."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        lines = [f"HTTP/1.1 {status} x", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
        await self.conn.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def refuse(self, code: int, reason: str = "", message: str = "", **more: Any) -> None:
        """A ``metav1.Status``."""
        headers = more.pop("headers", {})
        status = {"kind": "Status", "code": code, "reason": reason, "message": message, **more}
        await self.reply(code, status, **headers)

    async def begin(self) -> None:
        """The head of an answer that comes in chunks."""
        await self.conn.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        await self.conn.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, kind: str, obj: Any) -> None:
        """A line of a watch."""
        await self.chunk(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    async def bookmark(self, version: int | str, *, initial_end: bool = False) -> None:
        annotations = {"k8s.io/initial-events-end": "true"} if initial_end else {}
        meta = {"resourceVersion": str(version), "annotations": annotations}
        await self.event("BOOKMARK", {"metadata": meta})

    async def end(self) -> None:
        await self.conn.send(b"0\r\n\r\n")


class Conn:
    """The server's end of a connection."""

    def __init__(self, stream: "trio.StapledStream[Any, Any]", wire: MemoryWire) -> None:
        self._stream = stream
        self._sending = trio.Lock()
        self.sent = 0
        self.wire = wire
        self.buffer = b""

    async def send(self, data: bytes) -> None:
        async with self._sending:
            await self._stream.send_all(data)
            self.sent += len(data)

    def close(self) -> None:
        """Close; the client, if idle, can notice."""
        self.wire.dead = True
        self._stream.send_stream.close()
        self._stream.receive_stream.close()

    def drop(self) -> None:
        """Close without the client being able to notice before it tries."""
        self._stream.send_stream.close()

    async def next(self) -> Asked | None:
        while b"\r\n\r\n" not in self.buffer:
            data = bytes(await self._stream.receive_some(65536))
            if not data:
                return None
            self.buffer += data
        head, _, rest = self.buffer.partition(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        while len(rest) < length:
            rest += bytes(await self._stream.receive_some(65536))
        self.buffer = rest[length:]
        return Asked(self, head.decode("latin-1"), rest[:length])


Answer = Callable[[Asked], Awaitable[None]]


class Peer:
    """A server; ``answer`` is called for each request.

    Attributes:
        asked: every request, in order.
        conns: every connection, in order.
    """

    def __init__(self, nursery: trio.Nursery, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.conns: list[Conn] = []
        self.refusing = False
        self._nursery = nursery

    async def dial(self, host: str, port: int) -> MemoryWire:
        await trio.lowlevel.checkpoint()
        assert (host, port) == ("api.test", 8080)
        if self.refusing:
            raise Unconnected("cannot connect: Connection refused")
        ours, theirs = trio.testing.memory_stream_pair()
        wire = MemoryWire(ours)
        conn = Conn(theirs, wire)
        self.conns.append(conn)
        self._nursery.start_soon(self._serve, conn)
        return wire

    async def _serve(self, conn: Conn) -> None:
        try:
            while (asked := await conn.next()) is not None:
                self.asked.append(asked)
                await self.answer(asked)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


@asynccontextmanager
async def peer(answer: Answer, **more: Any) -> AsyncIterator[tuple[Peer, Client]]:
    """A server and a client of it."""
    async with trio.open_nursery() as nursery:
        server = Peer(nursery, answer)
        credentials = more.pop("credentials", CREDENTIALS)
        async with Client(credentials, dial=server.dial, **more) as client:
            yield server, client
        nursery.cancel_scope.cancel()


def pod(name: str, namespace: str = "a", version: int | str = 1, **more: Any) -> dict[str, Any]:
    """A small object as a server sends it, ``managedFields`` and all."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "managedFields": [{"manager": "x"}],
        },
        **more,
    }


def listing(items: list[dict[str, Any]], version: int | str = 1, token: str = "") -> dict[str, Any]:
    """A list as a server sends it: items do not say what they are."""
    bare = [{k: v for k, v in item.items() if k not in ("kind", "apiVersion")} for item in items]
    meta = {"resourceVersion": str(version), "continue": token}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": bare}


class Steps(trio.abc.Instrument):
    """Counts the steps that tasks take."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


async def silent(asked: Asked) -> bool:
    """Begins an answer and never goes on: a watch that falls silent."""
    await asked.begin()
    await trio.sleep_forever()
    return True
