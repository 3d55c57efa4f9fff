"""What ``liqod status`` shows: one value, made of what the API server holds and nothing else.

:func:`overview` turns listed objects into tables and a list of problems, worst first. It holds no
secrets and needs no daemon, so the answer to "why" is there when the daemon is not.
"""

from collections import Counter
from typing import Literal, NamedTuple

import msgspec

from liqod.apimachinery import labels
from liqod.model.crossing.guests import GuestRow, guest_rows
from liqod.model.objects.podstatus import TERMINAL
from liqod.model.peering import standing
from liqod.model.view import wrong
from liqod.model.view.detail import Detail, WaitingPod, detail
from liqod.model.view.met import met
from liqod.model.view.problems import Problem, problems
from liqod.model.view.request import Request
from liqod.model.view.snapshot import Snapshot
from liqod.resources import FOREIGN_CLUSTERS, ForeignCluster, NamespaceOffloading, VirtualNode
from liqod.resources.nodes import NODE


class PeerRow(msgspec.Struct, frozen=True):
    """One peer. ``certificate_days`` is None where this cluster holds no certificate of it;
    ``daemon`` is ``up``, why it seems not to run, or ``-`` where the peer does not show it; ``met``
    how the two have met (:mod:`liqod.model.view.met`), ``words`` what both sides have shown then.
    """

    id: str
    role: str
    api: str
    pod_network: str
    pods_out: int
    pods_in: int
    certificate_days: float | None
    state: str
    daemon: str = "-"
    met: str = "-"
    words: str = ""


class NodeRow(msgspec.Struct, frozen=True):
    """One virtual node: whose it is, whether it is ready, what it offers and what runs there."""

    name: str
    peer: str
    ready: bool
    message: str
    resources: dict[str, str]
    pods: int
    pods_ready: int


class NamespaceRow(msgspec.Struct, frozen=True):
    """One offloaded namespace; ``clusters`` holds what is true of each selected peer."""

    name: str
    strategy: str
    phase: str
    remote_name: str
    clusters: dict[str, str]


class Overview(msgspec.Struct, frozen=True):
    """Everything that ``status`` shows, by the custom resources or by what the daemon knows alone;
    ``detail`` only of a peer that was asked for, ``unread`` the kinds that might not be read;
    ``key`` is SHA-256 of this cluster's own, ``met_at`` where others meet its daemon.
    """

    cluster_id: str
    daemon: str
    webhook: str
    peers: tuple[PeerRow, ...]
    nodes: tuple[NodeRow, ...]
    namespaces: tuple[NamespaceRow, ...]
    problems: tuple[Problem, ...]
    detail: Detail | None = None
    source: Literal["resources", "daemon"] = "resources"
    unread: tuple[str, ...] = ()
    guests: tuple[GuestRow, ...] = ()
    key: str = ""
    met_at: str = ""

    @property
    def well(self) -> bool:
        """Whether there are no problems but hints."""
        return wrong.well(self.problems)

    @property
    def knows_peers(self) -> bool:
        """Whether a peer that is not in it is none."""
        return self.source == "resources" and FOREIGN_CLUSTERS.plural not in self.unread


def overview(snapshot: Snapshot, only: str = "") -> Overview:
    """The view of a snapshot, or of one peer in it."""
    census = _census(snapshot)
    clusters = sorted(snapshot.foreign_clusters, key=lambda each: each.name)
    virtual = sorted(snapshot.virtual_nodes, key=lambda each: each.name)
    nodes = tuple(_node(node, snapshot, census) for node in virtual)
    offloadings = sorted(snapshot.offloadings, key=lambda each: each.namespace)
    view = Overview(
        snapshot.cluster_id,
        standing.daemon(snapshot),
        standing.webhook(snapshot),
        tuple(_peer(cluster, snapshot, census) for cluster in clusters),
        nodes,
        tuple(_namespace(offloading) for offloading in offloadings),
        problems(snapshot, {row.name: (row.peer, row.message) for row in nodes}),
        _detail(snapshot, only),
        unread=snapshot.unread,
        guests=guest_rows(snapshot.guests),
        key=snapshot.key,
        met_at=snapshot.met_at,
    )
    return of_peer(view, only) if only else view


