"""The namespaces of this cluster that are shared with one peer, and with others by way of it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import tenant_of
from liqod.kube.cache.store import StoreChange
from liqod.kube.watched import Watched
from liqod.model import ids
from liqod.model.clusterset.byway import agreed
from liqod.model.clusterset.exchange import is_shared
from liqod.peers.peer import Peer
from liqod.resources import IDENTITIES, NAMESPACE_MAPS, NamespaceMap

_PEER: Final = "peer"

Keys = Callable[[StoreChange], Iterable[str]]


class SharedNamespaces:
    """The namespaces, and the way in which this cluster and the peer have to do with each other.

    Args:
        peer: the peer.
        on_namespace: the keys of a controller for a change of a namespace.
        on_scope: those for a change of what the two have to do with each other.

    Attributes:
        namespaces: the watch of all namespaces.
    """

    def __init__(self, peer: Peer, on_namespace: Keys, on_scope: Keys) -> None:
        self._peer = peer
        within = (peer.tenant_namespace,)
        self.namespaces = Watched(NAMESPACES, on_namespace, indexes={_PEER: _peers})
        self._maps = Watched(NAMESPACE_MAPS, on_scope, within=within)
        self._identities = Watched(IDENTITIES, on_scope, within=within)

    @property
    def watches(self) -> tuple[Watched[str], ...]:
        """The watches, for the controller."""
        return self.namespaces, self._maps, self._identities

    def every(self) -> list[str]:
        """The names of all namespaces."""
        return [name for _, name in self.namespaces.store]

    def shares(self, namespace: str) -> bool:
        """True if a namespace is shared with the peer."""
        return self._is_shared(self.namespaces.store.get(("", namespace)))

    def by_way(self, namespace: str) -> dict[str, str]:
        """The clusters that a namespace is shared with by way of the peer, with their keys."""
        return self._agreed(self.namespaces.store.get(("", namespace)))

    def has_changed(self, change: StoreChange) -> bool:
        """True if a namespace is shared with others than before."""
        old, new = (
            (self._is_shared(body), self._agreed(body)) for body in (change.old, change.new)
        )
        return old != new

    def changes_peers(self, change: StoreChange) -> bool:
        """True if a peer has come or gone: by way of others its exports are not taken, or again."""
        return _tenant(change.old) != _tenant(change.new)

    def is_peer(self, cluster: str) -> bool:
        """True if this cluster has a peering with another one."""
        return bool(self.namespaces.store.indexed(_PEER, cluster))

    def borrows(self) -> bool:
        """True if this cluster is a consumer of the peer."""
        return bool(self._identities.store.indexed("namespace", self._peer.tenant_namespace))

    async def surely_no_consumer(self) -> bool:
        """True if this cluster certainly is no consumer of the peer."""
        identity = self._peer.tenant_namespace, ids.control_plane_identity(self._peer.id)
        return await self._identities.surely_gone(identity)

    async def surely_unshared(self, namespace: str) -> bool:
        """True if a namespace is certainly not shared: what the stores lack is asked for."""
        if self.namespaces.store.get(("", namespace)) is None:
            return await self.namespaces.surely_gone(("", namespace))
        key = (self._peer.tenant_namespace, self._peer.id)
        if self._maps.store.get(key) is None:
            return await self._maps.surely_gone(key)
        return not self.namespaces.doubtful and not self._maps.doubtful

    def _is_shared(self, namespace: bytes | None) -> bool:
        if namespace is None:
            return False
        meta = msgspec.json.decode(namespace, type=Partial).metadata
        own = (self._peer.context.namespace, labels.LIQO_NAMESPACE)
        return is_shared(meta, self._peer.id, self._mapping(), own)

    def _mapping(self) -> dict[str, str]:
        """The names that namespaces of this cluster have at the peer."""
        key = (self._peer.tenant_namespace, self._peer.id)
        found = self._maps.store.decode(key, NamespaceMap)
        return found.spec.desired_mapping if found is not None else {}

    def _agreed(self, namespace: bytes | None) -> dict[str, str]:
        if namespace is None:
            return {}
        meta = msgspec.json.decode(namespace, type=Partial).metadata
        return agreed(meta.annotations, self._peer.id)


def _tenant(namespace: bytes | None) -> str | None:
    """The peer whose tenant namespace it is; None for any other."""
    return tenant_of(msgspec.json.decode(namespace, type=Partial)) if namespace else None


def _peers(found: Partial) -> Iterator[str]:
    peer = tenant_of(found)
    if peer is not None:
        yield peer
