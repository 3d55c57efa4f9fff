"""Namespaces of this cluster that can never be offloaded, by the store of namespaces.

The rule is in :mod:`liqod.model.crossing.exclusions`. A namespace that is not in the store is
judged by its name alone.
"""

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.kube.cache.store import IndexedStore, StoreChange
from liqod.model.crossing.exclusions import namespace_stays

_MARKS = (labels.TENANT_NAMESPACE.encode(), labels.REMOTE_CLUSTER_ID.encode())


class UnoffloadableNamespaces:
    """The namespaces that stay.

    Args:
        own: the namespace where liqod keeps the objects of the whole cluster.
        namespaces: all namespaces, as they are watched.
    """

    def __init__(self, own: str, namespaces: IndexedStore) -> None:
        self._own = own
        self._namespaces = namespaces

    def problem(self, namespace: str) -> str:
        """The reason why a namespace can never be offloaded, one sentence; empty if it can."""
        found = self._namespaces.decode(("", namespace), Partial)
        marks = {} if found is None else found.metadata.labels
        return namespace_stays(namespace, marks, self._own)


def concerns(change: StoreChange) -> bool:
    """True if a change of a namespace may change its :meth:`UnoffloadableNamespaces.problem`."""
    bodies = [body for body in (change.old, change.new) if body is not None]
    return any(mark in body for body in bodies for mark in _MARKS)
