"""ForeignClusters: the state of each peer in one object, written by the daemon only.

One exists while something of the peering does: the component of a peer makes it, keeps its status,
marks it while this cluster is leaving, and removes it with the last object. The remains of peers
that have no tenant namespace any more are removed by the component of the whole cluster.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.consumer.link import ProviderPeer
from liqod.consumer.providercleanup import ProviderCleanup
from liqod.consumer.remote import KubeconfigSecret
from liqod.consumer.remotes import Remotes
from liqod.consumer.slices.sliceobjects import is_source
from liqod.errors import AlreadyExists
from liqod.kube import recorder, times
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.http import proxies
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched, by_name
from liqod.model import ids
from liqod.model.objects import conditions
from liqod.model.objects.patches import exact_patch
from liqod.model.peering import foreigncluster
from liqod.model.view.facts import NodeFacts, PeerFacts, ReflectionFacts
from liqod.model.view.objectfacts import virtual_node
from liqod.resources import (
    FOREIGN_CLUSTERS,
    IDENTITIES,
    NAMESPACE_MAPS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
    ForeignCluster,
    Identity,
    ResourceSlice,
    Tenant,
    VirtualNode,
)
from liqod.telemetry.events import ForeignClusterDeleted, ForeignClusterSwept

TRACES: tuple[Kind, ...] = (TENANTS, IDENTITIES, RESOURCE_SLICES, NAMESPACE_MAPS, VIRTUAL_NODES)
"""Kinds of which any object keeps the ForeignCluster alive; kubeconfig Secrets do too."""
SETTLE = 0.05
"""Seconds in which changes that come together are taken together."""
TENANT = "tenant"
"""The index of Namespaces by the peer whose tenant namespace they are."""


class ForeignClusterOfPeer(Controller[str]):
    """Keeps the ForeignCluster of one peer.

    Args:
        remotes: the identities that it gave us.
        leaving: whether this cluster is leaving it.
    """

    def __init__(self, peer: ProviderPeer, remotes: Remotes, leaving: ProviderCleanup) -> None:
        self._peer = peer
        self._client = peer.context.client
        self._remotes = remotes
        self._leaving = leaving
        within = (peer.tenant_namespace,)
        self._traces = {
            kind: Watched(kind, self._whole, within=within, debounce=SETTLE) for kind in TRACES
        }
        self._secrets = Watched(
            SECRETS, self._whole, Selection(peer.tenant_namespace), debounce=SETTLE
        )
        self._clusters = Watched(FOREIGN_CLUSTERS, self._own, debounce=SETTLE)
        watches = (self._secrets, self._clusters, *self._traces.values())
        told = (peer.link.wait_changed, peer.network.wait_changed, leaving.changed)
        beside = [partial(self.whenever, wait, self._whole, debounce=SETTLE) for wait in told]
        super().__init__(peer, "foreigncluster", *watches, name="foreign cluster", tasks=beside)

    def _whole(self, change: StoreChange | None = None) -> tuple[str]:
        return (self._peer.id,)

    def _own(self, change: StoreChange) -> Iterator[str]:
        if change.key[1] == self._peer.id:
            yield self._peer.id

    async def reconcile(self, name: str) -> float | None:
        """Make the ForeignCluster, write its status, or remove it with its last trace."""
        live = self._clusters.store.decode(("", name), ForeignCluster)
        if not self._has_traces():
            if live is None or live.leaving:
                return None
            if any(each.doubtful for each in self._traces.values()):
                return DOUBT
            await self._client.delete(FOREIGN_CLUSTERS, name, uid=live.metadata.uid)
            self._peer.report(ForeignClusterDeleted(did="deleted"))
            return None
        if live is None:
            await self._create(name)
            return None  # its arrival causes another turn, for the status
        await self._annotate(live)
        await self._write(live)
        return None

    async def _create(self, name: str) -> None:
        wanted = {
            "metadata": {"name": name, "labels": {labels.REMOTE_CLUSTER_ID: name}},
            "spec": {"clusterID": name},
        }
        try:
            await self._client.create(FOREIGN_CLUSTERS, wanted)
        except AlreadyExists:
            return

    async def _annotate(self, live: ForeignCluster) -> None:
        """Annotate the pods' reachability, the peer's daemon, and the tombstone if there is one."""
        tombstone = self._leaving.tombstone
        there = live.metadata.annotations
        wanted = {
            labels.POD_NETWORK: self._peer.pod_network,
            labels.TOMBSTONE: msgspec.json.encode(tombstone).decode() if tombstone else None,
            labels.PEER_DAEMON: self._daemon(there.get(labels.PEER_DAEMON)),
        }
        patch = {key: value for key, value in wanted.items() if there.get(key) != value}
        if live.metadata.labels.get(labels.REMOTE_CLUSTER_ID) != live.name:
            metadata: dict[str, Any] = {"labels": {labels.REMOTE_CLUSTER_ID: live.name}}
        else:
            metadata = {}
        if patch:
            metadata["annotations"] = patch
        if metadata:
            await self._client.patch(FOREIGN_CLUSTERS, live.name, {"metadata": metadata})
        said = wanted[labels.PEER_DAEMON]
        if said not in (None, labels.TRUE, there.get(labels.PEER_DAEMON)):
            message = f"its daemon does not run: {said}"
            await recorder.record(
                self._client, FOREIGN_CLUSTERS, live.metadata, "PeerDaemonSilent", message
            )

    def _daemon(self, before: str | None) -> str | None:
        """The state of the peer's daemon to record; None for none."""
        link = self._peer.link.facts()
        if link.state == "idle" or link.daemon == "untold":
            return None
        if link.daemon == "unasked":
            return before
        return labels.TRUE if link.daemon == "runs" else link.daemon_why

    async def _write(self, live: ForeignCluster) -> None:
        now = times.now()
        wanted = foreigncluster.status(self._facts(), live.metadata.generation)
        raw = self._clusters.store.get(("", live.name))
        whole = msgspec.json.decode(raw, type=dict[str, Any]) if raw is not None else {}
        present: dict[str, Any] = whole.get("status", {})
        _date(wanted, present, now)
        for name, module in wanted["modules"].items():
            _date(module, present.get("modules", {}).get(name, {}), now)
        patch = exact_patch(present, wanted)
        if not patch:
            return
        await self._client.patch(
            FOREIGN_CLUSTERS, live.name, {"status": patch}, subresource="status"
        )
        if foreigncluster.is_lost(wanted) and not foreigncluster.is_lost(present):
            link = self._peer.link
            reason = "PeerDegraded" if link.up else "PeerUnreachable"
            what = "does not work as it should" if link.up else "does not answer"
            message = f"its API server {what} since {now}: {link.why}"
            await recorder.record(self._client, FOREIGN_CLUSTERS, live.metadata, reason, message)

    def _has_traces(self) -> bool:
        namespace = self._peer.tenant_namespace
        if any(each.store.indexed("namespace", namespace) for each in self._traces.values()):
            return True
        return any(self._kubeconfigs())

    def _kubeconfigs(self) -> list[KubeconfigSecret]:
        namespace = self._peer.tenant_namespace
        keys = self._secrets.store.indexed("namespace", namespace)
        found = (self._secrets.store.decode(key, KubeconfigSecret) for key in keys)
        return [each for each in found if each is not None and each.type]

    def _facts(self) -> PeerFacts:
        peer, namespace = self._peer.id, self._peer.tenant_namespace
        tenant = self._traces[TENANTS].store.decode((namespace, peer), Tenant)
        identity = self._traces[IDENTITIES].store.decode(
            (namespace, ids.control_plane_identity(peer)), Identity
        )
        remote = self._remotes.control()
        given = identity.spec.auth_params if identity is not None else None
        slices = self._traces[RESOURCE_SLICES].store
        asked = any(
            is_source(each.metadata.labels, peer)
            for key in slices.indexed("namespace", namespace)
            if (each := slices.decode(key, ResourceSlice)) is not None
        )
        server = remote.credentials.server if remote is not None else ""
        if given is not None and given.api_server:
            server = given.api_server
        return PeerFacts(
            peer=peer,
            lends=identity is not None or remote is not None or asked,
            borrows=tenant is not None,
            tenant_ready=tenant is not None and bool(tenant.status.tenant_namespace),
            tenant_namespace=namespace,
            remote_namespace=remote.namespace if remote is not None else "",
            server=server,
            proxy=proxies.shown(given.proxy_url) if given is not None else "",
            link=self._peer.link.facts(),
            reflection=ReflectionFacts(nodes=tuple(self._virtual_nodes())),
            network=self._peer.network.facts(),
        )

    def _virtual_nodes(self) -> Iterator[NodeFacts]:
        store = self._traces[VIRTUAL_NODES].store
        for key in sorted(store.indexed("namespace", self._peer.tenant_namespace)):
            node = store.decode(key, VirtualNode)
            if node is not None:
                yield virtual_node(node)


