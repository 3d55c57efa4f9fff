"""Liqo's proxy at port 8118, by which peers with the grant reach this cluster's API server.

It is accepted and connected here, and no byte is read: each caller is handed to the tunnels'
process (:mod:`liqod.tunnel.leading`), which requests the connection to the server. It listens on
the peer's own pair of interfaces, to which nothing but the peer's tunnel leads, and is what a peer
that runs Liqo uses; liqod's own connections take the path in the kernel
(:mod:`.dataplane.entrances`).
"""

import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NoReturn

import msgspec
import trio

from liqod.errors import LiqodError, NetworkError
from liqod.model.network.apiaddress import place_of
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import OUTER_ADDRESS, PROXY_PORT, PeerNames
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.runtime.connectionlimit import ConnectionLimiter, serve_one
from liqod.runtime.log import Seldom
from liqod.sharedport import hand_over
from liqod.tunnel.leading import WANTED
from liqod.tunnel.wanted import LEAD, Lead, TunnelRequest

BACKLOG: Final = 64
NO_SERVER: Final = b"-"
"""The answer where no connection to the API server can be had."""

log = logging.getLogger(__name__)

Dial = Callable[[], Awaitable[trio.SocketStream]]


class VethListeners:
    """Listens on the interfaces of the node that lead to peers' namespaces."""

    def listen(self, veth: str) -> tuple[socket.socket, int]:
        """A socket that listens to a peer's namespace, and the number of that interface.

        Args:
            veth: the name of the interface.

        Raises:
            OSError: there is no such interface, or somebody else listens.
        """
        index = self.index(veth)
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, veth.encode())
            made.bind((OUTER_ADDRESS, PROXY_PORT))
            made.listen(BACKLOG)
            made.setblocking(False)
        except BaseException:
            made.close()
            raise
        return made, index

    def index(self, veth: str) -> int:
        """The number of an interface; 0 where there is none."""
        try:
            return socket.if_nametoindex(veth)
        except OSError:
            return 0


class ProxyTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times that the proxy waits, all in seconds.

    Attributes:
        idle: without a byte in either direction, after which a connection is closed.
        half_idle: the same where one side has closed its direction: mostly it is gone.
        head_within: for a request to come.
        connect_within: for the API server to accept.
        retry: until a listener that cannot be had is tried again.
    """

    idle: float
    half_idle: float = 30.0
    head_within: float = 5.0
    connect_within: float = 5.0
    retry: float = 1.0


class ConnectProxy:
    """The proxy of one cluster.

    Args:
        server: URL of the API server for peers: the only one that they may name.
        dial: connects to it, by any path that this daemon has. Raises OSError.
        process: reads what callers send.
        kernel: of this machine.
        places: of all peers' connections.
        listeners: listens to peers' namespaces; called in the node's.
    """

    def __init__(
        self,
        server: str,
        dial: Dial,
        process: MachineProcess,
        kernel: KernelDatapath,
        places: ConnectionLimiter,
        timings: ProxyTimings,
        listeners: VethListeners | None = None,
    ) -> None:
        self._order = Lead(
            *place_of(server),
            idle=timings.idle,
            half_idle=timings.half_idle,
            head_within=timings.head_within,
        )
        self._dial, self._process, self._kernel = dial, process, kernel
        self._places, self._timings = places, timings
        self._listeners = listeners or VethListeners()
        self._seldom = Seldom()

    async def run(self, names: PeerNames, healed: Callable[[], Awaitable[None]]) -> NoReturn:
        """Serve one peer until cancelled.

        Args:
            names: the peer's.
            healed: waits until the peer's interfaces may be others.
        """
        listen = partial(self._listeners.listen, names.veth)
        number = partial(self._listeners.index, names.veth)
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    opened, index = await self._kernel.within("", listen)
                except (OSError, NetworkError) as error:
                    if self._seldom.allows(str(error)):
                        log.warning("the proxy for %s: %s", names.peer_id, error)
                    await trio.sleep(self._timings.retry)
                    continue
                listener = trio.SocketListener(trio.socket.from_stdlib_socket(opened))
                async with trio.open_nursery() as listening:
                    attend = partial(self._attend, names.peer_id)
                    listening.start_soon(serve_one, attend, listener, nursery)
                    while await self._kernel.within("", number) == index:
                        await healed()
                    listening.cancel_scope.cancel()
        raise AssertionError("a proxy ends by cancellation only")

    async def _attend(self, peer: str, stream: trio.SocketStream) -> None:
        place = self._places.enter(peer)
        try:
            if place is not None:
                await self.lead(stream)
        except (LiqodError, OSError, trio.BrokenResourceError) as error:
            log.debug("a connection by the proxy ended: %s", error)
        finally:
            if place is not None:
                place.release()

    async def lead(self, caller: trio.SocketStream) -> None:
        """Have a caller led to the API server; done when that has ended.

        Raises:
            LiqodError, OSError, trio.BrokenResourceError: there is no process that leads it.
        """
        request = TunnelRequest(LEAD, lead=self._order)
        async with self._process.attended(request, [caller.socket.fileno()]) as stream:
            # The process has its own copy, and with that the connection's end.
            caller.socket.close()
            # Once for each caller: whoever has taken over that process connects no more often.
            if await stream.receive_some(len(WANTED)) == WANTED:
                await self._give_server(stream)
                await stream.receive_some(1)

    async def _give_server(self, stream: trio.SocketStream) -> None:
        """Hand over a connection to the API server, or answer that there is none."""
        try:
            with trio.move_on_after(self._timings.connect_within):
                server = await self._dial()
                with server.socket:
                    await hand_over(stream, server.socket)
                return
        except OSError as error:
            if self._seldom.allows(str(error)):
                log.warning("a peer asks for the API server, which cannot be reached: %s", error)
        await stream.send_all(NO_SERVER)
