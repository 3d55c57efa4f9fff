"""The channel to a peer's daemon beside the direct path to its API server, and back to that.

The credentials name a channel where the API server did not answer
directly when the two met. That may end: a firewall is opened, an address becomes reachable. The
direct path is then tried again, and taken when it stays good.

Good is an answer of an API server that proves to be the peer's: where a private address leads to
another host, a connection alone proves nothing. So nothing goes directly before a try of its own
was answered, with the authority of the credentials; :data:`GOOD` in a row suffice, or one where the
channel leads nowhere. Connections by the channel stay until they end by themselves: no watch is
lost. Where the direct path fails again, the channel is used again at once.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NoReturn

import msgspec
import trio

from liqod.consumer.happyeyeballs import AGAIN, Path, first_to_answer
from liqod.errors import LiqodError
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http import proxies
from liqod.kube.http.proxies import Dial
from liqod.kube.http.wire import Wire
from liqod.model.peering.foreigncluster import REACHED

GOOD: Final = 3
"""Tries that must be answered in a row."""
BETWEEN: Final = 20.0
"""Seconds between those."""
LEAST: Final = 5.0
"""Seconds between two tries, regardless of changes."""

Prove = Callable[[Credentials], Awaitable[None]]

log = logging.getLogger(__name__)


def replaceable(credentials: Credentials) -> str:
    """The URL of the channel that they name, where the direct path is as good; else empty.

    Without the listener's key it was set by the administrator (``--proxy-url``). Where nothing
    proves whose server answers, the direct path is never as good.
    """
    url = credentials.proxy or ""
    if not url.startswith(proxies.CHANNEL) or not proxies.listener_of(url)[0]:
        return ""
    provable = credentials.server.startswith("https://") and credentials.ca
    return url if provable and not credentials.insecure else ""


def without(credentials: Credentials) -> Credentials:
    """The same credentials without the channel."""
    return msgspec.structs.replace(credentials, proxy=None)


class ChannelFallback:
    """Makes the connections of credentials that name a channel.

    Args:
        direct: makes a TCP connection.
        changed: called when the other path is taken from now on.

    Attributes:
        path: the path that is taken, ``channel`` at first.
    """

    def __init__(self, direct: Dial, changed: Callable[[], None]) -> None:
        self._direct, self._changed = direct, changed
        self.path: Path = "channel"

    async def connect(self, url: str, host: str, port: int, /) -> Wire:
        """A connection. Raises Unreachable."""
        channel = partial(proxies.through(self._direct, url), host, port)
        if self.path == "channel":
            return await channel()
        paths: dict[Path, Callable[[], Awaitable[Wire]]] = {
            "direct": partial(self._direct, host, port),
            "channel": channel,
        }
        path, wire = await first_to_answer(paths, ("direct", "channel"))
        self.take(path)
        return wire

    def take(self, path: Path) -> None:
        """Take that path from now on."""
        if path != self.path:
            log.info("the peer's API server is reached %s from now on", REACHED[path])
            self.path = path
            self._changed()

    async def follow(
        self,
        current: Callable[[], Credentials | None],
        answers: Callable[[], bool],
        changed: Callable[[], Awaitable[None]],
        prove: Prove,
    ) -> NoReturn:
        """Try the direct path now and then while the channel is in use.

        Args:
            current: the credentials; None where there are none.
            answers: whether the peer's API server answers now, on the path that is taken.
            changed: waits until either may have changed.
            prove: has the server of credentials answer. Raises a LiqodError.
        """
        good = failures = 0
        tried_at = trio.current_time()
        while True:
            if (credentials := current()) is None or not replaceable(credentials):
                good = failures = 0
                await changed()
                continue
            pause = BETWEEN if good or self.path == "direct" else AGAIN.delay(failures + 1)
            with trio.move_on_at(tried_at + pause):
                await changed()
            if self.path == "direct":
                good = failures = 0
                tried_at = trio.current_time()
                if not answers():
                    self.take("channel")
                continue
            await trio.sleep_until(tried_at + LEAST)
            tried_at = trio.current_time()
            try:
                await prove(without(credentials))
            except LiqodError as error:
                log.debug("the direct way is no good: %s", error)
                good, failures = 0, failures + 1
                continue
            good += 1
            if good >= GOOD or not answers():
                self.take("direct")
