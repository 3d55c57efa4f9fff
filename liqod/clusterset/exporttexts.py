"""This cluster's exports as one peer is told them.

Each is written anew only when its Service, its endpoints or the way to judge addresses has changed:
a namespace may have more than a hundred, of which one endpoint changes.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES
from liqod.apimachinery.meta import Partial
from liqod.clusterset.ownexports import OwnExports
from liqod.kube.cache.store import Key
from liqod.kube.watched import Watched
from liqod.model.clusterset.exchange import Told, tell, text
from liqod.model.clusterset.exports import Consent, Export
from liqod.model.network.remapping import Remapped
from liqod.peers.peeraddresses import PeerAddresses
from liqod.resources.exchanges import LONGEST

Consents = Callable[[Export], dict[str, Consent]]
_VIRTUAL: Final = "virtual"


def nobody(_: Export) -> dict[str, Consent]:
    """The consents of an export that is told to the peer alone."""
    return {}


class ExportTexts:
    """The exports of this cluster, as texts for one peer.

    Args:
        addresses: by which addresses are judged.

    Attributes:
        nodes: the watch, for the controller: of the virtual nodes, whose pods run at peers.
    """

    def __init__(self, addresses: PeerAddresses) -> None:
        self._addresses = addresses
        self._texts: dict[str, dict[str, str]] = {}
        """By namespace and name; no more of a namespace than were read when it was last told."""
        self._judged: Any = None
        """That by which the addresses in the texts were judged."""
        self.nodes: Watched[str] = Watched(NODES, indexes={_VIRTUAL: _is_virtual})

    def changed(self, key: Key) -> None:
        """Take note that an export of that name, its Service or its endpoints have changed."""
        namespace, name = key
        self._texts.get(namespace, {}).pop(name, None)

    def forget(self, namespace: str = "") -> None:
        """Drop the texts of a namespace that is shared with others now; without one, all."""
        if namespace:
            self._texts.pop(namespace, None)
        else:
            self._texts.clear()

    def of(self, namespace: str, own: OwnExports[str], consents: Consents = nobody) -> Told:
        """The exports of a namespace, as the peer is told them.

        Args:
            namespace: the namespace.
            own: the exports; a change of one is noted by :meth:`changed`.
            consents: those that the peer tells other clusters of an export, once for each text: a
                change of what they follow from is noted by :meth:`forget`.
        """
        virtual = frozenset(name for _, name in self.nodes.store.indexed(_VIRTUAL, _VIRTUAL))
        judged = virtual, self._addresses.judges_by()
        if judged != self._judged:
            self._texts.clear()
            self._judged = judged
        before, kept = self._texts.get(namespace, {}), dict[str, str]()

        def text_of(name: str) -> str:
            found = before.get(name)
            if found is None:
                export = own.of((namespace, name))
                found = ""
                if isinstance(export, Export):
                    found = text(export, self._sent, virtual, consents(export))
            if len(found) <= LONGEST:
                kept[name] = found
            return found

        told = tell((name for _, name in own.within(namespace)), text_of)
        self._texts[namespace] = kept
        return told

    def _sent(self, address: str) -> Remapped:
        """The form in which the peer is told the address of an endpoint of this cluster's own."""
        problem = self._addresses.theirs(address)
        return Remapped("", problem) if problem else self._addresses.sent(address)


def _is_virtual(found: Partial) -> Iterator[str]:
    if found.metadata.labels.get(labels.TYPE) == labels.VIRTUAL_NODE_TYPE:
        yield _VIRTUAL
