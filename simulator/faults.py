"""Faults on purpose: what a test or a demo makes an API server do wrong.

A :class:`Fault` says which requests it hits and what becomes of them; the first that matches is
used. :meth:`Faults.freeze` is different: the whole server accepts connections and answers nothing,
as a stopped process does, until thawed. To have connections refused, stop the cluster.
"""

import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager

import msgspec
import trio

from liqod.kube.http.httpserver import Drop, HttpRequest, Silence
from simulator.wire.failures import ApiError, expired


class Fault(msgspec.Struct, kw_only=True, eq=False):
    """A fault to inject, and the requests that it hits.

    Attributes:
        verb: the Kubernetes verb (``watch``, ``create``, …) or ``*``.
        path: a regular expression that is searched in the path.
        user: the requesting user, ``""`` for any.
        times: how many requests it hits before it is used up; None for no end.
        delay: seconds before the request is handled; alone, it is then handled as usual.
        status: answer this instead: 410, 429, 500, … .
        retry_after: seconds for the ``Retry-After`` of that answer.
        drop: close the connection without an answer.
        silent: hold the connection and never answer.
        cut: for a watch: end it after so many events, without the end of the stream.
        expire: for a watch: end it with a 410 event after ``cut`` events (or at once).
        empty: for a list or a watch: answer as if there were no such object at all.
        hits: how many requests it has hit.
    """

    verb: str = "*"
    path: str = ""
    user: str = ""
    times: int | None = None
    delay: float = 0.0
    status: int = 0
    retry_after: int = 0
    drop: bool = False
    silent: bool = False
    cut: int | None = None
    expire: bool = False
    empty: bool = False
    hits: int = 0

    def matches(self, verb: str, path: str, user: str) -> bool:
        """True if the fault hits a request."""
        return (
            (self.times is None or self.hits < self.times)
            and self.verb in ("*", verb)
            and self.user in ("", user)
            and re.search(self.path, path) is not None
        )


_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Faults:
    """The faults of one server.

    Attributes:
        epoch: watches that were opened in an earlier one are cut when they wake.
        wake: wakes every watch; set by the server.
    """

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._open = trio.Event()
        self._open.set()
        self.epoch = 0
        self.wake: Callable[[], None] = lambda: None

    def add(self, fault: Fault) -> Fault:
        """Have a fault from now on."""
        self._faults.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Have it no longer."""
        if fault in self._faults:
            self._faults.remove(fault)

    @contextmanager
    def during(self, fault: Fault) -> Iterator[Fault]:
        """Have a fault inside a ``with``."""
        self.add(fault)
        try:
            yield fault
        finally:
            self.remove(fault)

    def clear(self) -> None:
        """Have none, and thaw."""
        self._faults.clear()
        self.thaw()

    def freeze(self) -> None:
        """Accept connections and answer nothing, on old connections either."""
        if self._open.is_set():
            self._open = trio.Event()

    def thaw(self) -> None:
        """Go on as if nothing had been."""
        self._open.set()

    @property
    def frozen(self) -> bool:
        """True while the server is frozen."""
        return not self._open.is_set()

    async def gate(self) -> None:
        """Wait while frozen."""
        if self.frozen:
            await self._open.wait()

    def cut_watches(self) -> None:
        """Cut every watch that is open now."""
        self.epoch += 1
        self.wake()

    async def strike(self, verb: str, request: HttpRequest, user: str) -> Fault | None:
        """Do to a request what its fault says; returns the fault for what a watch still needs.

        Raises:
            Drop, Silence, ApiError: what the fault makes of the request.
        """
        await self.gate()
        fault = next((f for f in self._faults if f.matches(verb, request.path, user)), None)
        if fault is None:
            return None
        fault.hits += 1
        if fault.delay:
            await trio.sleep(fault.delay)
        if fault.drop:
            raise Drop
        if fault.silent:
            raise Silence
        if fault.status:
            raise ApiError(
                fault.status,
                _REASONS.get(fault.status, "InternalError"),
                f"injected fault: {fault.status}",
                retry_after=fault.retry_after,
            )
        return fault

    async def through(
        self, pieces: AsyncGenerator[bytes, None], fault: Fault | None
    ) -> AsyncGenerator[bytes, None]:
        """A watch's pieces, frozen, cut or expired as faults say."""
        left = fault.cut if fault is not None else None
        expire = fault is not None and fault.expire
        if expire and left is None:
            left = 0
        try:
            async for piece in pieces:
                if left is None:
                    await self.gate()
                    yield piece
                    continue
                for line in piece.splitlines(keepends=True):
                    if left <= 0:
                        break
                    left -= 1
                    yield line
                if left <= 0:
                    if expire:
                        yield _expiry()
                        return
                    raise Drop
        finally:
            await pieces.aclose()


def _expiry() -> bytes:
    status = msgspec.json.encode(expired("too old resource version: injected fault").status())
    return b'{"type":"ERROR","object":' + status + b"}\n"
