"""A TCP relay in front of an API server that counts the bytes: what a peering costs on the wire.

Every byte of every connection is counted, TLS included, which the counters of live sockets do not
give once one is closed. It is a process of its own, so that its CPU is counted as nobody's: some
0.1 ms for each offloaded pod.

    python -m benchmarks.meter COUNTERS PORT PORT…

listens on a free port for each given one. COUNTERS is a file of three unsigned 64-bit integers for
each: the port it listens on, the bytes to the server, the bytes from it.
"""

from __future__ import annotations

import mmap
import resource
import selectors
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.testbed.api import wait_until
from tests.testbed.processes import Child

CHUNK = 262144
HIGH_WATER = 1 << 20
"""Bytes that wait for a reader before its sender is read no more."""
RECORD = struct.Struct("=QQQ")


class Meter:
    """The process, and its counters.

    Args:
        targets: the ports of API servers on `host`.
    """

    def __init__(self, folder: Path, targets: Sequence[int], host: str = "127.0.0.1") -> None:
        path = folder / "meter.counters"
        path.write_bytes(bytes(RECORD.size * len(targets)))
        self._host = host
        self._child = Child(
            "meter",
            [sys.executable, "-m", "benchmarks.meter", str(path), host, *map(str, targets)],
            folder / "meter.log",
            cwd=Path(__file__).parents[1],
        )
        with path.open("rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._index = {target: number for number, target in enumerate(targets)}
        wait_until("the meter", self._is_up, 10)

    def _is_up(self) -> bool:
        self._child.check()
        return all(self._record(target)[0] for target in self._index)

    def _record(self, target: int) -> tuple[int, int, int]:
        listens, out, back = RECORD.unpack_from(self._memory, self._index[target] * RECORD.size)
        return listens, out, back

    def url(self, target: int) -> str:
        """Where to find the server of that port behind it."""
        return f"https://{self._host}:{self._record(target)[0]}"

    def bytes(self) -> tuple[int, int]:
        """Bytes so far, of all servers: to them, and from them."""
        records = [self._record(target) for target in self._index]
        return sum(out for _, out, _ in records), sum(back for _, _, back in records)

    def close(self) -> None:
        """End it."""
        self._child.kill()


class _End:
    """One end of a connection: what it is given to send, and where to count that."""

    def __init__(self, sock: socket.socket, offset: int) -> None:
        self.sock = sock
        self.offset = offset
        self.pending = bytearray()
        self.other: _End = self
        self.ended = False


class _Server:
    """The loop: everything is non-blocking, one connection here is one there."""

    def __init__(self, counters: mmap.mmap, host: str) -> None:
        self._counters = counters
        self._host = host
        self._selector = selectors.DefaultSelector()

    def listen(self, number: int, target: int) -> None:
        """Relay to one server."""
        sock = socket.create_server((self._host, 0), backlog=512)
        sock.setblocking(False)
        self._selector.register(sock, selectors.EVENT_READ, (number, target))
        struct.pack_into("=Q", self._counters, number * RECORD.size, sock.getsockname()[1])

    def run(self) -> None:
        """Relay until killed."""
        while True:
            for key, events in self._selector.select():
                if isinstance(key.data, _End):
                    self._serve(key.data, events)
                else:
                    self._accept(key.fileobj, *key.data)  # type: ignore[arg-type]

    def _accept(self, listener: socket.socket, number: int, target: int) -> None:
        sock, _ = listener.accept()
        try:
            there = socket.create_connection((self._host, target), timeout=2)
        except OSError:
            sock.close()
            return
        start = number * RECORD.size
        # What is sent to the server is counted at its end, and the other way round.
        client, server = _End(sock, start + 16), _End(there, start + 8)
        client.other, server.other = server, client
        for end in (client, server):
            end.sock.setblocking(False)
            end.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(end.sock, selectors.EVENT_READ, end)

    def _serve(self, end: _End, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(end)
            if events & selectors.EVENT_READ and not end.other.ended:
                data = end.sock.recv(CHUNK)
                if not data:
                    self._close(end)
                    return
                end.other.pending += data
                self._flush(end.other)
        except BlockingIOError:
            return
        except OSError:
            self._close(end)

    def _flush(self, end: _End) -> None:
        """Send what waits, and listen for as much as there is room for."""
        if end.pending:
            try:
                sent = end.sock.send(end.pending)
            except BlockingIOError:
                sent = 0
            (before,) = struct.unpack_from("=Q", self._counters, end.offset)
            struct.pack_into("=Q", self._counters, end.offset, before + sent)
            del end.pending[:sent]
        for each in (end, end.other):
            wanted = selectors.EVENT_WRITE if each.pending else 0
            if len(each.other.pending) < HIGH_WATER:
                wanted |= selectors.EVENT_READ
            self._selector.modify(each.sock, wanted, each)

    def _close(self, end: _End) -> None:
        """One end is over: so is the other, as Kubernetes leaves no connection half open."""
        for each in (end, end.other):
            if not each.ended:
                each.ended = True
                self._selector.unregister(each.sock)
                each.sock.close()


def allow_files() -> None:
    """Have this process open as many files as it ever may: a connection is one, or two."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main(arguments: list[str]) -> None:
    """Relay until killed."""
    allow_files()
    path, host, *targets = arguments
    with Path(path).open("r+b") as file:
        server = _Server(mmap.mmap(file.fileno(), 0), host)
    for number, target in enumerate(targets):
        server.listen(number, int(target))
    server.run()


if __name__ == "__main__":
    main(sys.argv[1:])