def of_peer(view: Overview, peer: str) -> Overview:
    """What a view has of one peer, and of this cluster itself."""
    return msgspec.structs.replace(
        view,
        peers=tuple(row for row in view.peers if row.id == peer),
        nodes=tuple(row for row in view.nodes if row.peer == peer),
        namespaces=tuple(
            msgspec.structs.replace(row, clusters={peer: row.clusters[peer]})
            for row in view.namespaces
            if peer in row.clusters
        ),
        problems=wrong.of_peer(view.problems, peer),
        guests=tuple(row for row in view.guests if row.consumer == peer),
    )


class _Census(NamedTuple):
    """Figures taken in one pass, so that a hundred peers with thousands of pods stay cheap."""

    pods: Counter[str]
    ready: Counter[str]
    out: Counter[str]
    left: dict[str, float]
    tenants: dict[str, str]
    guests: Counter[str]
    requests: tuple[Request, ...] | None


def _census(snapshot: Snapshot) -> _Census:
    pods = Counter(pod.node for pod in snapshot.pods)
    out: Counter[str] = Counter()
    for node in snapshot.virtual_nodes:
        out[node.spec.cluster_id] += pods[node.name]
    left: dict[str, float] = {}
    for (peer, _), seconds in snapshot.expiries.items():
        left[peer] = min(seconds, left.get(peer, seconds))
    return _Census(
        pods,
        Counter(pod.node for pod in snapshot.pods if pod.ready),
        out,
        left,
        {each.spec.cluster_id: standing.tenant(each) for each in snapshot.tenants},
        Counter(each.consumer for each in snapshot.guests),
        (*snapshot.outgoing, *snapshot.incoming) if snapshot.requests_read else None,
    )


def _detail(snapshot: Snapshot, peer: str) -> Detail | None:
    for cluster in snapshot.foreign_clusters:
        if peer and cluster.spec.cluster_id == peer:
            mine = {node.name for node in snapshot.virtual_nodes if node.spec.cluster_id == peer}
            waiting = (
                WaitingPod(pod.namespace, pod.name, pod.node, pod.phase, pod.reason)
                for pod in snapshot.pods
                if pod.node in mine and not pod.ready and pod.phase not in TERMINAL
            )
            return detail(cluster, snapshot.slices, snapshot.expiries, waiting)
    return None


def _peer(cluster: ForeignCluster, snapshot: Snapshot, census: _Census) -> PeerRow:
    peer = cluster.spec.cluster_id
    left = census.left.get(peer)
    stale = not standing.runs(snapshot)
    notes = cluster.metadata.annotations
    return PeerRow(
        peer,
        cluster.status.role,
        standing.NOT_KNOWN if stale and standing.api(cluster) == "up" else standing.api(cluster),
        notes.get(labels.POD_NETWORK, "none"),
        census.out[peer],
        census.guests[peer],
        round(left / 86400, 1) if left is not None else None,
        _state(cluster, census),
        standing.peer_daemon(cluster, not stale),
        *met(peer, census.requests),
    )


def _state(cluster: ForeignCluster, census: _Census) -> str:
    if labels.TOMBSTONE in cluster.metadata.annotations:
        return "leaving"
    state = census.tenants.get(cluster.spec.cluster_id, "Active")
    return "active" if state == "Active" else state


def _node(node: VirtualNode, snapshot: Snapshot, census: _Census) -> NodeRow:
    unready = snapshot.nodes.get(node.name, "there is no such Node")
    # Why a Node cannot be as it should says more than how it is.
    said = (each.message for each in node.status.conditions if each.type == NODE and each.message)
    message = next(said, unready)
    return NodeRow(
        node.name,
        node.spec.cluster_id,
        not unready,
        message,
        {key: str(value) for key, value in node.spec.resource_quota.hard.items()},
        census.pods[node.name],
        census.ready[node.name],
    )


def _namespace(offloading: NamespaceOffloading) -> NamespaceRow:
    clusters: dict[str, str] = {}
    for peer, conditions in offloading.status.remote_namespaces_conditions.items():
        by_type = {condition.type: condition for condition in conditions}
        required, ready = by_type.get("OffloadingRequired"), by_type.get("Ready")
        if required is not None and required.status != "True":
            continue
        good = ready is not None and ready.status == "True"
        clusters[peer] = "ready" if good else (ready.message if ready else "in progress")
    return NamespaceRow(
        offloading.namespace,
        offloading.spec.pod_offloading_strategy,
        offloading.status.offloading_phase,
        offloading.status.remote_namespace_name,
        clusters,
    )
