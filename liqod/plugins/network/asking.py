"""Probes the other side's WireGuard at several endpoints at once.

From sockets of its own, which are gone afterwards: the tunnel's packets are not touched.
"""

import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address

import trio

from liqod.identity.noiseprobe import NoiseProbe, make_probe
from liqod.identity.tunnelkeys import TunnelKeys
from liqod.model.endpoints import join
from liqod.plugins.network.endpointselection import parted
from liqod.plugins.providers import Host

AGAIN = 0.2
"""Seconds after which all are probed once more: a datagram may be lost."""
APART = 0.03
"""Seconds between two questions of which each is to be answered: WireGuard passes over those of one
key that come within 20 ms."""
LOOKED = 0.03
"""Seconds between two checks that the tunnel itself works meanwhile."""
LARGEST = 256
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


class Asking:
    """Probes one peer's WireGuard at its endpoints, from one network namespace.

    Args:
        host: of the daemon.
        underlay: the network namespace of the probes.
        mark: firewall mark of its packets; 0 for none.
        keys: the keys of the probes.
        peer: public key of the peer that is probed.
    """

    def __init__(self, host: Host, underlay: str, mark: int, keys: TunnelKeys, peer: bytes) -> None:
        self._host, self._underlay, self._mark = host, underlay, mark
        self._keys, self._peer = keys, peer
        self._questions: dict[bytes, NoiseProbe] = {}
        self._answered: list[str] = []
        self._received = trio.Event()

    async def first(
        self, endpoints: Sequence[str], seconds: float, done: Callable[[], Awaitable[bool]]
    ) -> str:
        """The endpoint at which the first answer comes; empty where none does in time.

        Args:
            endpoints: ``address:port``.
            seconds: the time to wait.
            done: True if the result is not needed any more.
        """
        async with self._sockets(endpoints) as sockets:
            end = trio.current_time() + seconds
            asked = -AGAIN
            while trio.current_time() < end and not self._answered and not await done():
                if trio.current_time() >= asked + AGAIN:
                    # One question for all: the one that is there first is answered.
                    asked, now = trio.current_time(), self._question()
                    for each in endpoints:
                        await _send(sockets, now, each)
                with trio.move_on_after(LOOKED):
                    await self._received.wait()
        return next(iter(self._answered), "")

    async def every(self, endpoints: Collection[str], seconds: float) -> list[str]:
        """All endpoints at which answers come in time."""
        async with self._sockets(endpoints) as sockets:
            for each in endpoints:
                await _send(sockets, self._question(), each)
                await trio.sleep(APART)
            with trio.move_on_after(seconds):
                while len(self._answered) < len(endpoints):
                    self._received = trio.Event()
                    await self._received.wait()
        return self._answered

    def _question(self) -> bytes:
        made = make_probe(self._keys, self._peer, time.time_ns())
        self._questions[made.index] = made
        return made.datagram

    @asynccontextmanager
    async def _sockets(
        self, endpoints: Collection[str]
    ) -> AsyncIterator[dict[int, trio.socket.SocketType]]:
        """A socket of each family, at which answers are received meanwhile."""
        self._questions, self._answered, self._received = {}, [], trio.Event()
        names = {plain(each): each for each in endpoints}
        sockets: dict[int, trio.socket.SocketType] = {}
        try:
            async with trio.open_nursery() as nursery:
                for version in sorted({ip_address(parted(each)[0]).version for each in endpoints}):
                    opened = partial(_opened, version, self._mark)
                    try:
                        made = await self._host.within(self._underlay, opened)
                    except OSError:
                        continue  # a machine without that family reaches nobody by it
                    sockets[version] = trio.socket.from_stdlib_socket(made)
                    nursery.start_soon(self._receive, sockets[version], names)
                yield sockets
                nursery.cancel_scope.cancel()
        finally:
            for each in sockets.values():
                each.close()

    async def _receive(self, sock: trio.socket.SocketType, names: dict[str, str]) -> None:
        while True:
            try:
                data, origin = await sock.recvfrom(LARGEST)
            except OSError:
                continue  # of an earlier datagram: nobody is there
            name = names.get(plain(join(str(origin[0]), int(origin[1]))), "")
            asked = self._questions.get(data[8:12])
            if name and name not in self._answered and asked and asked.is_answer(data):
                self._answered.append(name)
                self._received.set()


def plain(endpoint: str) -> str:
    """An endpoint as it is always written."""
    address, port = parted(endpoint)
    return join(str(ip_address(address)), port)


def _opened(version: int, mark: int) -> socket.socket:
    made = socket.socket(_FAMILIES[version], socket.SOCK_DGRAM)
    try:
        if mark:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
        made.bind(("", 0))
    except BaseException:
        made.close()
        raise
    return made


async def _send(sockets: dict[int, trio.socket.SocketType], datagram: bytes, endpoint: str) -> None:
    address, port = parted(endpoint)
    sock = sockets.get(ip_address(address).version)
    if sock is None:
        return
    try:
        await sock.sendto(datagram, (address, port))
    except OSError:
        return  # no route there: as good as silence
