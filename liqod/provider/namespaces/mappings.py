"""Finds the namespaces here that belong to a peer: those that its NamespaceMap made.

The annotation that ties a namespace to the map of this tenant, and the label with the peer's id,
decide; both are written by :mod:`liqod.provider.namespaces.namespacemaps` only, no consumer can
write Namespaces. The contents of a peer's own objects decide nothing.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.watched import Watched

_decoder = msgspec.json.Decoder(Partial)


class NamespaceMappings:
    """The peer's namespaces here, and the watches in them.

    Args:
        peer: the peer's cluster id.
        tenant: its tenant namespace here.
        inside: the watches in each of its namespaces while it is the peer's, and nowhere else.

    Attributes:
        leaving: those of them that are being deleted, in which nothing can be created.
    """

    def __init__(self, peer: str, tenant: str, *inside: Watched[Any]) -> None:
        self._peer = peer
        self._prefix = f"{tenant}/"
        self._inside = inside
        self._names: set[str] = set()
        self.leaving: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._names))

    def take_in(self, change: StoreChange) -> str:
        """Take in a change of a Namespace.

        Returns:
            Its name where it was the peer's until now and is no more; else an empty text.
        """
        name = change.key[1]
        namespace = None if change.new is None else _decoder.decode(change.new)
        if namespace is None or not self._is_mine(namespace):
            self.leaving.discard(name)
            if name not in self._names:
                return ""
            self._names.discard(name)
            for each in self._inside:
                each.unfollow(name)
            return name
        if namespace.metadata.deletion_timestamp is not None:
            self.leaving.add(name)
        elif name in self.leaving:
            # Another namespace of that name: what is in it may have been seen before it was.
            self.leaving.discard(name)
            for each in self._inside:
                each.unfollow(name)
        self._names.add(name)
        for each in self._inside:
            each.follow(name)
        return ""

    def _is_mine(self, namespace: Partial) -> bool:
        metadata = namespace.metadata
        return metadata.labels.get(labels.REMOTE_CLUSTER_ID) == self._peer and (
            metadata.annotations.get(labels.MANAGED_BY_NAMESPACE_MAP, "").startswith(self._prefix)
        )


def note_end(ended: set[Key], change: StoreChange) -> None:
    """Keep the keys of the objects whose deletion a watch has reported.

    The absence of others is only known from a list: the API server is to be read.
    """
    if change.new is not None:
        ended.discard(change.key)
    elif not change.listed:
        ended.add(change.key)
