"""The watch protocol: parses a stream of JSON lines into events.

Lines are cut from all bytes of the socket, so that it is drained before any work is done; a line
that is too long is skipped without being held.
"""

from collections import deque
from contextlib import suppress
from time import thread_time as clock
from typing import NamedTuple

import msgspec
import trio

from liqod.apimachinery import rawobjects
from liqod.apimachinery.meta import Partial
from liqod.apimachinery.rawobjects import MAX_OBJECT, Slim
from liqod.errors import ProtocolError, Unreachable
from liqod.kube.failures import ApiStatus, error_of
from liqod.kube.http.connection import FULL
from liqod.kube.http.cpubudget import CpuBudget, Turn
from liqod.kube.http.transport import ApiStream

MAX_LINE = MAX_OBJECT + 64
"""Most bytes of one event: an object and its envelope."""
AFTER_SKIP = 60.0
"""Seconds after which a watch ends that had to skip an event: only a list names its object, and an
object that changes constantly must not cause constant lists of the kind."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark after the initial objects (KEP-3157)."""


class WatchEvent(NamedTuple):
    """A change of one object.

    Attributes:
        type: ``ADDED``, ``MODIFIED`` or ``DELETED``.
        item: the object.
    """

    type: str
    item: Slim


class Bookmark(NamedTuple):
    """No change, but progress: everything up to this version has been sent.

    Attributes:
        resource_version: resume from here.
        initial_end: the initial objects are complete.
    """

    resource_version: str
    initial_end: bool


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


_CHANGES = ("ADDED", "MODIFIED", "DELETED")
_PLAIN = tuple((f'{{"type":"{each}","object":'.encode(), each) for each in _CHANGES)
"""The beginning of a change's line, as API servers write it."""
_envelope = msgspec.json.Decoder(_Envelope)
_partial = msgspec.json.Decoder(Partial)
_status = msgspec.json.Decoder(ApiStatus)


def parse(line: bytes) -> WatchEvent | Bookmark:
    """Parse one line of a watch.

    Raises:
        Expired, Overloaded …: the error of an ``ERROR`` event, by which the server ends the watch.
        ProtocolError: it is no event.
        RecursionError: its object is nested too deeply to be read.
    """
    for begin, change in _PLAIN:
        if line.startswith(begin) and line.endswith(b"}"):
            # The envelope has no other field then: the object is decoded once, not twice. A line
            # that does not fit is read as a whole below, or refused there.
            with suppress(ProtocolError):
                return WatchEvent(change, rawobjects.slim_raw(line[len(begin) : -1]))
    try:
        envelope = _envelope.decode(line)
        if envelope.type in _CHANGES:
            return WatchEvent(envelope.type, rawobjects.slim_raw(envelope.object))
        if envelope.type == "BOOKMARK":
            meta = _partial.decode(envelope.object).metadata
            return Bookmark(
                meta.resource_version, meta.annotations.get(INITIAL_EVENTS_END) == "true"
            )
        if envelope.type == "ERROR":
            raise error_of(_status.decode(envelope.object))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"nonsense in a watch: {error}") from error
    raise ProtocolError(f"unknown watch event {envelope.type[:40]!r}")


class Lines:
    """Cuts bytes into lines; drops those that are longer than ``limit``.

    Attributes:
        skipped: number of dropped lines.
        blank: number of empty lines; an API server sends none.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self.skipped = self.blank = 0
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines completed by these bytes, without their ends; empty ones are left out."""
        *ends, rest = data.split(b"\n")
        lines = []
        for end in self._filled(ends):
            self._keep(end)
            if self._size > self._limit:
                self.skipped += 1
            elif line := b"".join(self._parts):
                lines.append(line)
            self._parts, self._size = [], 0
        self._keep(rest)
        return lines

    def _filled(self, ends: list[bytes]) -> list[bytes]:
        """The lines that are not empty: thousands of empty ones must cost almost nothing."""
        first = 1 if self._size else 0
        self.blank += ends[first:].count(b"")
        return ends[:first] + list(filter(None, ends[first:]))

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            self._parts = []
        elif part:
            self._parts.append(part)


class WatchStream:
    """An open watch.

    Attributes:
        stream: its connection.
        last_contact: time (``trio.current_time``) of the last byte.
    """

    def __init__(self, stream: ApiStream, budget: CpuBudget | None = None) -> None:
        self.stream = stream
        self.last_contact = trio.current_time()
        self._lines = Lines()
        self._pending: deque[bytes] = deque()
        self._turn = Turn(budget)
        self._full = False
        self._unreadable = 0
        self._ends = float("inf")

    @property
    def skipped(self) -> int:
        """The number of events that were too large, or too deeply nested, to be read."""
        return self._lines.skipped + self._unreadable

    async def next(self, silence: float) -> WatchEvent | Bookmark | None:
        """Wait for the next event; None at the end of the watch, or some time after a skipped one.

        Args:
            silence: seconds to wait for a byte.

        Raises:
            Unreachable: the connection broke, or nothing came for ``silence`` seconds.
            Expired, Overloaded, ProtocolError …: see :func:`parse`.
        """
        while True:
            while not self._pending:
                if not await self._receive(silence):
                    return None
            line = self._pending.popleft()
            await self._turn.spend(len(line), backlog=self._full or bool(self._pending))
            try:
                return parse(line)
            except RecursionError:
                self._unreadable += 1
                self._end_soon()

    def _end_soon(self) -> None:
        self._ends = min(self._ends, trio.current_time() + AFTER_SKIP)

    async def _receive(self, silence: float) -> bool:
        """Read the received bytes; False at the end."""
        data: bytes | None = None
        began = clock()
        with trio.move_on_at(min(self._ends, trio.current_time() + silence)):
            data = await self.stream.receive()
        if data is None:
            if trio.current_time() >= self._ends:
                return False
            raise Unreachable(f"the watch was silent for {silence:g} s")
        self._turn.exclude(clock() - began)
        self._full = len(data) >= FULL
        self.last_contact = trio.current_time()
        skipped, blank = self._lines.skipped, self._lines.blank
        self._pending.extend(self._lines.feed(data))
        if self._lines.skipped > skipped:
            self._end_soon()
        blank = self._lines.blank - blank
        if data and (blank or not self._pending):
            await self._turn.spend(len(data), objects=blank, backlog=self._full)
        return bool(data)
