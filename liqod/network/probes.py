"""Probes through a tunnel: Liqo's, which ask the peer's gateway and answer when they are asked.

A probe is a datagram of JSON to UDP port 12345 of the other side's tunnel address, from that port:
``{"clusterID", "msgType": "PING", "timeStamp"}``. The answer is the same with ``PONG``. The
cluster that it names is the one that is asked; whoever answers repeats what it was sent. Liqo asks
every two seconds; liqod as :mod:`.liveness` says.
"""

import errno
import logging
import os
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from pathlib import Path
from typing import Final, NoReturn, Protocol, TypeVar

import msgspec
import trio

from liqod.network.kernel import namespaces
from liqod.network.liveness import STALL, Liveness
from liqod.network.machine import Heard
from liqod.network.names import PROBE_PORT, TUNNEL_ADDRESSES, Names, Side

R = TypeVar("R")

LARGEST: Final = 512
"""Bytes of a probe that are looked at; Liqo's have about a hundred."""
BATCH, FLOOD, BREATH = 32, 0.1, 0.05
"""Datagrams after which it is seen whether they came within so many seconds, and then seconds of
rest: a flood costs no more than some hundred datagrams a second."""
ANSWERS, ANSWERS_KEPT = 50.0, 100.0
"""Answers a second, and in a burst."""
BUFFER: Final = 1 << 16
"""Bytes that wait in the kernel; what comes beyond them in a flood is dropped there."""
REPORTED: Final = 10.0
"""Seconds between reports of the latency, as Liqo's."""
REOPENED: Final = 5.0
"""Seconds of silence after which the socket is made anew: the namespace may be another one."""
IP_FREEBIND: Final = 15
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3
SMALLEST_MTU: Final = 576
"""A tunnel that carries less is of no use."""
TRIES: Final = 3
"""Packets of a size that are lost before that size is taken not to pass."""
ECHO_PATIENCE: Final = 0.3
"""Seconds for the answer to an echo, besides the usual time."""

log = logging.getLogger(__name__)


class Message(msgspec.Struct, frozen=True, rename={"cluster_id": "clusterID"}):
    """A probe or its answer; fields of others are passed over.

    Attributes:
        cluster_id: the one that is asked.
        msgType: ``PING`` or ``PONG``.
        timeStamp: when it was asked, in RFC 3339.
    """

    cluster_id: str = ""
    msgType: str = ""
    timeStamp: str = ""


_decoder = msgspec.json.Decoder(Message)


class Inside(Protocol):
    """Calls something in a namespace (:func:`liqod.network.kernel.namespaces.inside`)."""

    def __call__(self, name: str | None, work: Callable[[], R], /) -> Awaitable[R]:
        """Call it."""
        ...


class Bucket:
    """Lets so many things a second through, and a burst of some more.

    Args:
        rate: a second.
        burst: at once.
        now: the time in seconds.
    """

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = burst, now

    def takes(self, now: float) -> bool:
        """Whether one more may go."""
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def stamp(nanoseconds: int) -> str:
    """A Unix time in nanoseconds as Go writes it: without zeros at the end."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    part = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{whole}{part}Z"


def read(data: bytes) -> Message | None:
    """A datagram as a message; None where it is none."""
    if len(data) > LARGEST:
        return None
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class Prober:
    """Probes one tunnel and answers the other side's probes.

    Args:
        names: of the peer.
        side: of this cluster.
        heard: told of every verdict, and of the latency now and then.
        inside: calls something in a namespace.
    """

    def __init__(
        self,
        names: Names,
        side: Side,
        heard: Callable[[Heard], None],
        *,
        inside: Inside = namespaces.inside,
    ) -> None:
        self._names = names
        self._own = TUNNEL_ADDRESSES[side]
        self._other = TUNNEL_ADDRESSES["client" if side == "server" else "server"]
        self._heard = heard
        self._inside = inside
        self._why = ""
        self._opened = self._reported = -inf

    async def run(self) -> NoReturn:
        """Probe until cancelled."""
        self._liveness = Liveness(trio.current_time())
        while True:
            try:
                sock = await self._open()
            except Exception as error:  # whatever it is, the namespace may come yet
                self._why = str(error)
                self._judge(trio.current_time())
                await trio.sleep(1.0)
                continue
            with sock:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._receive, sock)
                    await self._send(sock)
                    nursery.cancel_scope.cancel()

    async def _open(self) -> trio.socket.SocketType:
        def bound() -> socket.socket:
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            try:
                # The address may come, and come again, after the socket.
                made.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
                made.bind((self._own, PROBE_PORT))
            except BaseException:
                made.close()
                raise
            return made

        self._opened = trio.current_time()
        return trio.socket.from_stdlib_socket(await self._inside(self._names.namespace, bound))

    async def _send(self, sock: trio.socket.SocketType) -> None:
        """Send what is due, until the socket is to be made anew."""
        liveness = self._liveness
        while True:
            planned = liveness.due(trio.current_time())
            await trio.sleep_until(planned)
            now = trio.current_time()
            if now - planned > STALL:
                liveness.stalled(now - planned)
            self._judge(now)
            if liveness.alive is False and now - max(self._opened, liveness.answered_at) > REOPENED:
                return
            if not liveness.sends(now):
                continue
            key = stamp(time.time_ns())
            # Before it goes, since the answer may be here before the call comes back.
            liveness.sent(key, now)
            ping = Message(self._names.peer_id, "PING", key)
            try:
                await sock.sendto(msgspec.json.encode(ping), (self._other, PROBE_PORT))
                self._why = ""
            except OSError as error:
                self._why = error.strerror or str(error)

    async def _receive(self, sock: trio.socket.SocketType) -> NoReturn:
        """Answer what is asked, and take answers; a flood is read slowly, and dropped."""
        bucket = Bucket(ANSWERS, ANSWERS_KEPT, trio.current_time())
        while True:
            began = trio.current_time()
            for _ in range(BATCH):
                try:
                    data, origin = await sock.recvfrom(LARGEST + 1)
                except OSError:
                    # What an answer met on its way; the socket is good yet.
                    continue
                if origin[0] != self._other:
                    continue
                message = read(data)
                if message is None:
                    continue
                if message.msgType == "PONG":
                    now = trio.current_time()
                    if self._liveness.answered(message.timeStamp, now):
                        self._judge(now)
                elif message.msgType == "PING" and bucket.takes(trio.current_time()):
                    pong = Message(message.cluster_id, "PONG", message.timeStamp)
                    try:
                        await sock.sendto(msgspec.json.encode(pong), origin)
                    except OSError:
                        continue
            if trio.current_time() - began < FLOOD:
                await trio.sleep(BREATH)

    def _judge(self, now: float) -> None:
        """Come to a verdict and tell it, where it is new or the last one was told long ago."""
        liveness = self._liveness
        changed = liveness.judge(now)
        if liveness.alive is None or not (changed or now - self._reported >= REPORTED):
            return
        self._reported = now
        alive = bool(liveness.alive)
        why = f": {self._why}" if self._why else ""
        self._heard(
            Heard(
                alive,
                latency=liveness.latency,
                lost=liveness.lost,
                why="" if alive else f"nothing answers through the tunnel{why}",
            )
        )


async def probe(names: Names, side: Side, heard: Callable[[Heard], None], /) -> NoReturn:
    """Probe a peer's tunnel until cancelled (:class:`liqod.network.machine.Probes`)."""
    await Prober(names, side, heard).run()
    raise AssertionError("probes end by cancellation only")


