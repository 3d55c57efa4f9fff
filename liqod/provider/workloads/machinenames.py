"""Follows the names of this cluster's nodes by the keys that consumers know them by."""

from typing import Final

import msgspec

from liqod.apimachinery.meta import Partial
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange
from liqod.model.peering.freecapacity import machine_key

_meta: Final = msgspec.json.Decoder(Partial)


class MachineNames:
    """The names of the nodes that an informer follows.

    Attributes:
        by_key: as of :func:`liqod.model.peering.freecapacity.machine_key`.
    """

    def __init__(self) -> None:
        self.by_key: dict[str, str] = {}

    def follow(self, nodes: SharedInformer) -> None:
        """Follow the Nodes of an informer."""
        nodes.subscribe(self._on_node)

    def _on_node(self, change: StoreChange) -> None:
        for body in (change.old, change.new):
            if body is not None:
                key = machine_key(_meta.decode(body).metadata.uid)
                self.by_key.pop(key, None)
                if body is change.new:
                    self.by_key[key] = change.key[1]
