"""The probes of a peer's tunnel, with sockets in the peer's network namespace.

The namespace and its address may come, and come again, after the sockets: these are made anew when
the probes (:mod:`liqod.tunnel.probes`) ask for that.
"""

import socket
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from liqod.network.dataplane.kernel import namespaces
from liqod.network.dataplane.names import PROBE_PORT, TUNNEL_ADDRESSES, PeerNames, Side
from liqod.network.probing import icmp
from liqod.tunnel.probes.echoes import Echoes
from liqod.tunnel.probes.messages import PeerHello, ProbeResult
from liqod.tunnel.probes.prober import PeerProber

BUFFER: Final = 1 << 16
"""Bytes that wait in the kernel; what comes beyond them in a flood is dropped there."""
IP_FREEBIND: Final = 15


class SocketsInside:
    """Opens the sockets of the probes inside the network namespace of a peer.

    Args:
        namespace: its name.
        own: this side's address on the tunnel.
        port: UDP port of both sides.
    """

    def __init__(self, namespace: str, own: str, port: int) -> None:
        self._namespace, self._own, self._port = namespace, own, port

    async def probes(self) -> socket.socket:
        """As :meth:`liqod.tunnel.probes.prober.ProbeSockets.probes`."""

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

        return await namespaces.inside(self._namespace, bound)

    async def echoes(self) -> Echoes:
        """As :meth:`liqod.tunnel.probes.prober.ProbeSockets.echoes`."""
        return await icmp.opened(self._namespace, self._own)


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
        own, other = addresses[side], addresses["client" if side == "server" else "server"]
        sockets = SocketsInside(names.namespace, own, port)
        told = (on_result, own_hello)
        self._probes = PeerProber(names.peer_id, own, other, port, sockets, *told)

    async def run(self) -> NoReturn:
        """Probe until cancelled."""
        await self._probes.run()
