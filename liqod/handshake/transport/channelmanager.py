"""Kept channels as paths to peers' API servers: ``liqod://HOST:PORT`` in the place of a proxy.

A client that dials by such a URL (:mod:`liqod.kube.http.proxies`) gets a stream of the channel that
is kept to that listener, of which there is one for all clients. It is opened when it is first
wanted; where it breaks, or cannot be opened, it is tried again after a pause that doubles, for as
long as anybody wants it, and at once when the listener has let this cluster in anew. A client that
wants it meanwhile gets an error with the reason, and is not kept waiting.

A URL without an address is of a lender that dials this cluster: the side that is dialled keeps its
channel (:mod:`liqod.handshake.requests.reverseconnections`).
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, NoReturn

import trio

from liqod.errors import LiqodError, Unauthorized, Unconnected
from liqod.handshake.protocol.outputs import ExpectedPeer
from liqod.handshake.timings import ORDINARY, HandshakeTimings
from liqod.handshake.transport.channel import Channel
from liqod.handshake.transport.interfaces import SessionOver
from liqod.handshake.transport.localidentity import SelectIdentity
from liqod.handshake.transport.peerdialler import DialledSession, PeerDialler
from liqod.handshake.transport.peersession import API
from liqod.kube.http import proxies
from liqod.kube.http.wire import Wire
from liqod.runtime.backoff import Backoff

PAUSES: Final = Backoff(first=0.5, last=10.0)
"""Seconds between tries."""
STABLE: Final = 10.0
"""Seconds that a channel must have stood for the next try to come at once."""
UNKNOWN: Final = "unknown"
"""The code that a listener sends to a cluster that is no tenant. It has proved its key: so it is
the provider's word."""
MOST: Final = 1024
"""Channels that are kept at once."""

log = logging.getLogger(__name__)


DialSession = Callable[[Sequence[str], ExpectedPeer], AbstractAsyncContextManager[DialledSession]]


def by_own_key(own: SelectIdentity, proxy: str = "") -> DialSession:
    """Meets listeners as this cluster.

    Args:
        own: this cluster with its key, as it is now, towards somebody.
        proxy: ``[handshake] proxy``.
    """

    @asynccontextmanager
    async def meet(
        addresses: Sequence[str], expected: ExpectedPeer
    ) -> AsyncIterator[DialledSession]:
        async with PeerDialler(own, proxy=proxy).meet(addresses, expected) as meeting:
            yield meeting

    return meet


class _KeptChannel:
    """The connection to one listener.

    Attributes:
        channel: while there is one.
        why: why there is none.
        refused: whether that is the listener's word: this cluster is no tenant there.
        used: when somebody wanted it last.
        tried: set when the present try has ended, well or not.
        renewed: set when the next try is to come at once.
    """

    def __init__(self) -> None:
        self.channel: Channel | None = None
        self.why = ""
        self.refused = False
        self.used = trio.current_time()
        self.tried = trio.Event()
        self.renewed = trio.Event()

    def is_idle(self, after: float) -> bool:
        """True if nobody has used it for so many seconds."""
        streams = self.channel.open_streams if self.channel is not None else 0
        return not streams and trio.current_time() - self.used > after


async def no_reverse_connection(key: str) -> Wire:
    """Raises Unconnected: no lender dials the owner of these connections."""
    raise Unconnected(
        "that cluster dials this one's daemon, which alone reaches it: no command goes that way"
    )


async def same_key(key: str) -> str:
    """Returns the same key: none has followed another."""
    return key


