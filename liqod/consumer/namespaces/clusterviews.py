"""The providers as offloading sees them: virtual nodes, NamespaceMaps, and the latest writes.

Reads stores and writes nothing. An entry that is about to be written counts at once, although the
watch has not brought it yet, so that two namespaces worked on together never take the same remote
name.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.consumer.namespaces import offloadplan
from liqod.consumer.namespaces.offloadplan import ClusterView, VirtualNodeView
from liqod.consumer.nodes import nodeplan
from liqod.kube.cache.store import IndexedStore, Key
from liqod.model.crossing import refusednames
from liqod.model.objects import conditions
from liqod.model.objects.partial import Node
from liqod.resources import NamespaceMap, VirtualNode

REMEMBERED = 5.0
"""Seconds for which an entry being written counts although the watch has not brought it yet."""
OWN = "own"
"""Index of the maps that are this cluster's own."""


class ClusterViews:
    """Every provider, by cluster id.

    Args:
        virtual_nodes: all VirtualNodes.
        nodes: the Nodes that are virtual nodes.
        maps: all NamespaceMaps.
    """

    def __init__(
        self, virtual_nodes: IndexedStore, nodes: IndexedStore, maps: IndexedStore
    ) -> None:
        self._virtual_nodes = virtual_nodes
        self._nodes = nodes
        self._maps = maps
        # The labels of a map are read once for each version of it, and nothing of it is kept.
        maps.add_indexes({OWN: _own})
        self._written: dict[Key, dict[str, tuple[str | None, float]]] = {}

    def borrowed(self, tenant: str) -> Iterator[VirtualNode]:
        """The VirtualNodes in a tenant namespace."""
        store = self._virtual_nodes
        for key in store.indexed("namespace", tenant):
            node = store.decode(key, VirtualNode)
            if node is not None:
                yield node

    def all(self) -> dict[str, tuple[str, ClusterView]]:
        """Every provider's tenant namespace and the view of it, by cluster id."""
        nodes: dict[tuple[str, str], list[VirtualNodeView]] = {}
        for node in self._virtual_nodes.values(VirtualNode):
            seen = {**nodeplan.node_labels(node), **self._live_labels(node)}
            place = (node.namespace, node.spec.cluster_id)
            nodes.setdefault(place, []).append(VirtualNodeView(node.name, seen))
        for key in self._maps.indexed(OWN, labels.TRUE):
            nodes.setdefault(key, [])
        return {
            cluster: (tenant, self._view(tenant, cluster, tuple(views)))
            for (tenant, cluster), views in sorted(nodes.items())
        }

    def nodes_of(self, cluster: str) -> set[str]:
        """The names of a provider's Nodes in this cluster."""
        return {
            each.metadata.name
            for each in self._nodes.values(Partial)
            if each.metadata.labels.get(labels.REMOTE_CLUSTER_ID) == cluster
        }

    def answers(self, cluster: str) -> bool:
        """True if a provider's API server answers, by the conditions of its virtual nodes."""
        return any(
            conditions.holds(each.status.conditions, "Ready")
            for each in self._nodes.values(Node)
            if each.metadata.labels.get(labels.REMOTE_CLUSTER_ID) == cluster
        )

    def _live_labels(self, node: VirtualNode) -> dict[str, str]:
        """The labels that people gave the Node itself: the scheduler goes by those too."""
        live = self._nodes.decode(("", node.name), Partial)
        if live is None or live.metadata.labels.get(labels.REMOTE_CLUSTER_ID) != (
            node.spec.cluster_id
        ):
            return {}
        return live.metadata.labels

    def _view(self, tenant: str, cluster: str, nodes: tuple[VirtualNodeView, ...]) -> ClusterView:
        namespace_map = self._maps.decode((tenant, cluster), NamespaceMap) or NamespaceMap()
        desired = dict(namespace_map.spec.desired_mapping)
        for namespace, (name, until) in self._written.get((tenant, cluster), {}).items():
            if until < trio.current_time():
                continue
            if name is None:
                desired.pop(namespace, None)
            else:
                desired[namespace] = name
        current = namespace_map.status.current_mapping
        return ClusterView(cluster, nodes, desired, current, _refused(namespace_map))

    def seen(self, key: Key, namespace_map: NamespaceMap | None) -> None:
        """Note that a map arrived, or went: the entries that it shows need not be remembered."""
        if namespace_map is None:
            self._written.pop(key, None)
            return
        pending, now = self._written.get(key, {}), trio.current_time()
        desired = namespace_map.spec.desired_mapping
        for namespace, (name, until) in list(pending.items()):
            if desired.get(namespace) == name or until < now:
                del pending[namespace]

    def take(self, key: Key, namespace: str, name: str | None) -> bool:
        """Note an entry to be written, or taken out (None); False if its name is another's.

        Checked and recorded in one step: of two tasks that want the same name, one gets it.
        """
        view = self._view(*key, ())
        if name is not None and not offloadplan.is_free(view, namespace, name):
            return False
        until = trio.current_time() + REMEMBERED
        self._written.setdefault(key, {})[namespace] = (name, until)
        return True

    def forget(self, key: Key, namespace: str) -> None:
        """Forget an entry that was not written."""
        self._written.get(key, {}).pop(namespace, None)


