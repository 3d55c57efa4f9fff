"""Specs of objects that are being written in this cluster, for their replicas at the same time.

A replica follows what the API server shows of its source. The writer of a source may have the
replica changed beside it, so that neither waits for the other. It ends as it does without: the
source decides, and where it is not written, its replica is made as it is again.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import ObjectMeta, Partial

Json = Mapping[str, Any]
Source = tuple[Kind, str]
"""Kind and name of an object that has a replica."""
LONGEST: Final = 0.02
"""Seconds that a write waits at most for the follower, which may be busy."""


@dataclass
class Writing:
    """A change of a source's spec that is being written.

    Attributes:
        spec: as it is to be.
        before: the source's metadata, by which the change was decided.
        generation: the source's once it is written; 0 before.
        followed: set once the follower has read it, or where there is none.
    """

    spec: Json
    before: ObjectMeta
    generation: int = 0
    followed: trio.Event = field(default_factory=trio.Event)

    async def follower(self) -> None:
        """Wait until the follower is at it: the replica's way to those who wait is longer, and each
        request keeps the processor from the next."""
        with trio.move_on_after(LONGEST):
            await self.followed.wait()

    def done(self, written: Partial) -> None:
        """Take note of the answer."""
        self.generation = written.metadata.generation

    def is_due(self, uid: str, generation: int) -> bool:
        """True if a source of this UID and generation is still to become what is being written."""
        until = self.generation or self.before.generation + 1
        return uid == self.before.uid and self.before.generation <= generation < until


class Foretold:
    """The specs that are being written, of one peer's sources, while there is a follower."""

    def __init__(self) -> None:
        self._writing: dict[Source, Writing] = {}
        self._follow: Callable[[Source], None] | None = None

    @contextmanager
    def following(self, follow: Callable[[Source], None]) -> Iterator[None]:
        """Notify of each source that is foretold, or is not written after all."""
        self._follow = follow
        try:
            yield
        finally:
            self._follow = None
            self._writing.clear()

    @contextmanager
    def writing(self, source: Source, spec: Json, before: ObjectMeta) -> Iterator[Writing]:
        """Foretell a spec while it is written; one that comes to nothing is forgotten.

        Args:
            source: the object.
            spec: all of its spec, as it is to be.
            before: its metadata, by which that was decided.
        """
        writing = Writing(spec, before)
        if self._follow is not None:
            self._writing[source] = writing
            self._follow(source)
        else:
            writing.followed.set()
        try:
            yield writing
        finally:
            if not writing.generation and self._writing.get(source) is writing:
                del self._writing[source]
                if self._follow is not None:
                    self._follow(source)

    def spec(self, source: Source, uid: str, generation: int) -> Json | None:
        """The spec that a source is about to have; None where it is as it stays.

        Args:
            source: the object.
            uid: its UID, as the API server shows it.
            generation: its generation, likewise.
        """
        writing = self._writing.get(source)
        if writing is None:
            return None
        writing.followed.set()
        if writing.is_due(uid, generation):
            return writing.spec
        del self._writing[source]
        return None
