"""Which namespaces here belong to a peer: those that its NamespaceMap made.

The annotation that ties a namespace to the map of this tenant, and the label with the peer's id,
decide; both are written by :mod:`liqod.provider.namespacemaps` only, no consumer can write
Namespaces. What a peer puts into its own objects decides nothing.
"""

from collections.abc import Callable

import msgspec

from liqod.kube.meta import Partial
from liqod.kube.store import Change
from liqod.model import labels

_decoder = msgspec.json.Decoder(Partial)


class Mapped:
    """The peer's namespaces, followed.

    Args:
        peer: the peer's cluster id.
        tenant: its tenant namespace here.
        opened: called with a namespace that is the peer's now.
        closed: called with one that no longer is.

    Attributes:
        leaving: those of them that are being deleted, in which nothing can be created.
    """

    def __init__(
        self,
        peer: str,
        tenant: str,
        *,
        opened: Callable[[str], None],
        closed: Callable[[str], None],
    ) -> None:
        self._peer = peer
        self._prefix = f"{tenant}/"
        self._opened = opened
        self._closed = closed
        self._names: set[str] = set()
        self.leaving: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def handle(self, change: Change) -> None:
        """Take in what happened to a Namespace; a handler for its informer."""
        name = change.key[1]
        namespace = None if change.new is None else _decoder.decode(change.new)
        if namespace is None or not self._is_mine(namespace):
            self.leaving.discard(name)
            if name in self._names:
                self._names.discard(name)
                self._closed(name)
            return
        if namespace.metadata.deletion_timestamp is not None:
            self.leaving.add(name)
        else:
            self.leaving.discard(name)
        if name not in self._names:
            self._names.add(name)
            self._opened(name)

    def _is_mine(self, namespace: Partial) -> bool:
        metadata = namespace.metadata
        return metadata.labels.get(labels.REMOTE_CLUSTER_ID) == self._peer and (
            metadata.annotations.get(labels.MANAGED_BY_NAMESPACE_MAP, "").startswith(self._prefix)
        )
