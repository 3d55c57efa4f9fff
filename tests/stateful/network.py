"""A network in memory between embedded clusters and daemons: no socket, no thread, no waiting.

Because nothing leaves the process, a clock that jumps whenever every task waits is exact: hours
pass in milliseconds, and the same script takes the same course each time. TLS is as real as the
certificates.
"""

from collections.abc import Sequence
from typing import Any

import trio

from liqod.errors import Unconnected, Unreachable
from liqod.kube.http.wire import KeepAlive

PORT = 6443


class Pipe:
    """Bytes in one direction; without bound, for all its users take what comes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.ended = False
        self._changed = trio.Event()

    def put(self, data: bytes) -> None:
        """Add bytes, unless the pipe has ended."""
        if not self.ended:
            self.data += data
            self.wake()

    def end(self) -> None:
        """No more comes."""
        self.ended = True
        self.wake()

    async def take(self, limit: int) -> bytes:
        """Waits for data, and returns it; ``b""`` at the end."""
        while not self.data and not self.ended:
            await self._changed.wait()
        return self.take_now(limit)

    def take_now(self, limit: int) -> bytes:
        """Returns the data that is there."""
        taken = bytes(self.data[:limit])
        del self.data[:limit]
        return taken

    async def wait(self) -> None:
        """Wait until something is another than now."""
        await self._changed.wait()

    def wake(self) -> None:
        """Have who waits look again."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()


class ServerEnd(trio.abc.HalfCloseableStream):
    """The server's end of a connection."""

    def __init__(self, line: "Line") -> None:
        self._line = line
        self._closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise trio.ClosedResourceError("closed here")
        if self._line.up.ended:
            raise trio.BrokenResourceError("the client is gone")
        self._line.pass_on(self._line.down, bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()
        self._line.down.end()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise trio.ClosedResourceError("closed here")
        return await self._line.up.take(max_bytes or 65536)

    async def aclose(self) -> None:
        self._closed = True
        self._line.down.end()
        self._line.up.end()
        await trio.lowlevel.checkpoint()


class Line:
    """One connection, as the client's wire (:class:`liqod.kube.http.wire.Wire`)."""

    def __init__(self, network: "Network", client: str, host: str) -> None:
        self.up, self.down = Pipe(), Pipe()
        self.ends = (client, host)
        self.lost = False
        self._network = network
        self._patience = KeepAlive()

    def lose(self) -> None:
        """From now on nothing arrives any more; keep-alive notices after its time."""
        self.lost = True
        self.down.wake()

    def acknowledged(self) -> float | None:
        """Seconds since the other host acknowledged anything, as keep-alive has it do."""
        return None if self.lost or self.down.ended else 1.0

    def pass_on(self, pipe: Pipe, data: bytes) -> None:
        """Carry bytes, unless the line is lost."""
        if not self.lost:
            pipe.put(data)

    async def send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.up.ended:
            raise Unreachable("connection broken: Broken pipe")
        self.pass_on(self.up, data)

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self.lost:
            if self.down.data or self.down.ended:
                return self.down.take_now(1 << 18)
            await self.down.wait()
        setting = self._patience
        await trio.sleep(setting.idle + setting.interval * setting.count)
        raise Unreachable("connection broken: Connection timed out")

    def stale(self) -> bool:
        return bool(self.down.data) or self.down.ended

    def keep_alive(self, setting: KeepAlive) -> None:
        self._patience = setting

    async def finish(self) -> None:
        if not self.lost:
            self.up.end()

    def close(self) -> None:
        self._network.lines.discard(self)
        if not self.lost:
            self.up.end()
        self.down.end()


class Listener(trio.abc.Listener[ServerEnd]):
    """Where a server waits for connections."""

    def __init__(self, network: "Network", host: str) -> None:
        self._network = network
        self._host = host
        self.coming, self._accepted = trio.open_memory_channel[ServerEnd](1000)

    async def accept(self) -> ServerEnd:
        return await self._accepted.receive()

    async def aclose(self) -> None:
        self._network.close(self._host, self)
        await trio.lowlevel.checkpoint()


class Network:
    """The network: the clients and servers that can reach each other.

    Attributes:
        lines: the connections there are.
        cut: pairs of client and host between which nothing arrives.
        dead: processes that have ceased to be; what they send arrives nowhere.
    """

    def __init__(self) -> None:
        self.lines: set[Line] = set()
        self.cut: set[tuple[str, str]] = set()
        self.dead: set[str] = set()
        self._listeners: dict[str, list[Listener]] = {}

    async def listen(self, port: int, *, host: str, backlog: int) -> Sequence[Listener]:
        """As :func:`trio.open_tcp_listeners`; of several that listen there the last is asked."""
        await trio.lowlevel.checkpoint()
        found = Listener(self, host)
        self._listeners.setdefault(host, []).append(found)
        return [found]

    def close(self, host: str, listener: Listener) -> None:
        """That one listens there no more."""
        listening = self._listeners.get(host, [])
        if listener in listening:
            listening.remove(listener)

    def dialer(self, client: str) -> Any:
        """Returns a client's dialer (:class:`liqod.kube.http.proxies.Dial`)."""

        async def dial(host: str, port: int, /) -> Line:
            await trio.lowlevel.checkpoint()
            if client in self.dead or self._is_cut(client, host):
                await trio.sleep_forever()
            listening = self._listeners.get(host)
            if not listening:
                raise Unconnected("cannot connect: Connection refused")
            listener = listening[-1]
            line = Line(self, client, host)
            self.lines.add(line)
            try:
                listener.coming.send_nowait(ServerEnd(line))
            except (trio.WouldBlock, trio.BrokenResourceError):
                raise Unconnected("cannot connect: Connection refused") from None
            return line

        return dial

    def part(self, client: str, host: str) -> None:
        """Nothing passes between them any more, on old connections neither.

        Args:
            client: a process, or all the processes of a cluster.
            host: what it does not reach.
        """
        self.cut.add((client, host))
        for line in list(self.lines):
            if self._is_cut(*line.ends):
                line.lose()

    def _is_cut(self, client: str, host: str) -> bool:
        return not self.cut.isdisjoint({(client, host), (_name(client), host)})

    def join(self, client: str, host: str) -> None:
        """They reach each other again; what was lost stays lost."""
        self.cut.discard((client, host))

    def kill(self, client: str) -> None:
        """The client's process ends here and now: its host closes what it had open."""
        self.dead.add(client)
        for line in list(self.lines):
            if line.ends[0] == client:
                line.close()


def _name(client: str) -> str:
    """Returns the name of a client's process, which is the same after a restart."""
    return client.partition("#")[0]
