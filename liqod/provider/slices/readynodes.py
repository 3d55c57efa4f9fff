"""Follows the Ready conditions of the nodes that this cluster lends, for reports to consumers."""

from weakref import WeakKeyDictionary

import msgspec

from liqod.apimachinery import labels
from liqod.kube.cache.informer import Informer
from liqod.kube.cache.store import Change
from liqod.latest import Latest
from liqod.model.objects import conditions
from liqod.model.objects.partial import Node
from liqod.model.peering import nodesready

_node = msgspec.json.Decoder(Node)


class ReadyNodes:
    """Follows the readiness of this cluster's own nodes, as reported to consumers.

    Args:
        informer: follows all Nodes.

    Attributes:
        word: as :func:`liqod.model.peering.nodesready.word`.
    """

    def __init__(self, informer: Informer) -> None:
        self.word = Latest("")
        self._ready: dict[str, bool] = {}
        informer.subscribe(self._on_node)

    def _on_node(self, change: Change) -> None:
        self._ready.pop(change.key[1], None)
        node = None if change.new is None else _read(change.new)
        if node and node.metadata.labels.get(labels.TYPE) != labels.VIRTUAL_NODE_TYPE:
            self._ready[change.key[1]] = conditions.holds(node.status.conditions, "Ready")
        self.word.know(nodesready.word(self._ready.values()))


def _read(body: bytes) -> Node | None:
    try:
        return _node.decode(body)
    except msgspec.DecodeError:
        return None


_known: WeakKeyDictionary[Informer, ReadyNodes] = WeakKeyDictionary()


def ready_nodes(informer: Informer) -> ReadyNodes:
    """The one that sits on an informer; it lives as long as that."""
    found = _known.get(informer)
    if found is None:
        found = _known[informer] = ReadyNodes(informer)
    return found
