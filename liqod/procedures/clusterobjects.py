"""The objects of a cluster at one moment, as values: those that are, or those that would be."""

from typing import Any, Final, TypeVar

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, NODES, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.ownnetworks import networks_of
from liqod.cluster.tenancy import tenant_of
from liqod.consumer.nodes.virtualnodes import SELECTOR
from liqod.kube.cache.store import IndexedStore, Key
from liqod.kube.client import Client
from liqod.kube.selection import EVERY, Selection
from liqod.resources import (
    CONFIGURATIONS,
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    INCOMING_PEERINGS,
    IPS,
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    NETWORKS,
    OUTGOING_PEERINGS,
    OVERRIDE_POLICIES,
    QUOTAS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
    VirtualNode,
)

Json = dict[str, Any]
T = TypeVar("T")

APPLIED: Final = (
    *(NAMESPACES, NAMESPACE_OFFLOADINGS, OVERRIDE_POLICIES, VIRTUAL_NODES),
    *(OUTGOING_PEERINGS, INCOMING_PEERINGS, RESOURCE_SLICES, TENANTS, QUOTAS),
    *(CONFIGURATIONS, GATEWAY_SERVERS, GATEWAY_CLIENTS),
)
"""The kinds that people apply, and by which the daemon acts."""
READ: Final = {
    NAMESPACES: Selection(metadata_only=True),
    NODES: Selection(labels=SELECTOR),
    **dict.fromkeys((NAMESPACE_MAPS, NETWORKS, IPS), EVERY),
}
"""How the kinds are read that are not read as a whole, and those that are read besides."""


class ClusterObjects:
    """Objects by kind and name; those of a kind that was not read are none."""

    def __init__(self) -> None:
        self._stores: dict[Kind, IndexedStore] = {}

    def put(self, kind: Kind, found: Json) -> None:
        """Take an object in, for the one of its name."""
        metadata = found["metadata"]
        key = (str(metadata.get("namespace") or ""), str(metadata["name"]))
        self.store(kind).put(key, msgspec.json.encode(found))

    def remove(self, kind: Kind, key: Key) -> None:
        """Take an object out."""
        self.store(kind).remove(key)

    def store(self, kind: Kind) -> IndexedStore:
        """The objects of one kind."""
        if kind not in self._stores:
            self._stores[kind] = IndexedStore()
        return self._stores[kind]

    def get(self, kind: Kind, key: Key, type_: type[T]) -> T | None:
        """One object. Raises ProtocolError: it is none of that type."""
        return self.store(kind).decode(key, type_)

    def copy(self) -> "ClusterObjects":
        """The same objects, which can become others."""
        made = ClusterObjects()
        for kind, store in self._stores.items():
            for key in store:
                body = store.get(key)
                assert body is not None
                made.store(kind).put(key, body)
        return made

    def peer_of(self, namespace: str) -> str:
        """The peer whose tenant namespace it is; empty for none's."""
        found = self.get(NAMESPACES, ("", namespace), Partial)
        return (tenant_of(found) if found is not None else "") or ""

    def peers(self) -> set[str]:
        """All clusters that have a tenant namespace here."""
        found = (tenant_of(each) for each in self.store(NAMESPACES).values(Partial))
        return {each for each in found if each}

    def nodes_of(self, peer: str) -> tuple[str, ...]:
        """The names of a peer's virtual nodes."""
        every = self.store(VIRTUAL_NODES).values(VirtualNode)
        return tuple(sorted(each.name for each in every if each.spec.cluster_id == peer))

    def node_addresses(self) -> frozenset[str]:
        """The addresses of this cluster's own nodes."""
        store = self.store(NODES)
        found = (networks_of(body)[0] for each in store if (body := store.get(each)) is not None)
        return frozenset[str]().union(*found)

    def labels_of(self, namespace: str) -> dict[str, str]:
        """The labels of a namespace."""
        found = self.get(NAMESPACES, ("", namespace), Partial)
        return found.metadata.labels if found is not None else {}


async def read(client: Client, *, real_nodes: bool) -> ClusterObjects:
    """The objects of a cluster as they are. Raises LiqodError: they cannot be read.

    Args:
        real_nodes: whether Nodes count that are not virtual; of these there may be many.
    """
    made = ClusterObjects()
    how = {**READ, **({NODES: EVERY} if real_nodes else {})}
    for kind in dict.fromkeys((*APPLIED, *READ)):
        for each in await client.list(kind, how.get(kind, EVERY)):
            made.put(kind, each)
    return made


def is_own_slice(found: Partial) -> bool:
    """True if a ResourceSlice is this cluster's request, and not the replica of a consumer's."""
    return found.metadata.labels.get(labels.REPLICATION) == labels.TRUE
