"""The workers of one peer, one for each reflector."""

from collections.abc import Mapping

from liqod.apimachinery.kinds import Kind
from liqod.plugins.contracts import VirtualNode
from liqod.reflection.view import Dependencies, Key
from liqod.reflection.worker import Worker


class Workers(dict[str, Worker]):
    """The workers of one peer by the names of their reflectors.

    Args:
        dependencies: the objects that each decision read.
    """

    def __init__(self, dependencies: Dependencies) -> None:
        super().__init__()
        self._dependencies = dependencies
        self._asked: dict[str, VirtualNode] | None = None
        """The nodes of the last evaluation of :meth:`offered`."""
        self._offered: frozenset[str] = frozenset()

    def offered(self, nodes: Mapping[str, VirtualNode]) -> frozenset[str]:
        """The names of the reflectors whose objects the peer takes, on any node."""
        if self._asked != nodes:
            self._asked = dict(nodes)
            self._offered = frozenset(name for name, worker in self.items() if worker.serves())
        return self._offered

    def read_changed(self, kind: Kind, key: Key) -> None:
        """Have the objects reconciled that depend on one that has changed."""
        for reflector, namespace, name in self._dependencies.readers(kind, key):
            self[reflector].enqueue((namespace, name))
