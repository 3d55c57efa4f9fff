"""The path to a peer's API server: direct, or in-band, which is through the tunnel.

In-band is taken where the direct path does not answer and the networks are joined. Then the second
address of the peer's external range is dialled, where a peer that lets this cluster in has
its API server (``in_band`` there); one that does not lets nothing through. TLS is as on the direct
path: the same name and the same authority, so that no other server can take its place.

The path that was found is kept. In-band, the direct one is tried again after
:data:`.happyeyeballs.AGAIN`, and ever more seldom; it is taken back when it answers. Channels are
in :mod:`.channelfallback`.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import trio

from liqod.consumer.channelfallback import ChannelFallback, replaceable, without
from liqod.consumer.happyeyeballs import AGAIN, HEAD_START, Path, first_to_answer
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http import proxies
from liqod.kube.http.proxies import Dial
from liqod.kube.http.wire import Wire
from liqod.model.network.ranges import server_in
from liqod.peers.peernetwork import PeerNetwork

SERVER_PORT: Final = 6443
"""The port of the API server behind the tunnel, regardless of its port elsewhere."""

log = logging.getLogger(__name__)


class ServerDialer:
    """Makes the connections to one peer's API server.

    Args:
        direct: makes a TCP connection.
        network: the network that is joined with the peer.
        changed: called when another path is taken from now on.
        head_start: seconds that the preferred path has to itself.

    Attributes:
        path: the path of the newest connection among those that name no proxy.
        fallback: makes those of credentials that name a channel.
    """

    def __init__(
        self,
        direct: Dial,
        network: PeerNetwork,
        changed: Callable[[], None] = lambda: None,
        head_start: float = HEAD_START,
    ) -> None:
        self._direct, self._head_start = direct, head_start
        self._network = network
        self._changed = changed
        self.path: Path = "direct"
        self.fallback = ChannelFallback(direct, changed)
        self._tries = 0
        self._again_at = float("-inf")

    def to(self, credentials: Credentials) -> tuple[Credentials, Dial]:
        """Credentials to connect with, and the dialler for them.

        A proxy that they name was set by the administrator. A channel that the daemon found when
        the direct path did not answer is one of two paths.
        """
        url = replaceable(credentials)
        if url:
            return without(credentials), partial(self.fallback.connect, url)
        return credentials, self._direct if credentials.proxy else self

    def path_of(self, credentials: Credentials) -> Path:
        """The path of connections with these credentials."""
        if not credentials.proxy:
            return self.path
        if replaceable(credentials):
            return self.fallback.path
        if credentials.proxy.startswith(proxies.CHANNEL):
            return "channel"
        ranges = self._network.ranges
        host = urlsplit(credentials.proxy).hostname or ""
        return "in-band" if ranges is not None and host in ranges.seen else "direct"

    def due(self, credentials: Credentials) -> bool:
        """True if it is time to try the direct path again."""
        in_band = not credentials.proxy and self.path == "in-band"
        return in_band and trio.current_time() >= self._again_at

    async def __call__(self, host: str, port: int, /) -> Wire:
        """A connection. Raises Unreachable, with the fault of the direct path."""
        address = self._address()
        if not address:
            self._take("direct")
            return await self._direct(host, port)
        paths: dict[Path, Callable[[], Awaitable[Wire]]] = {
            "direct": partial(self._direct, host, port),
            "in-band": partial(self._direct, address, SERVER_PORT),
        }
        order: tuple[Path, Path] = ("direct", "in-band")
        kept = self.path == "in-band" and trio.current_time() < self._again_at
        order = order[::-1] if kept else order
        path, wire = await first_to_answer(paths, order, self._head_start)
        self._take(path, tried=not kept)
        return wire

    def _address(self) -> str:
        """The in-band address of the peer's API server; empty where there is no path."""
        ranges = self._network.ranges
        return server_in(ranges.seen.external) if self._network.connected and ranges else ""

    def _take(self, path: Path, *, tried: bool = True) -> None:
        if path != self.path:
            log.info("the peer's API server is reached %s from now on", path)
            self.path, self._tries = path, 0
            self._changed()
        if path == "in-band" and tried:
            self._tries += 1
            self._again_at = trio.current_time() + AGAIN.delay(self._tries)
