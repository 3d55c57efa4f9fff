"""The probes of one tunnel: requests to the peer's gateway, and answers to its own.

Liqo probes every two seconds; liqod as :mod:`liqod.model.network.liveness` says.

Answers come from the other side's daemon, and packets need none. So where they fail to come, the
kernel behind the tunnel is asked for echoes, and it is by these that the way is judged: it is given
up for no daemon's sake. The bytes that a tunnel has received would not do: they grow also where
nothing that is sent arrives.
"""

import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final, NoReturn, Protocol

import msgspec
import trio

from liqod.errors import LiqodError
from liqod.model.network.liveness import DEADLINE, STALL, Liveness
from liqod.model.network.ranges import ClusterCidrs
from liqod.runtime.gather import either
from liqod.runtime.tokenbucket import TokenBucket
from liqod.tunnel.probes.echoes import TOKEN
from liqod.tunnel.probes.messages import (
    LARGEST,
    MOST_OWN,
    MOST_RANGES,
    Message,
    PeerHello,
    ProbeResult,
    read,
    stamp,
)

HELLO_EVERY: Final = 10.0
"""Seconds between two reports of them."""
BATCH, FLOOD, BREATH = 32, 0.1, 0.05
"""Datagrams after which it is seen whether they came within so many seconds, and then seconds of
rest: a flood costs no more than some hundred datagrams a second."""
ANSWERS, ANSWERS_KEPT = 50.0, 100.0
"""Answers a second, and in a burst."""
REPORTED, SILENT_REPORTED = 10.0, 1.0
"""Seconds between reports of the latency, as Liqo's, and between those while nothing answers."""
REOPENED: Final = 5.0
"""Seconds of silence after which the socket is made anew: the namespace may be another one."""
MUTE: Final = DEADLINE / 2
"""Seconds without an answer of the other side's daemon after which its kernel is probed, too: many
probes of those that follow a lost one have gone by then."""
ECHO_SIZE: Final = 64
"""Bytes of a packet by which the kernel is probed."""

log = logging.getLogger(__name__)


class EchoSocket(Protocol):
    """A socket for echoes, as :class:`.echoes.Echoes`."""

    async def send(self, token: bytes, target: str, size: int) -> bool:
        """Request one."""
        ...

    async def receive(self) -> tuple[bytes, str]:
        """The token of the next one that comes back, and from where."""
        ...

    def close(self) -> None:
        """Release the socket."""
        ...


class ProbeSockets(Protocol):
    """Opens the sockets of the probes in the peer's network. Each raises LiqodError, OSError."""

    async def probes(self) -> socket.socket:
        """One of UDP, at this side's address and the port of probes."""
        ...

    async def echoes(self) -> EchoSocket:
        """One for echoes, from this side's address."""
        ...


class PeerProber:
    """Probes one tunnel and answers the other side's probes.

    Args:
        peer_id: the cluster at the other side.
        own, other: the addresses of both sides.
        port: UDP port of both.
        sockets: opens those that are handed to it.
        on_result: notified of every verdict, and of the latency now and then.
        own_hello: gives the facts to report to the other side.
    """

    def __init__(
        self,
        peer_id: str,
        own: str,
        other: str,
        port: int,
        sockets: ProbeSockets,
        on_result: Callable[[ProbeResult], None],
        own_hello: Callable[[], PeerHello] = PeerHello,
    ) -> None:
        self._peer_id, self._own, self._other, self._port = peer_id, own, other, port
        self._sockets = sockets
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
        # One for all sockets: a flood may outlast the one at which it began.
        self._answers = TokenBucket(ANSWERS, ANSWERS_KEPT)

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
                receive, send = partial(self._receive, sock), partial(self._send, sock)
                await either(receive, self._ping_kernel, send)

    async def _open(self) -> trio.socket.SocketType:
        began = trio.current_time()
        opened = await self._sockets.probes()
        self._opened = trio.current_time()
        # Nothing was sent meanwhile: on a busy machine its silence is not the other side's.
        self._liveness.stalled(self._opened - began)
        return trio.socket.from_stdlib_socket(opened)

    async def _send(self, sock: trio.socket.SocketType) -> None:
        """Send the due messages, until the socket is to be made anew."""
        liveness = self._liveness
        while True:
            now = await self._due(liveness)
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
                *(self._peer_id, "PING", key, tells.pod_address, seen_as),
                websocket=tells.websocket,
            )
            try:
                await sock.sendto(msgspec.json.encode(ping), (self._other, self._port))
                self._why = ""
                await self._report_ranges(sock, tells.own, now)
            except OSError as error:
                self._why = error.strerror or str(error)

    async def _due(self, liveness: Liveness) -> float:
        """Wait until there is something to send or to judge, and judge; the time then."""
        planned = liveness.due(trio.current_time())
        await trio.sleep_until(planned)
        now = trio.current_time()
        if now - planned > STALL:
            liveness.stalled(now - planned)
        self._judge(now)
        return now

    async def _report_ranges(
        self, sock: trio.socket.SocketType, own: ClusterCidrs, now: float
    ) -> None:
        """Report this cluster's ranges to a liqod, where they are due."""
        speaks = bool(self._hello.pod_address or self._hello.seen_as)
        if not speaks or not own.pod or now < self._hello_at + HELLO_EVERY:
            return
        self._hello_at = now
        of = own.pod[:MOST_OWN], own.external[:MOST_OWN]
        data = msgspec.json.encode(Message(self._peer_id, "TELL", "", "", (), *of))
        if len(data) <= LARGEST:
            await sock.sendto(data, (self._other, self._port))

    async def _ping_kernel(self) -> NoReturn:
        """Request echoes for as long as the other side's daemon does not answer."""
        while True:
            self._mute = trio.Event()
            await self._mute.wait()
            try:
                asking = await self._sockets.echoes()
                try:
                    self._kernel = Liveness(trio.current_time())
                    known = (asking, self._kernel)
                    receive = partial(self._receive_echoes, *known)
                    await either(receive, partial(self._send_to_the_kernel, *known))
                finally:
                    asking.close()
            except (LiqodError, OSError) as error:
                # There are the daemon's answers alone.
                log.debug("echoes of %s: %s", self._peer_id, error)
                await trio.sleep(1.0)
            finally:
                self._kernel = None

    async def _send_to_the_kernel(self, asking: EchoSocket, kernel: Liveness) -> None:
        """Send the due messages, until the daemon answers, or the sockets are to be made anew."""
        while self._is_mute(trio.current_time()):
            now = await self._due(kernel)
            if not kernel.sends(now):
                continue
            token = os.urandom(TOKEN)
            kernel.sent(token, now)
            with suppress(OSError):  # as good as lost
                await asking.send(token, self._other, ECHO_SIZE)

    async def _receive_echoes(self, asking: EchoSocket, kernel: Liveness) -> NoReturn:
        while True:
            token, origin = await asking.receive()
            now = trio.current_time()
            if origin == self._other and kernel.on_answer(token, now):
                self._judge(now)

    async def _receive(self, sock: trio.socket.SocketType) -> NoReturn:
        """Answer requests, and take answers; a flood is read slowly, and dropped."""
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
                elif message.msgType == "PING" and self._answers.takes(now):
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
