"""The probes of one tunnel in the tunnels' process, between its parent and the wire.

The parent opens sockets, and gets verdicts. They last as long as its connection.
"""

import socket
from typing import Final, NoReturn, get_args

import trio

from liqod.runtime.gather import either
from liqod.sharedport import as_socket, received
from liqod.tunnel.dialsockets import close_all
from liqod.tunnel.probes import orders
from liqod.tunnel.probes.echoes import Echoes
from liqod.tunnel.probes.messages import Message, ProbeResult
from liqod.tunnel.probes.orders import Given, Judged, ProbeOrder, SocketKind, Told, Wants
from liqod.tunnel.probes.prober import PeerProber

KINDS: Final[tuple[SocketKind, ...]] = get_args(SocketKind)


class ProbeAttendance:
    """The probes that one connection of the parent's has ordered.

    Args:
        order: the tunnel.
        parent: the connection.
    """

    def __init__(self, order: ProbeOrder, parent: trio.SocketStream) -> None:
        self._parent, self._hello = parent, order.hello
        known = (order.peer_id, order.own, order.other, order.port)
        self._prober = PeerProber(*known, self, self._on_result, lambda: self._hello)
        self._wanted: dict[SocketKind, None] = {}
        self._result: ProbeResult | None = None
        """The newest that was not sent yet."""
        self._news = trio.Event()
        opened = {kind: trio.open_memory_channel[socket.socket | str](1) for kind in KINDS}
        self._gives = {kind: given for kind, (given, _) in opened.items()}
        self._takes = {kind: taken for kind, (_, taken) in opened.items()}

    async def run(self) -> None:
        """Probe until the parent's connection ends. Raises ValueError: it sends nonsense."""
        await either(self._send, self._prober.run, self._receive)

    async def probes(self) -> socket.socket:
        """As :meth:`.prober.ProbeSockets.probes`."""
        return await self._socket("probes")

    async def echoes(self) -> Echoes:
        """As :meth:`.prober.ProbeSockets.echoes`."""
        return Echoes(await self._socket("echoes"))

    async def _socket(self, kind: SocketKind) -> socket.socket:
        """A socket that the parent opens. Raises OSError: it has none, and why."""
        self._wanted[kind] = None
        self._news.set()
        given = await self._takes[kind].receive()
        if isinstance(given, str):
            raise OSError(given)
        return given

    def _on_result(self, result: ProbeResult) -> None:
        self._result = result
        self._news.set()

    async def _send(self) -> NoReturn:
        """Send the newest verdict, and what is wanted; of verdicts in between nobody hears."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            wanted, result = list(self._wanted), self._result
            self._wanted, self._result = {}, None
            for kind in wanted:
                await self._parent.send_all(orders.encoded(Wants(kind)))
            if result is not None:
                await self._parent.send_all(orders.encoded(judged(result, trio.current_time())))

    async def _receive(self) -> None:
        data, files = b"", list[int]()
        try:
            while True:
                part, along = await received(self._parent.socket, orders.MOST_TOLD, 1)
                files += along
                if not part:
                    return
                *lines, data = (data + part).split(b"\n")
                for line in lines:
                    self._take(orders.to_probes(line), files)
                if len(data) > orders.MOST_TOLD:
                    raise ValueError("the parent's message has no end")
        finally:
            close_all(files)

    def _take(self, message: orders.ToProbes, files: list[int]) -> None:
        match message:
            case Told(hello):
                self._hello = hello
            case Given(kind, why):
                given = why or as_socket(files.pop(0))
                try:
                    self._gives[kind].send_nowait(given)
                except trio.WouldBlock:  # it was wanted twice
                    if not isinstance(given, str):
                        given.close()


def judged(result: ProbeResult, now: float) -> Judged:
    """A verdict as a message.

    Args:
        result: the verdict.
        now: by the clock of its times.
    """
    age, hello = now - result.last_request, result.hello
    return Judged(
        alive=result.alive,
        latency=result.latency,
        lost=result.lost,
        why=result.why[:512],
        requested=age if age < float("inf") else None,
        said=Message(
            podAddress=hello.pod_address,
            seenAs=hello.seen_as,
            pod=hello.own.pod,
            external=hello.own.external,
            websocket=hello.websocket,
        ),
    )
