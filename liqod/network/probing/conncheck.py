"""The probes of a peer's tunnel: ordered of the tunnels' process, whose verdicts are taken here.

That process reads what the other side sends (:mod:`liqod.tunnel.probes`). Here its sockets are
opened, in the peer's network namespace. The namespace and its address may come, and come again,
after the sockets: these are made anew when the probes ask for that. Where the process is begun anew
the last verdict stands until there is another one: its silence is not the peer's.
"""

import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from typing import Final, NoReturn

import msgspec
import trio

from liqod.errors import LiqodError
from liqod.model.network.ranges import ClusterCidrs
from liqod.model.text import printable
from liqod.network.dataplane.kernel import namespaces
from liqod.network.dataplane.names import PROBE_PORT, TUNNEL_ADDRESSES, PeerNames, Side
from liqod.network.probing import icmp
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.runtime.backoff import Backoff
from liqod.runtime.log import Seldom
from liqod.runtime.supervise import leaves
from liqod.runtime.tokenbucket import TokenBucket
from liqod.sharedport import send
from liqod.tunnel.probes import orders
from liqod.tunnel.probes.messages import PeerHello, ProbeResult
from liqod.tunnel.probes.orders import Given, Judged, ProbeOrder, SocketKind, Told, Wants
from liqod.tunnel.wanted import PROBE, STAY, TunnelRequest

BUFFER: Final = 1 << 16
"""Bytes that wait in the kernel; what comes beyond them in a flood is dropped there."""
IP_FREEBIND: Final = 15
SILENCE: Final = 15.0
"""Seconds without a verdict after which the process hangs: there is one every ten seconds."""
UNJUDGED: Final = 30.0
"""Seconds for which a verdict stands while there are no probes."""
AGAIN: Final = Backoff(first=0.1, last=10.0)
"""Seconds until probes that ended are ordered again."""
TELLS: Final = 1.0
"""Seconds between looks at the facts that the other side is told."""
RATE, BURST, BREATH = 10.0, 50.0, 0.1
"""Messages of the probes a second, and at once; then seconds before each."""

log = logging.getLogger(__name__)


class SocketsInside:
    """Opens the sockets of the probes inside the network namespace of a peer.

    Args:
        namespace: its name.
        own: this side's address on the tunnel.
    """

    def __init__(self, namespace: str, own: str) -> None:
        self._namespace, self._own = namespace, own

    async def open(self, kind: SocketKind) -> socket.socket:
        """A socket of a kind. Raises LiqodError, OSError: there can be none."""
        if kind == "echoes":
            return await icmp.opened(self._namespace, self._own)
        return await namespaces.inside(self._namespace, self._bound)

    def _bound(self) -> socket.socket:
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


