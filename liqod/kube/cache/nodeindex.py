"""Index of objects by node: each change is read once, for any number of peers.

Every peer needs the few pods that are bound to its virtual nodes, and all of them share one watch
of pods. A :class:`NodeIndex` subscribes to that watch once, reads ``spec.nodeName`` of each
change once, and notifies only the followers of that node.
"""

from collections.abc import Callable
from weakref import WeakKeyDictionary

import msgspec

from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import Key, StoreChange

Told = Callable[[Key], None]


# Read at each event, and of objects of any kind, so this is no Pod.
class _BoundSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Bound(msgspec.Struct):
    spec: _BoundSpec = msgspec.field(default_factory=_BoundSpec)


_bound = msgspec.json.Decoder(_Bound)


def node_of(body: bytes) -> str:
    """The node that an object is bound to, ``""`` for none."""
    try:
        return _bound.decode(body).spec.node_name
    except msgspec.DecodeError:
        return ""


class NodeIndex:
    """The objects of one informer by node."""

    def __init__(self, informer: SharedInformer) -> None:
        self._nodes: dict[str, set[Key]] = {}
        self._told: dict[str, set[Told]] = {}
        informer.subscribe(self._changed)

    def on(self, node: str) -> frozenset[Key]:
        """The keys of the objects on a node."""
        return frozenset(self._nodes.get(node, ()))

    def holds(self, node: str, key: Key) -> bool:
        """True if an object is on a node."""
        return key in self._nodes.get(node, ())

    def count(self, node: str) -> int:
        """The number of objects on a node."""
        return len(self._nodes.get(node, ()))

    def follow(self, node: str, notify: Told) -> Callable[[], None]:
        """Call ``notify`` with each object of a node, now and at each change; returns its end."""
        self._told.setdefault(node, set()).add(notify)
        for key in self._nodes.get(node, ()):
            notify(key)

        def end() -> None:
            followers = self._told.get(node, set())
            followers.discard(notify)
            if not followers:
                self._told.pop(node, None)

        return end

    def _changed(self, change: StoreChange) -> None:
        old = node_of(change.old) if change.old is not None else ""
        new = node_of(change.new) if change.new is not None else ""
        if old and old != new:
            keys = self._nodes.get(old, set())
            keys.discard(change.key)
            if not keys:
                self._nodes.pop(old, None)
        if new:
            self._nodes.setdefault(new, set()).add(change.key)
        # Both, if it moved: the old follower releases it, and the new one takes it.
        for node in {old, new} - {""}:
            for told in tuple(self._told.get(node, ())):
                told(change.key)


_placements: WeakKeyDictionary[SharedInformer, NodeIndex] = WeakKeyDictionary()


def node_index(informer: SharedInformer) -> NodeIndex:
    """The node index of an informer; it lives as long as the informer."""
    found = _placements.get(informer)
    if found is None:
        found = _placements[informer] = NodeIndex(informer)
    return found
