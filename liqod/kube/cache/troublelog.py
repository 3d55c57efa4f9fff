"""Logs the problems of informers: each once, for any number of informers."""

import logging
from collections.abc import Callable

import trio

from liqod.apimachinery.kinds import Kind
from liqod.errors import LiqodError, Overloaded, ProtocolError, TransientError
from liqod.kube.cache.outage import LOG_AGAIN_AFTER
from liqod.kube.client import Client

log = logging.getLogger("liqod.kube.cache.informer")

MOST_NAMED = 256
"""Most objects that are logged as too large to be read, and remembered as such."""


class TroubleLog:
    """Logs the problems of one informer, and remembers the logged ones.

    Args:
        client: holds the informers that cannot reach the server; the first of them logs for all,
            and the first that recovers wakes the others.
        kind: the kind followed.
        wake: makes the informer try again now.
    """

    def __init__(self, client: Client, kind: Kind, wake: Callable[[], None]) -> None:
        self._client = client
        self._wake = wake
        self._kind = kind
        self._logged_at = float("-inf")
        self._logged = False
        self._oversize: set[str] = set()

    def fails(self, error: LiqodError) -> None:
        """Log that the informer cannot follow now."""
        extra = {"server": self._client.server, "reason": str(error)}
        if isinstance(error, TransientError | ProtocolError):
            nonsense = isinstance(error, ProtocolError)
            # A server that starts, or is overloaded, answers some informers and not others.
            seldom = nonsense or isinstance(error, Overloaded)
            told = self._client.outage.start(self, self._wake, seldom=seldom)
            does = "answers nonsense" if nonsense else "does not answer"
            level = logging.WARNING if told else logging.DEBUG
            self._log(level, f"the API server {does}", **extra)
        elif trio.current_time() - self._logged_at >= LOG_AGAIN_AFTER:
            self._logged_at, self._logged = trio.current_time(), True
            self._log(logging.WARNING, "not following", **extra)

    def follows(self) -> None:
        """Log that the informer follows again."""
        server = self._client.server
        if self in self._client.outage:
            level = logging.INFO if self._client.outage.end(self) else logging.DEBUG
            self._client.wake()
            self._log(level, "the API server answers again", server=server)
        elif self._logged:
            self._log(logging.INFO, "following again", server=server)
        self._logged = False

    def ends(self) -> None:
        """Remove this informer from the outage."""
        self._client.outage.end(self)

    def oversize(self, name: str) -> None:
        """Log an object that is too large or too deeply nested, once; only so many of them."""
        if name not in self._oversize and len(self._oversize) < MOST_NAMED:
            self._oversize.add(name)
            self._log(logging.WARNING, "object not readable", object=name)

    def _log(self, level: int, text: str, **extra: str) -> None:
        log.log(level, text, extra={"kind": self._kind.plural, **extra})
