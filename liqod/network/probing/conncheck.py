"""Probes through a tunnel: Liqo's, requests to the peer's gateway and answers to its own.

A probe is a datagram of JSON to UDP port 12345 of the other side's tunnel address, from that port:
``{"clusterID", "msgType": "PING", "timeStamp"}``. The answer is the same with ``PONG``. The
cluster that it names is the one that is probed; the answer repeats the request. Liqo probes
every two seconds; liqod as :mod:`.liveness` says.

A side that has sent a field of liqod's alone gets a third one now and then, ``TELL``, with this
cluster's own ranges: it carries those that came after the networks were joined.

Answers come from the other side's daemon, and packets need none. So where they fail to come, the
kernel behind the tunnel is asked for echoes, and it is by these that the way is judged: it is given
up for no daemon's sake. The bytes that a tunnel has received would not do: they grow also where
nothing that is sent arrives.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from typing import Annotated, Final, NoReturn

import msgspec
import trio
from msgspec import Meta

from liqod.errors import NetworkError
from liqod.model.network.ranges import ClusterCidrs
from liqod.network.dataplane.kernel import namespaces
from liqod.network.dataplane.names import PROBE_PORT, TUNNEL_ADDRESSES, PeerNames, Side
from liqod.network.probing.icmp import TOKEN, Echoes, echoes
from liqod.network.probing.liveness import DEADLINE, STALL, Liveness
from liqod.runtime.tokenbucket import TokenBucket

LARGEST: Final = 512
"""Bytes of a probe that are looked at; Liqo's have about a hundred."""
MOST_RANGES: Final = 4
"""Ranges of which one side says how it sees them, the first ones: a question with more is none to
older liqods."""
MOST_OWN: Final = 8
"""Ranges of its own that it may report, of pods, and external ones."""
HELLO_EVERY: Final = 10.0
"""Seconds between two reports of them."""
BATCH, FLOOD, BREATH = 32, 0.1, 0.05
"""Datagrams after which it is seen whether they came within so many seconds, and then seconds of
rest: a flood costs no more than some hundred datagrams a second."""
ANSWERS, ANSWERS_KEPT = 50.0, 100.0
"""Answers a second, and in a burst."""
BUFFER: Final = 1 << 16
"""Bytes that wait in the kernel; what comes beyond them in a flood is dropped there."""
REPORTED, SILENT_REPORTED = 10.0, 1.0
"""Seconds between reports of the latency, as Liqo's, and between those while nothing answers."""
REOPENED: Final = 5.0
"""Seconds of silence after which the socket is made anew: the namespace may be another one."""
MUTE: Final = DEADLINE / 2
"""Seconds without an answer of the other side's daemon after which its kernel is probed, too: many
probes of those that follow a lost one have gone by then."""
ECHO_SIZE: Final = 64
"""Bytes of a packet by which the kernel is probed."""
IP_FREEBIND: Final = 15

log = logging.getLogger(__name__)


Prefix = Annotated[str, Meta(max_length=64, pattern=r"^[0-9A-Fa-f:.]+/[0-9]{1,3}\Z")]
"""An address range; nothing that a terminal would obey."""


class PeerHello(msgspec.Struct, frozen=True):
    """The facts that one side's gateway reports to the other's.

    Attributes:
        pod_address: an address among its pods at which it answers echoes; empty where it has none.
        seen_as: the aliases under which it sees the other side's ranges, in the order of
            :class:`liqod.model.network.ranges.ClusterCidrs`: pods' first.
        own: its cluster's own ranges; none where it has not reported them.
        websocket: whether it takes the tunnel in a websocket, too; None where not reported.
    """

    pod_address: str = ""
    seen_as: tuple[str, ...] = ()
    own: ClusterCidrs = ClusterCidrs()
    websocket: bool | None = None


class ProbeResult(msgspec.Struct, frozen=True):
    """The findings of probes through a tunnel.

    Attributes:
        alive: whether the other side answers.
        latency: seconds of a round trip, smoothed; None where none was answered.
        lost: part of the last probes that was not answered.
        why: why it is not alive, a sentence.
        last_request: when the other side's own probes were last here, by Trio's clock; ``-inf``
            for never.
        hello: the other side's report about itself; empty where it runs Liqo.
    """

    alive: bool
    latency: float | None = None
    lost: float = 0.0
    why: str = ""
    last_request: float = -inf
    hello: PeerHello = PeerHello()