def _date(wanted: dict[str, Any], present: dict[str, Any], now: str) -> None:
    """Give the conditions their times."""
    if "conditions" in wanted:
        wanted["conditions"] = conditions.all_dated(
            wanted["conditions"], present.get("conditions"), now
        )


class ForeignClusters(Controller[str]):
    """Removes the ForeignClusters of peers that have no tenant namespace any more."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._clusters = Watched(FOREIGN_CLUSTERS, by_name)
        self._namespaces = Watched(NAMESPACES, _left, indexes={TENANT: _tenants_of})
        super().__init__(
            context, "foreigncluster", self._clusters, self._namespaces, name="foreign clusters"
        )

    async def reconcile(self, name: str) -> float | None:
        """Remove the ForeignCluster of a peer that is surely none any more."""
        live = self._clusters.store.decode(("", name), Partial)
        if live is None or live.metadata.deletion_timestamp is not None:
            return None
        if self._namespaces.store.indexed(TENANT, name):
            return None
        if self._namespaces.doubtful:
            return DOUBT
        selector = f"{labels.TENANT_NAMESPACE},{labels.REMOTE_CLUSTER_ID}={name}"
        client = self._context.client
        if await client.list(NAMESPACES, Selection(labels=selector), decode=Partial):
            return DOUBT
        await client.delete(FOREIGN_CLUSTERS, name, uid=live.metadata.uid)
        self._context.hub.publish(ForeignClusterSwept(name=name, did="deleted"))
        return None


def _left(change: StoreChange) -> Iterator[str]:
    """The peer whose tenant namespace has gone."""
    if change.new is None:
        assert change.old is not None
        peer = _peer_of(msgspec.json.decode(change.old, type=Partial))
        if peer:
            yield peer


def _tenants_of(namespace: Partial) -> tuple[str, ...]:
    """The values of the index of Namespaces by the peer whose tenant namespace they are."""
    peer = _peer_of(namespace)
    return (peer,) if peer else ()


def _peer_of(namespace: Partial) -> str:
    """The peer whose tenant namespace this is; empty if it is none."""
    marks = namespace.metadata.labels
    if marks.get(labels.TENANT_NAMESPACE) != labels.TRUE:
        return ""
    return marks.get(labels.REMOTE_CLUSTER_ID, "")