class ChannelManager:
    """Keeps the channels; a call with a URL is a connection by it.

    As :data:`liqod.kube.http.proxies.CHANNELS`.

    Args:
        meet: meets listeners.
        by_lender: makes a connection by the channel of the lender with a key (SHA-256,
            hexadecimal) that has dialled this cluster. Raises Unconnected.
        present: the key that a listener has now, whose key was that.
    """

    def __init__(
        self,
        meet: DialSession,
        by_lender: Callable[[str], Awaitable[Wire]] = no_reverse_connection,
        present: Callable[[str], Awaitable[str]] = same_key,
        timings: HandshakeTimings = ORDINARY,
    ) -> None:
        self._timings = timings
        self._meet, self._by_lender, self._present = meet, by_lender, present
        self._channels: dict[str, _KeptChannel] = {}
        self._nursery: trio.Nursery | None = None

    def __len__(self) -> int:
        return len(self._channels)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Keep channels until cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None
        raise AssertionError("channels are kept until cancelled")

    async def __call__(self, url: str) -> Wire:
        """A connection to the API server behind a listener.

        Raises:
            Unauthorized: this cluster is no tenant there, as the API server itself would say.
            Unconnected: there is no channel, and why.
        """
        key, addresses = proxies.listener_of(url)
        if not addresses:
            return await self._by_lender(key)
        way = self._channels.get(url) or self._add(url)
        way.used = trio.current_time()
        if way.channel is None or way.channel.why is not None:
            await way.tried.wait()
        if way.channel is None:
            problem = Unauthorized if way.refused else Unconnected
            raise problem(f"{proxies.shown(url)}: {way.why}")
        return await way.channel.open(API)

    def renew(self, key: str) -> None:
        """Try at once again whatever leads to the listener with a key: it has let this cluster in.

        Args:
            key: SHA-256 of the listener's key, hexadecimal.
        """
        for url, way in self._channels.items():
            if proxies.listener_of(url)[0] == key:
                way.refused = False  # as of before
                way.renewed.set()

    def _add(self, url: str) -> _KeptChannel:
        if self._nursery is None:
            raise Unconnected(f"{proxies.shown(url)}: no channels are kept now")
        if len(self._channels) >= MOST:
            raise Unconnected(f"{proxies.shown(url)}: {MOST} channels are kept already")
        way = self._channels[url] = _KeptChannel()
        self._nursery.start_soon(self._keep, url, way)
        return way

    async def _keep(self, url: str, way: _KeptChannel) -> None:
        failures = 0
        try:
            while not way.is_idle(self._timings.channel_idle):
                again = await self._try(url, way)
                failures = 0 if again is None else failures + 1
                pause = max(PAUSES.delay(failures), again or 0.0) if failures else 0.0
                with trio.move_on_after(pause):
                    await way.renewed.wait()
                    failures = 0
                way.tried, way.renewed = trio.Event(), trio.Event()
        finally:
            way.channel, way.why = None, way.why or "it is not kept any more"
            way.tried.set()
            del self._channels[url]

    async def _try(self, url: str, way: _KeptChannel) -> float | None:
        """Have a channel until it ends.

        Returns:
            Seconds after which to try again at the earliest; None where there was one for long.
        """
        key, addresses = proxies.listener_of(url)
        stood, again = float("inf"), 0.0
        try:
            expected = ExpectedPeer(key=await self._present(key))
            async with self._meet(addresses, expected) as meeting:
                way.channel = await meeting.attach()
                stood = way.used = trio.current_time()
                way.tried.set()
                log.info("a channel to %s is open", proxies.shown(url))
                way.refused = False
                await self._use(meeting, way)
        except LiqodError as error:
            way.why = str(error)
            way.refused = isinstance(error, SessionOver) and error.closed.code == UNKNOWN
            if isinstance(error, SessionOver):
                again = float(error.closed.again or 0)
        finally:
            way.channel = None
        if not way.tried.is_set():
            log.debug("no channel to %s: %s", proxies.shown(url), way.why)
            way.tried.set()
            return again
        log.info("the channel to %s has ended: %s", proxies.shown(url), way.why)
        return None if trio.current_time() - stood > STABLE else again

    async def _use(self, meeting: DialledSession, way: _KeptChannel) -> None:
        while not way.is_idle(self._timings.channel_idle):
            with trio.move_on_after(self._timings.channel_check):
                closed = await meeting.wait_over()
                way.why, way.refused = closed.reason or closed.code, closed.code == UNKNOWN
                return
        way.why = "nobody uses it"
