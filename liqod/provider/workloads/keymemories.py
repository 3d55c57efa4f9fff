"""The facts that a controller remembers of objects, found by namespace and forgotten together."""

from typing import Any, TypeVar

from liqod.kube.cache.store import Key

Memory = dict[Key, Any] | set[Key]
M = TypeVar("M", bound=Memory)


class KeyMemories:
    """Remembers facts of objects by their keys.

    Attributes:
        every: all that is remembered: facts by key, and sets of keys.
    """

    def __init__(self) -> None:
        self.every: list[Memory] = []

    def add(self, memory: M) -> M:
        """Add a memory, and return it."""
        self.every.append(memory)
        return memory

    def within(self, namespace: str) -> set[Key]:
        """The keys of a namespace of which something is remembered."""
        return {key for each in self.every for key in each if key[0] == namespace}

    def forget(self, key: Key) -> None:
        """Forget an object."""
        for each in self.every:
            if isinstance(each, dict):
                each.pop(key, None)
            else:
                each.discard(key)
