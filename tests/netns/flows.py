"""A steady flow of packets between pods, of which is known when each came back."""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import trio

from liqod.network.dataplane.kernel import namespaces
from tests.netns.lab import Pod, checksum
from tests.simulated.borrower import eventually
from tests.testbed.api import BUSY

SO_RCVBUFFORCE = 33
"""Of `asm-generic/socket.h`."""
EVERY = 0.01
"""Seconds between two packets."""
LATE = 0.5
"""Seconds after which an answer is missed; until then a busy machine may only not have read it."""
ROOM = 4 << 20
"""Bytes of answers that wait while this program does not get its turn."""


class Flow:
    """Echo requests from a pod, one each hundredth of a second; which came back is counted."""

    port = 0

    def __init__(self, pod: Pod, alias: str) -> None:
        self.sent: dict[int, float] = {}
        self.back: dict[int, float] = {}
        self._alias = alias

        def opened() -> socket.socket:
            made = self._opened()
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ROOM)
            return made

        self._sock = namespaces.enter(pod.namespace, opened)
        self._mark = secrets.randbits(16)

    def _opened(self) -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)

    def _packet(self, number: int) -> bytes:
        body = struct.pack("!BBHHH", 8, 0, 0, self._mark, number & 0xFFFF) + bytes(32)
        return body[:2] + struct.pack("!H", checksum(body)) + body[4:]

    def _number(self, data: bytes) -> int | None:
        """The number of the request that a packet answers; None for another packet."""
        kind, _, _, mark, number = struct.unpack_from("!BBHHH", data, (data[0] & 15) * 4)
        return int(number) if kind == 0 and mark == self._mark else None

    async def run(self) -> None:
        with trio.socket.from_stdlib_socket(self._sock) as sock:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._receive, sock)
                number = 0
                while True:
                    number += 1
                    body = self._packet(number)
                    self.sent[number] = time.monotonic()
                    with suppress(OSError):
                        await sock.sendto(body, (self._alias, self.port))
                    await trio.sleep(EVERY)

    async def _receive(self, sock: trio.socket.SocketType) -> None:
        while True:
            try:
                data, _ = await sock.recvfrom(2048)
            except OSError:
                continue
            number = self._number(data)
            if number is not None:
                self.back.setdefault(number, time.monotonic())

    @property
    def heard(self) -> float:
        """When the last answer was read; 0 before the first one."""
        return next(reversed(self.back.values()), 0.0)

    def gap(self, since: float) -> float:
        """The longest time in seconds without an answer from then on, up to the last one."""
        times = sorted(at for at in self.back.values() if at >= since - 0.5)
        return max((b - a for a, b in pairwise(times)), default=99.0)

    def lost(self, since: float, until: float) -> int:
        return sum(
            1 for number, at in self.sent.items() if since <= at < until and number not in self.back
        )

    def is_well(self, since: float, seconds: float) -> bool:
        """True if all packets of the last `seconds` were answered, none of them sent before
        `since`."""
        until = time.monotonic() - LATE
        sent = [n for n, at in self.sent.items() if until - seconds <= at < until]
        return until - seconds > since and bool(sent) and all(each in self.back for each in sent)

    async def gets_well(self, since: float, seconds: float = 60.0) -> float:
        """Waits until it is well for a second; the longest time without an answer until then."""
        await eventually(lambda: self.is_well(since, 1.0), seconds=seconds)
        return self.gap(since)

    async def loses_none(self, since: float) -> None:
        """All that was sent from then until now comes back, be it late."""
        until = time.monotonic()
        try:
            await eventually(lambda: self.lost(since, until) == 0, seconds=BUSY * 10)
        except trio.TooSlowError:
            sent = [(at - since, n) for n, at in self.sent.items() if since <= at < until]
            lost = [at for at, n in sent if n not in self.back]
            when = f"sent {lost[0]:.1f} to {lost[-1]:.1f} s after that began"
            raise AssertionError(f"{len(lost)} of {len(sent)} packets lost, {when}") from None


class Datagrams(Flow):
    """Datagrams of one connection, to something that sends each of them back."""

    port = 8000

    def _opened(self) -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def _packet(self, number: int) -> bytes:
        return struct.pack("!H", number & 0xFFFF)

    def _number(self, data: bytes) -> int | None:
        return int(struct.unpack("!H", data)[0])


@asynccontextmanager
async def flowing(pod: Pod, address: str, kind: type[Flow] = Flow) -> AsyncIterator[Flow]:
    """Packets from a pod to an address, and back, which have begun to arrive."""
    flow = kind(pod, address)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flow.run)
        await eventually(lambda: any(at > time.monotonic() - 0.1 for at in flow.back.values()))
        await trio.sleep(1.0)
        yield flow
        nursery.cancel_scope.cancel()
