"""What ``liqod status`` shows: one value, made of what the API server holds and nothing else.

:func:`overview` turns listed objects into tables and a list of problems, worst first. It holds no
secrets and needs no daemon, so the answer to "why" is there when the daemon is not.
"""

from collections.abc import Iterable, Mapping

import msgspec

from liqod.model import labels
from liqod.model.detail import Detail, WaitingPod, detail
from liqod.resources import (
    ForeignCluster,
    NamespaceOffloading,
    ResourceSlice,
    Tenant,
    VirtualNode,
)

SILENT_AFTER = 20.0
"""Seconds without renewal after which the leader's Lease says that no daemon runs."""
EXPIRING = 3 * 24 * 3600.0
"""Seconds of life left below which a certificate is a problem: renewal is long overdue."""


class Pod(msgspec.Struct, frozen=True):
    """What counts of a pod: its place, and whether and why it is not ready.

    Attributes:
        namespace: its namespace.
        name: its name.
        node: the node it is bound to.
        phase: ``status.phase``.
        ready: whether its condition Ready is True.
        reason: why it waits, where something says so.
        daemon_set: the DaemonSet that owns it, if one does.
    """

    namespace: str
    name: str
    node: str
    phase: str
    ready: bool
    reason: str = ""
    daemon_set: str = ""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of one cluster at one moment.

    Attributes:
        cluster_id: its id.
        leader: who holds the daemon's Lease; empty when nobody does.
        leader_age: seconds since that Lease was renewed; None when there is none.
        webhook: the verdict on the webhook's configuration; empty when unknown.
        nodes: readiness of each virtual Node by name: empty when Ready, else its message.
        expiries: seconds of life left of each peer's certificates, by (peer, identity).
        lent: pods here that belong to a consumer, by consumer.
    """

    cluster_id: str
    leader: str = ""
    leader_age: float | None = None
    webhook: str = ""
    foreign_clusters: tuple[ForeignCluster, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    virtual_nodes: tuple[VirtualNode, ...] = ()
    offloadings: tuple[NamespaceOffloading, ...] = ()
    nodes: Mapping[str, str] = {}
    pods: tuple[Pod, ...] = ()
    expiries: Mapping[tuple[str, str], float] = {}
    lent: Mapping[str, int] = {}


class PeerRow(msgspec.Struct, frozen=True):
    """One peer. ``certificate_days`` is None where this cluster holds no certificate of it."""

    id: str
    role: str
    api: str
    pod_network: str
    pods_out: int
    pods_in: int
    certificate_days: float | None
    state: str


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


class Problem(msgspec.Struct, frozen=True, order=True):
    """Something to mend: how bad (0 is worst), whose, what, and what to do."""

    rank: int
    peer: str
    what: str
    cure: str


class Overview(msgspec.Struct, frozen=True):
    """Everything that ``status`` shows; ``detail`` only of a peer that was asked for."""

    cluster_id: str
    daemon: str
    webhook: str
    peers: tuple[PeerRow, ...]
    nodes: tuple[NodeRow, ...]
    namespaces: tuple[NamespaceRow, ...]
    problems: tuple[Problem, ...]
    detail: Detail | None = None


def overview(snapshot: Snapshot, only: str = "") -> Overview:
    """The view of a snapshot, or of one peer in it."""
    peers = tuple(
        _peer(cluster, snapshot)
        for cluster in sorted(snapshot.foreign_clusters, key=lambda c: c.name)
        if not only or cluster.spec.cluster_id == only
    )
    nodes = tuple(
        _node(node, snapshot)
        for node in sorted(snapshot.virtual_nodes, key=lambda n: n.name)
        if not only or node.spec.cluster_id == only
    )
    namespaces = tuple(
        _namespace(offloading, only)
        for offloading in sorted(snapshot.offloadings, key=lambda o: o.namespace)
    )
    return Overview(
        snapshot.cluster_id,
        _daemon(snapshot),
        _webhook(snapshot),
        peers,
        nodes,
        tuple(row for row in namespaces if not only or only in row.clusters),
        tuple(sorted(p for p in _problems(snapshot, nodes) if only in ("", p.peer) or not p.peer)),
        _detail(snapshot, only),
    )


def _detail(snapshot: Snapshot, peer: str) -> Detail | None:
    for cluster in snapshot.foreign_clusters:
        if peer and cluster.spec.cluster_id == peer:
            mine = {node.name for node in snapshot.virtual_nodes if node.spec.cluster_id == peer}
            waiting = (
                WaitingPod(pod.namespace, pod.name, pod.node, pod.phase, pod.reason)
                for pod in snapshot.pods
                if pod.node in mine and not pod.ready and pod.phase != "Succeeded"
            )
            return detail(cluster, snapshot.slices, snapshot.expiries, waiting)
    return None


def _daemon(snapshot: Snapshot) -> str:
    if snapshot.leader_age is None:
        return "not running: it has never led here"
    if not snapshot.leader or snapshot.leader_age > SILENT_AFTER:
        return f"not running: last heard of {snapshot.leader_age:.0f} s ago"
    return f"running as {snapshot.leader}"


def _webhook(snapshot: Snapshot) -> str:
    if not snapshot.webhook:
        return "not proved yet"
    return "reachable" if snapshot.webhook == labels.TRUE else snapshot.webhook


def _peer(cluster: ForeignCluster, snapshot: Snapshot) -> PeerRow:
    peer = cluster.spec.cluster_id
    nodes = {node.name for node in snapshot.virtual_nodes if node.spec.cluster_id == peer}
    left = [seconds for (whose, _), seconds in snapshot.expiries.items() if whose == peer]
    notes = cluster.metadata.annotations
    return PeerRow(
        peer,
        cluster.status.role,
        _api(cluster),
        notes.get(labels.POD_NETWORK, "none"),
        sum(pod.node in nodes for pod in snapshot.pods),
        snapshot.lent.get(peer, 0),
        round(min(left) / 86400, 1) if left else None,
        _state(cluster, snapshot),
    )


def _api(cluster: ForeignCluster) -> str:
    for condition in cluster.status.conditions:
        if condition.type == "APIServerStatus":
            return "up" if condition.status == "Established" else condition.message or "down"
    return "-"


def _state(cluster: ForeignCluster, snapshot: Snapshot) -> str:
    if labels.TOMBSTONE in cluster.metadata.annotations:
        return "leaving"
    for tenant in snapshot.tenants:
        mine = tenant.spec.cluster_id == cluster.spec.cluster_id
        if mine and tenant.spec.tenant_condition != "Active":
            return tenant.spec.tenant_condition
    return "active"


def _node(node: VirtualNode, snapshot: Snapshot) -> NodeRow:
    message = snapshot.nodes.get(node.name, "there is no such Node")
    here = [pod for pod in snapshot.pods if pod.node == node.name]
    return NodeRow(
        node.name,
        node.spec.cluster_id,
        not message,
        message,
        {key: str(value) for key, value in node.spec.resource_quota.hard.items()},
        len(here),
        sum(pod.ready for pod in here),
    )


def _namespace(offloading: NamespaceOffloading, only: str) -> NamespaceRow:
    clusters: dict[str, str] = {}
    for peer, conditions in offloading.status.remote_namespaces_conditions.items():
        if only and peer != only:
            continue
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


def _problems(snapshot: Snapshot, nodes: Iterable[NodeRow]) -> Iterable[Problem]:
    daemon = _daemon(snapshot)
    if daemon.startswith("not running"):
        yield Problem(0, "", f"the daemon is {daemon}", "start `liqod run`")
    for cluster in snapshot.foreign_clusters:
        peer, api = cluster.spec.cluster_id, _api(cluster)
        if api not in ("up", "-"):
            yield Problem(
                1, peer, f"its API server does not answer: {api}", "check the peer and the path"
            )
    for node in nodes:
        if not node.ready:
            yield Problem(
                2,
                node.peer,
                f"virtual node {node.name}: {node.message}",
                f"liqod status {node.peer}",
            )
    for (peer, name), seconds in snapshot.expiries.items():
        if seconds < EXPIRING:
            text = "has expired" if seconds <= 0 else f"ends in {seconds / 3600:.0f} h"
            yield Problem(1, peer, f"the certificate {name} {text}", "peer again if it stays so")
    yield from _slice_problems(snapshot)
    yield from _pod_problems(snapshot)
    if snapshot.webhook not in ("", labels.TRUE):
        yield Problem(
            3,
            "",
            f"the API server cannot reach the webhook: {snapshot.webhook}",
            "set webhook.advertise to an address that the API server reaches",
        )


def _slice_problems(snapshot: Snapshot) -> Iterable[Problem]:
    for item in snapshot.slices:
        for condition in item.status.conditions:
            if condition.status == "Denied":
                peer = item.spec.provider_cluster_id or item.spec.consumer_cluster_id
                yield Problem(
                    2, peer, f"slice {item.name} denied: {condition.message}", "ask the provider"
                )


def _pod_problems(snapshot: Snapshot) -> Iterable[Problem]:
    peers = {node.name: node.spec.cluster_id for node in snapshot.virtual_nodes}
    sets: dict[tuple[str, str], int] = {}
    for pod in snapshot.pods:
        peer = peers.get(pod.node, "")
        if pod.daemon_set:
            key = (peer, f"{pod.namespace}/{pod.daemon_set}")
            sets[key] = sets.get(key, 0) + 1
        elif pod.reason and not pod.ready:
            yield Problem(
                4, peer, f"pod {pod.namespace}/{pod.name}: {pod.reason}", "kubectl describe it"
            )
    for (peer, name), count in sets.items():
        yield Problem(
            5,
            peer,
            f"DaemonSet {name} tolerates everything: {count} of its pods wait on virtual nodes",
            "give it a node affinity with liqo.io/type NotIn [virtual-node]",
        )
