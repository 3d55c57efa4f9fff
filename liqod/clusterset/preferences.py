"""Reads which endpoints of an import this cluster's own Service asks for, and the nodes' zones."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES
from liqod.apimachinery.meta import Partial
from liqod.clusterset.ownexports import OwnExports
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.watched import Watched
from liqod.model.clusterset.choosing import Choice, Nodes, choose
from liqod.model.clusterset.exports import Export
from liqod.model.crossing.preference import Preference, preference

Place = tuple[str, str | None]
"""The zone of a node, and the peer of a virtual one."""


class Preferences:
    """The wishes of this cluster's Services.

    Args:
        cluster: this cluster's id.
        own: its Services.
        every: the keys of all imports.

    Attributes:
        nodes: the watch, for the controller: imports are made anew when zones change.
    """

    def __init__(
        self, cluster: str, own: OwnExports[Key], every: Callable[[], Iterable[Key]]
    ) -> None:
        self._cluster = cluster
        self._own = own
        self._every = every
        self._places: dict[str, Place] = {}
        self._known = Nodes()
        self.nodes: Watched[Key] = Watched(NODES, self._on_node)

    def choose(self, key: Key, exports: Sequence[Export], reached: Collection[str]) -> Choice:
        """The endpoints of an import to publish.

        Args:
            key: of the import.
            exports: of all clusters; the one that wins comes first.
            reached: the clusters that anything gets through to.
        """
        return choose(self._asked(key), exports, reached, self._cluster, self._known)

    def _asked(self, key: Key) -> Preference:
        """The wish of the Service; one that a peer has brought asks for nothing here."""
        return preference(self._own.annotations(key))

    def _on_node(self, change: StoreChange) -> Iterator[Key]:
        name = change.key[1]
        place = _place(change.new) if change.new is not None else None
        if self._places.get(name) == place:
            return
        self._places.pop(name, None)
        if place is not None:
            self._places[name] = place
        before, self._known = self._known, _nodes(self._places)
        if self._known != before:
            yield from (key for key in self._every() if self._asked(key).asked)


def _place(body: bytes) -> Place:
    marks = msgspec.json.decode(body, type=Partial).metadata.labels
    if marks.get(labels.TYPE) == labels.VIRTUAL_NODE_TYPE:
        return "", marks.get(labels.REMOTE_CLUSTER_ID, "")
    return marks.get(labels.ZONE, ""), None


def _nodes(places: Mapping[str, Place]) -> Nodes:
    real = [zone for zone, peer in places.values() if peer is None]
    return Nodes(
        frozenset(zone for zone in real if zone),
        sum(not zone for zone in real),
        {name: peer for name, (_, peer) in places.items() if peer is not None},
    )
