"""Follows the addresses and pod networks of this cluster's own nodes.

Nodes come and go while the daemon runs, and each brings a pod network of its own; a peer may claim
neither as the address of a pod (``pod_network``). One look at each change, however many peers ask.
"""

from weakref import WeakKeyDictionary

import msgspec

from liqod.apimachinery import labels
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange
from liqod.model.objects.partial import Node
from liqod.runtime.observable import Notifier

NOTHING: frozenset[str] = frozenset()


_node = msgspec.json.Decoder(Node)


class OwnNetworks:
    """Addresses and networks that a peer's pod cannot have.

    Args:
        informer: follows all Nodes.

    Attributes:
        addresses: of the nodes; virtual ones have none that a pod could claim.
        pod_cidrs: networks of the nodes' pods, textual prefixes.
    """

    def __init__(self, informer: SharedInformer) -> None:
        self.addresses = NOTHING
        self.pod_cidrs = NOTHING
        self._nodes: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        self._news = Notifier()
        informer.subscribe(self._on_node)

    async def changed(self) -> None:
        """Wait until anything changes."""
        await self._news.wait()

    def _on_node(self, change: StoreChange) -> None:
        name = change.key[1]
        found = (NOTHING, NOTHING) if change.new is None else networks_of(change.new)
        if found == self._nodes.get(name, (NOTHING, NOTHING)):
            return
        self._nodes[name] = found
        if not any(found):
            del self._nodes[name]
        before = (self.addresses, self.pod_cidrs)
        self.addresses = NOTHING.union(*(each[0] for each in self._nodes.values()))
        self.pod_cidrs = NOTHING.union(*(each[1] for each in self._nodes.values()))
        if (self.addresses, self.pod_cidrs) != before:
            self._news.notify()


def networks_of(body: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """The addresses of a Node, given as JSON, and the networks of its pods."""
    try:
        node = _node.decode(body)
    except msgspec.DecodeError:
        return NOTHING, NOTHING
    networks = frozenset(each for each in (node.spec.pod_cidr, *node.spec.pod_cidrs) if each)
    if node.metadata.labels.get(labels.TYPE) == labels.VIRTUAL_NODE_TYPE:
        return NOTHING, networks
    return frozenset(each.address for each in node.status.addresses if each.address), networks


_known: WeakKeyDictionary[SharedInformer, OwnNetworks] = WeakKeyDictionary()


def own_networks(informer: SharedInformer) -> OwnNetworks:
    """The one follower of an informer of Nodes; it lives as long as the informer."""
    found = _known.get(informer)
    if found is None:
        found = _known[informer] = OwnNetworks(informer)
    return found
