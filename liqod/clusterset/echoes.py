"""The changes that this cluster's own last writes are, as watches report them: nothing follows."""

from typing import Final

import msgspec

from liqod.apimachinery.meta import Partial
from liqod.kube.cache.store import StoreChange

KEPT: Final = 1024
"""Writes that are known until they are reported; the oldest are forgotten."""


class Echoes:
    """The writes of objects, by the versions before and after them.

    A change that leads from one to the other is the write and nothing else.
    """

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], str] = {}
        """The versions before, by UID and the version after; the oldest first."""

    def note(self, before: str, written: Partial | None) -> None:
        """Take note of a write.

        Args:
            before: the version of the object that was compared; empty for one that was created.
            written: the answer; None where nothing was written.
        """
        if written is None:
            return
        meta = written.metadata
        self._before[meta.uid, meta.resource_version] = before
        if len(self._before) > KEPT:
            del self._before[next(iter(self._before))]

    def has(self, change: StoreChange) -> bool:
        """True if a change is such a write, of which each is reported once."""
        if change.new is None:
            return False
        meta = msgspec.json.decode(change.new, type=Partial).metadata
        before = self._before.pop((meta.uid, meta.resource_version), None)
        return before == version_of(change.old)


def version_of(body: bytes | None) -> str:
    """The version of an object of its JSON; empty for none."""
    if body is None:
        return ""
    return msgspec.json.decode(body, type=Partial).metadata.resource_version