async def largest_packet(
    names: Names,
    side: Side,
    mtu: int,
    *,
    patience: float = ECHO_PATIENCE,
    inside: Inside = namespaces.inside,
) -> int | None:
    """The largest packet that goes through a tunnel whole, and comes back.

    It is asked by ICMP, which every gateway answers, with ``don't fragment``. Where packets between
    the gateways are lost by their size, and nothing says so, it is less than the interface's MTU,
    and that is what the MTU is to be.

    Args:
        names: of the peer.
        side: of this cluster.
        mtu: of the interface; nothing larger is tried.
        patience: seconds for each answer.
        inside: calls something in a namespace.

    Returns:
        Bytes, IP's header included; None where nothing at all passes.

    Raises:
        NetworkError: there is no such namespace.
        OSError: no echo can be asked for here.
    """
    other = TUNNEL_ADDRESSES["client" if side == "server" else "server"]
    made = await inside(names.namespace, partial(_echo_socket, TUNNEL_ADDRESSES[side]))
    with trio.socket.from_stdlib_socket(made) as sock:

        async def passes(size: int) -> bool:
            for number in range(TRIES):
                if await _echoes(sock, other, size, number, patience):
                    return True
            return False

        if await passes(mtu):
            return mtu
        if not await passes(SMALLEST_MTU):
            return None
        low, high = SMALLEST_MTU, mtu
        while high - low > 1:
            middle = (low + high) // 2
            if await passes(middle):
                low = middle
            else:
                high = middle
        return low


def _echo_socket(own: str) -> socket.socket:
    """A socket for echoes: one that needs no right but in this namespace, else a raw one."""
    try:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    except PermissionError:
        allowed = Path("/proc/sys/net/ipv4/ping_group_range")
        allowed.write_text(f"{os.getegid()} {os.getegid()}")
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    try:
        # Don't fragment, and do not mind what the kernel believes to know of the way.
        made.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
        made.bind((own, 0))
    except BaseException:
        made.close()
        raise
    return made


async def _echoes(
    sock: trio.socket.SocketType, other: str, size: int, number: int, patience: float
) -> bool:
    """Whether an echo of so many bytes comes back."""
    mark = struct.pack("!HH", size, number)
    # Type, code, checksum and id, which are the kernel's, and a number; 28 with IP's header.
    packet = struct.pack("!BBHHH", 8, 0, 0, 0, number) + mark + bytes(size - 32)
    try:
        await sock.sendto(packet, (other, 0))
    except OSError as error:
        if error.errno == errno.EMSGSIZE:
            return False
        raise
    with trio.move_on_after(patience):
        while True:
            try:
                answer, origin = await sock.recvfrom(1 << 16)
            except OSError:
                continue
            if origin[0] == other and answer[8:12] == mark:
                return True
    return False