class Prober:
    """Has one tunnel probed, and the other side's probes answered.

    Args:
        process: the tunnels' process.
        names: of the peer.
        side: of this cluster.
        on_result: notified of every verdict, and of the latency now and then.
        own_hello: gives the facts to report to the other side.
        addresses: of both sides.
    """

    def __init__(
        self,
        process: MachineProcess,
        names: PeerNames,
        side: Side,
        on_result: Callable[[ProbeResult], None],
        own_hello: Callable[[], PeerHello] = PeerHello,
        *,
        addresses: Mapping[Side, str] = TUNNEL_ADDRESSES,
    ) -> None:
        own, other = addresses[side], addresses["client" if side == "server" else "server"]
        self._process, self._on_result, self._own_hello = process, on_result, own_hello
        self._order = ProbeOrder(names.peer_id, own, other, PROBE_PORT)
        self._sockets = SocketsInside(names.namespace, own)
        self._seldom, self._sending = Seldom(), trio.Lock()
        self._failures = 0

    async def run(self) -> NoReturn:
        """Probe until cancelled."""
        self._judged_at = trio.current_time()
        await self._forever(self._attend, self._lose)

    async def stand_by(self) -> NoReturn:
        """Have the process until cancelled, so that probes are made at once when they are to be."""
        await self._forever(self._stay, lambda why: None)

    async def _forever(
        self, attend: Callable[[], Awaitable[None]], lose: Callable[[str], None]
    ) -> NoReturn:
        """Have something done by the process, and again whenever that ends."""
        while True:
            try:
                await attend()
            except* (LiqodError, OSError, ValueError, trio.TooSlowError) as errors:
                lose(str(leaves(errors)[0]))
            except* trio.BrokenResourceError:
                lose("the tunnels' process has ended")
            self._failures += 1
            await trio.sleep(AGAIN.delay(self._failures))

    async def _stay(self) -> None:
        async with self._process.attended(TunnelRequest(STAY)) as stream:
            self._failures = 0
            await stream.receive_some(1)

    async def _attend(self) -> None:
        """Have probes for as long as the process makes them."""
        hello = self._own_hello()
        request = TunnelRequest(PROBE, probe=msgspec.structs.replace(self._order, hello=hello))
        async with self._process.attended(request) as stream, trio.open_nursery() as nursery:
            nursery.start_soon(self._tell, stream, hello)
            await self._receive(stream)

    def _lose(self, why: str) -> None:
        """The probes have ended; after a while nobody knows how the tunnel is."""
        peer, now = self._order.peer_id, trio.current_time()
        if self._seldom.allows(why):
            log.warning("the probes of %s are begun anew: %s", peer, why)
        if now - self._judged_at > UNJUDGED:
            self._judged_at = now
            self._on_result(ProbeResult(False, why=f"the tunnel is not probed: {why}"))

    async def _tell(self, stream: trio.SocketStream, told: PeerHello) -> NoReturn:
        """Give the facts to report to the other side, whenever they are others."""
        while True:
            await trio.sleep(TELLS)
            hello = self._own_hello()
            if hello != told:
                await self._send(stream, Told(hello))
                told = hello

    async def _send(self, stream: trio.SocketStream, message: orders.ToProbes, *files: int) -> None:
        with trio.fail_after(SILENCE):
            async with self._sending:
                await send(stream, orders.encoded(message), files)

    async def _receive(self, stream: trio.SocketStream) -> NoReturn:
        """Take what the probes send, no more than some messages a second."""
        data, bucket = b"", TokenBucket(RATE, BURST)
        while True:
            with trio.fail_after(SILENCE):
                part = await stream.receive_some(orders.MOST)
            if not part:
                raise ConnectionError("the tunnels' process has ended")
            *lines, data = (data + part).split(b"\n")
            if len(data) > orders.MOST:
                raise ValueError("a message of the probes has no end")
            for line in lines:
                if not bucket.takes(trio.current_time()):
                    await trio.sleep(BREATH)
                match orders.of_probes(line):
                    case Wants(kind):
                        await self._give(stream, kind)
                    case Judged() as verdict:
                        self._judge(verdict)

    async def _give(self, stream: trio.SocketStream, kind: SocketKind) -> None:
        """Open a socket for the probes, and hand it over, or the reason for none."""
        try:
            opened = await self._sockets.open(kind)
        except (LiqodError, OSError) as error:
            await self._send(stream, Given(kind, str(error) or "it cannot be opened"))
            return
        with opened:
            await self._send(stream, Given(kind), opened.fileno())

    def _judge(self, verdict: Judged) -> None:
        now, said = trio.current_time(), verdict.said
        self._judged_at, self._failures = now, 0
        self._on_result(
            ProbeResult(
                alive=verdict.alive,
                latency=verdict.latency,
                lost=verdict.lost,
                why=printable(verdict.why),
                last_request=now - verdict.requested if verdict.requested is not None else -inf,
                hello=PeerHello(
                    pod_address=said.podAddress,
                    seen_as=said.seenAs,
                    own=ClusterCidrs(said.pod, said.external),
                    websocket=said.websocket,
                ),
            )
        )