def new_map(tenant: str, cluster: str, desired: Mapping[str, str]) -> dict[str, Any]:
    """The NamespaceMap of a provider, with all its entries."""
    marks = {
        labels.REPLICATION: labels.TRUE,
        labels.REMOTE_ID: cluster,
        labels.REMOTE_CLUSTER_ID: cluster,
    }
    spec = {"desiredMapping": dict(desired)} if desired else {}
    return {"metadata": {"name": cluster, "namespace": tenant, "labels": marks}, "spec": spec}


def is_source(namespace_map: NamespaceMap | Partial) -> bool:
    """True if a map is this cluster's request, and not the replica of a consumer's."""
    found = namespace_map.metadata.labels
    return (
        found.get(labels.REPLICATION) == labels.TRUE
        and found.get(labels.REMOTE_ID) == namespace_map.metadata.name
    )


def _own(namespace_map: Partial) -> tuple[str, ...]:
    return (labels.TRUE,) if is_source(namespace_map) else ()


def selectable(body: bytes | None) -> tuple[str, dict[str, str], bool] | None:
    """The parts of a VirtualNode that decide if it is selected; its status does not."""
    if body is None:
        return None
    node = msgspec.json.decode(body, type=VirtualNode)
    return node.spec.cluster_id, nodeplan.node_labels(node), node.leaving


def entries(body: bytes | None) -> NamespaceMap | None:
    """A NamespaceMap of this cluster's own from the store; of a consumer's nothing is read."""
    if body is None or not is_source(msgspec.json.decode(body, type=Partial)):
        return None
    return msgspec.json.decode(body, type=NamespaceMap)


def changed(before: NamespaceMap, after: NamespaceMap) -> set[str]:
    """The namespaces about which two states of a map differ."""
    pairs = (
        *(before.spec.desired_mapping.items() ^ after.spec.desired_mapping.items()),
        *(_phases(before) ^ _phases(after)),
        *(_refused(before).items() ^ _refused(after).items()),
    )
    return {pair[0] for pair in pairs}


def gives_up(before: NamespaceMap, after: NamespaceMap) -> bool:
    """True if a remote name that was taken is free in the later of two states of a map."""
    return not _taken(before) <= _taken(after)


def _taken(namespace_map: NamespaceMap) -> set[tuple[str, str]]:
    """The remote names that are requested, and those that the provider still has."""
    current = namespace_map.status.current_mapping.values()
    asked = {("asked", name) for name in namespace_map.spec.desired_mapping.values()}
    return asked | {("there", each.remote_namespace) for each in current}


def _refused(namespace_map: NamespaceMap) -> dict[str, str]:
    return refusednames.parse(namespace_map.metadata.annotations.get(labels.REFUSED_NAMES))


def _phases(namespace_map: NamespaceMap) -> set[tuple[str, str, str]]:
    current = namespace_map.status.current_mapping
    return {(local, entry.remote_namespace, entry.phase) for local, entry in current.items()}


def labels_of(body: bytes | None) -> dict[str, str]:
    """The labels of any object from the store."""
    if body is None:
        return {}
    return msgspec.json.decode(body, type=Partial).metadata.labels