class Message(msgspec.Struct, frozen=True, omit_defaults=True, rename={"cluster_id": "clusterID"}):
    """A probe or its answer; fields of others are passed over.

    Attributes:
        cluster_id: the one that is probed.
        msgType: ``PING``, ``PONG`` or ``TELL``.
        timeStamp: time of the request, in RFC 3339.
        podAddress: liqod's own: as :attr:`PeerHello.pod_address`.
        seenAs: liqod's own: as :attr:`PeerHello.seen_as`.
        pod, external: the same: ranges of the cluster that sends it, in a ``TELL``.
        websocket: the same: as :attr:`PeerHello.websocket`.
    """

    cluster_id: str = ""
    msgType: str = ""
    timeStamp: str = ""
    podAddress: str = ""
    seenAs: Annotated[tuple[Prefix, ...], Meta(max_length=MOST_RANGES)] = ()
    pod: Annotated[tuple[Prefix, ...], Meta(max_length=MOST_OWN)] = ()
    external: Annotated[tuple[Prefix, ...], Meta(max_length=MOST_OWN)] = ()
    websocket: bool | None = None


_decoder = msgspec.json.Decoder(Message)


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
        on_result: notified of every verdict, and of the latency now and then.
        own_hello: gives the facts to report to the other side.
        addresses: of both sides.
        port: UDP port of both.
    """

    def __init__(
        self,
        names: PeerNames,
        side: Side,
        on_result: Callable[[ProbeResult], None],
        own_hello: Callable[[], PeerHello] = PeerHello,
        *,
        addresses: Mapping[Side, str] = TUNNEL_ADDRESSES,
        port: int = PROBE_PORT,
    ) -> None:
        self._names = names
        self._own, self._port = addresses[side], port
        self._other = addresses["client" if side == "server" else "server"]
        self._on_result = on_result
        self._own_hello = own_hello
        self._last_request = -inf
        self._hello = self._reported_hello = PeerHello()
        self._why = ""
        self._opened = self._reported = -inf
        self._hello_at = -inf
        self._alive: bool | None = None
        self._kernel: Liveness | None = None
        """Of the kernel at the other side; None while its daemon answers."""
        self._mute = trio.Event()

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
                    nursery.start_soon(self._ping_kernel)
                    await self._send(sock)
                    nursery.cancel_scope.cancel()

    async def _open(self) -> trio.socket.SocketType:
        def bound() -> socket.socket:
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            try:
                # The address may come, and come again, after the socket.
                made.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
                made.bind((self._own, self._port))
            except BaseException:
                made.close()
                raise
            return made

        self._opened = trio.current_time()
        return trio.socket.from_stdlib_socket(await namespaces.inside(self._names.namespace, bound))

    async def _send(self, sock: trio.socket.SocketType) -> None:
        """Send the due messages, until the socket is to be made anew."""
        liveness = self._liveness
        while True:
            planned = liveness.due(trio.current_time())
            await trio.sleep_until(planned)
            now = trio.current_time()
            if now - planned > STALL:
                liveness.stalled(now - planned)
            self._judge(now)
            if self._alive is False and now - max(self._opened, self._seen_at) > REOPENED:
                return
            if not liveness.sends(now):
                continue
            key = stamp(time.time_ns())
            # Before it goes, since the answer may be here before the call comes back.
            liveness.sent(key, now)
            tells = self._own_hello()
            seen_as = tells.seen_as[:MOST_RANGES]
            ping = Message(
                *(self._names.peer_id, "PING", key, tells.pod_address, seen_as),
                websocket=tells.websocket,
            )
            try:
                await sock.sendto(msgspec.json.encode(ping), (self._other, self._port))
                self._why = ""
                await self._report_ranges(sock, tells.own, now)
            except OSError as error:
                self._why = error.strerror or str(error)

    async def _report_ranges(
        self, sock: trio.socket.SocketType, own: ClusterCidrs, now: float
    ) -> None:
        """Report this cluster's ranges to a liqod, where they are due."""
        speaks = bool(self._hello.pod_address or self._hello.seen_as)
        if not speaks or not own.pod or now < self._hello_at + HELLO_EVERY:
            return
        self._hello_at = now
        of = own.pod[:MOST_OWN], own.external[:MOST_OWN]
        data = msgspec.json.encode(Message(self._names.peer_id, "TELL", "", "", (), *of))
        if len(data) <= LARGEST:
            await sock.sendto(data, (self._other, self._port))

    async def _ping_kernel(self) -> NoReturn:
        """Request echoes for as long as the other side's daemon does not answer."""
        while True:
            self._mute = trio.Event()
            await self._mute.wait()
            try:
                async with (
                    echoes(self._names.namespace, self._own) as asking,
                    trio.open_nursery() as nursery,
                ):
                    self._kernel = Liveness(trio.current_time())
                    nursery.start_soon(self._receive_echoes, asking, self._kernel)
                    await self._send_to_the_kernel(asking, self._kernel)
                    nursery.cancel_scope.cancel()
            except (NetworkError, OSError) as error:
                # There are the daemon's answers alone.
                log.debug("echoes of %s: %s", self._names.peer_id, error)
                await trio.sleep(1.0)
            finally:
                self._kernel = None

    async def _send_to_the_kernel(self, asking: Echoes, kernel: Liveness) -> None:
        """Send the due messages, until the daemon answers, or the sockets are to be made anew."""
        while self._is_mute(trio.current_time()):
            planned = kernel.due(trio.current_time())
            await trio.sleep_until(planned)
            now = trio.current_time()
            if now - planned > STALL:
                kernel.stalled(now - planned)
            self._judge(now)
            if not kernel.sends(now):
                continue
            token = os.urandom(TOKEN)
            kernel.sent(token, now)
            with suppress(OSError):  # as good as lost
                await asking.send(token, self._other, ECHO_SIZE)

    async def _receive_echoes(self, asking: Echoes, kernel: Liveness) -> NoReturn:
        while True:
            token, origin = await asking.receive()
            now = trio.current_time()
            if origin == self._other and kernel.on_answer(token, now):
                self._judge(now)

    async def _receive(self, sock: trio.socket.SocketType) -> NoReturn:
        """Answer requests, and take answers; a flood is read slowly, and dropped."""
        bucket = TokenBucket(ANSWERS, ANSWERS_KEPT)
        while True:
            began = trio.current_time()
            for _ in range(BATCH):
                try:
                    data, origin = await sock.recvfrom(LARGEST + 1)
                except OSError:
                    # An error that an answer met on its path; the socket is good yet.
                    continue
                if origin[0] != self._other:
                    continue
                message = read(data)
                if message is None:
                    continue
                now = trio.current_time()
                self._listen(message, now)
                if message.msgType == "PONG":
                    if self._liveness.on_answer(message.timeStamp, now):
                        self._judge(now)
                elif message.msgType == "PING" and bucket.takes(now):
                    pong = Message(message.cluster_id, "PONG", message.timeStamp)
                    try:
                        await sock.sendto(msgspec.json.encode(pong), origin)
                    except OSError:
                        continue
            if trio.current_time() - began < FLOOD:
                await trio.sleep(BREATH)

    def _listen(self, message: Message, now: float) -> None:
        """Note the other side's reports beside request and answer."""
        if message.msgType == "PING":
            # Of answers it is not believed: there are those that repeat what they were sent.
            own, offers = self._hello.own, message.websocket
            said = PeerHello(message.podAddress, message.seenAs, own, offers)
            self._last_request, self._hello = now, said
        elif message.msgType == "TELL":
            own = ClusterCidrs(message.pod, message.external)
            self._hello = msgspec.structs.replace(self._hello, own=own)

    @property
    def _seen_at(self) -> float:
        """When anything of the other side's came last."""
        kernel = self._kernel
        return max(self._liveness.answered_at, kernel.answered_at if kernel is not None else -inf)

    def _is_mute(self, now: float) -> bool:
        """True where the other side's daemon has not answered for a while."""
        return self._liveness.silent(now) > MUTE

    def _judge(self, now: float) -> None:
        """Come to a verdict and report it, where it is new or the last report is long ago."""
        before, liveness = self._alive, self._liveness
        liveness.judge(now)
        if self._is_mute(now):
            self._mute.set()
        if self._kernel is not None:
            self._kernel.judge(now)
            if not liveness.alive and self._kernel.alive:
                liveness = self._kernel
        self._alive = liveness.alive
        changed = self._alive != before
        # Its other reports are passed on at once, but no more often than each second.
        soon = not self._alive or self._hello != self._reported_hello
        rest = SILENT_REPORTED if soon else REPORTED
        if self._alive is None or not (changed or now - self._reported >= rest):
            return
        self._reported, self._reported_hello = now, self._hello
        alive = self._alive
        why = f": {self._why}" if self._why else ""
        self._on_result(
            ProbeResult(
                alive,
                latency=liveness.latency,
                lost=liveness.lost,
                why="" if alive else f"nothing answers through the tunnel{why}",
                last_request=self._last_request,
                hello=self._hello,
            )
        )
