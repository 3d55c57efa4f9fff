"""Which namespaces here belong to a peer: those that its NamespaceMap made.

The annotation that ties a namespace to the map of this tenant, and the label with the peer's id,
decide; both are written by :mod:`liqod.provider.namespaces.namespacemaps` only, no consumer can
write Namespaces. What a peer puts into its own objects decides nothing.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from liqod.kube.cache.store import Change, Key
from liqod.kube.meta import Partial
from liqod.model import labels

_decoder = msgspec.json.Decoder(Partial)


class NamespaceMappings:
    """The peer's namespaces, followed.

    Args:
        peer: the peer's cluster id.
        tenant: its tenant namespace here.
        opened: called with a namespace that is the peer's now; gives what ends its following.
        closed: called with one that no longer is.

    Attributes:
        leaving: those of them that are being deleted, in which nothing can be created.
    """

    def __init__(
        self,
        peer: str,
        tenant: str,
        *,
        opened: Callable[[str], Sequence[Callable[[], None]]],
        closed: Callable[[str], None],
    ) -> None:
        self._peer = peer
        self._prefix = f"{tenant}/"
        self._opened = opened
        self._closed = closed
        self._followed: dict[str, Sequence[Callable[[], None]]] = {}
        self.leaving: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self._followed

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._followed))

    def handle(self, change: Change) -> None:
        """Take in what happened to a Namespace; a handler for its informer."""
        name = change.key[1]
        namespace = None if change.new is None else _decoder.decode(change.new)
        if namespace is None or not self._is_mine(namespace):
            self.leaving.discard(name)
            if name in self._followed:
                self._end(name)
                self._closed(name)
            return
        if namespace.metadata.deletion_timestamp is not None:
            self.leaving.add(name)
        else:
            self.leaving.discard(name)
        if name not in self._followed:
            self._followed[name] = ()  # what is there already is told before there is an end to it
            self._followed[name] = self._opened(name)

    def end(self) -> None:
        """Follow none of them any more."""
        for name in self:
            self._end(name)

    def _end(self, name: str) -> None:
        for end in self._followed.pop(name):
            end()

    def _is_mine(self, namespace: Partial) -> bool:
        metadata = namespace.metadata
        return metadata.labels.get(labels.REMOTE_CLUSTER_ID) == self._peer and (
            metadata.annotations.get(labels.MANAGED_BY_NAMESPACE_MAP, "").startswith(self._prefix)
        )


def note_end(ended: set[Key], change: Change) -> None:
    """Keep the keys of the objects of whose end a watch has told.

    That others are not there is no more than what a list says: the API server is to be asked.
    """
    if change.new is not None:
        ended.discard(change.key)
    elif not change.listed:
        ended.add(change.key)
