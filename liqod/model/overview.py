"""What ``liqod status`` shows: one value, made of what the API server holds and nothing else.

:func:`overview` turns listed objects into tables and a list of problems, worst first. It holds no
secrets and needs no daemon, so the answer to "why" is there when the daemon is not.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from liqod.errors import UNTRUSTED
from liqod.model import labels, scheduling
from liqod.model.detail import Detail, WaitingPod, detail
from liqod.model.figures import counted
from liqod.model.foreigncluster import ANSWERS, HINDERED
from liqod.model.snapshot import Snapshot
from liqod.resources import FOREIGN_CLUSTERS, ForeignCluster, NamespaceOffloading, VirtualNode
from liqod.resources.nodes import NODE

SILENT_AFTER = 20.0
"""Seconds without renewal after which the leader's Lease says that no daemon runs."""
REFUSES = "refuses our certificate"
"""What the link says of an API server that does not know us (any more)."""
EXPIRING = 3 * 24 * 3600.0
"""Seconds of life left below which a certificate is a problem: renewal is long overdue."""


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
    """Everything that ``status`` shows, by the custom resources or by what the daemon knows alone;
    ``detail`` only of a peer that was asked for, ``unread`` the kinds that might not be read.
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
        _daemon(snapshot),
        _webhook(snapshot),
        tuple(_peer(cluster, snapshot, census) for cluster in clusters),
        nodes,
        tuple(_namespace(offloading) for offloading in offloadings),
        tuple(sorted(_problems(snapshot, nodes))),
        _detail(snapshot, only),
        unread=snapshot.unread,
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
        problems=tuple(row for row in view.problems if row.peer in ("", peer)),
    )


class _Census(NamedTuple):
    """Figures taken in one pass, so that a hundred peers with thousands of pods stay cheap."""

    pods: Counter[str]
    ready: Counter[str]
    out: Counter[str]
    left: dict[str, float]
    tenants: dict[str, str]


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
        {each.spec.cluster_id: each.spec.tenant_condition for each in snapshot.tenants},
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
    waiting = f"; {', '.join(snapshot.standbys)} standing by" if snapshot.standbys else ""
    return f"running as {snapshot.leader}{waiting}"


def _webhook(snapshot: Snapshot) -> str:
    if not snapshot.webhook:
        return "not proved yet"
    return "reachable" if snapshot.webhook == labels.TRUE else snapshot.webhook


def _peer(cluster: ForeignCluster, snapshot: Snapshot, census: _Census) -> PeerRow:
    peer = cluster.spec.cluster_id
    left = census.left.get(peer)
    notes = cluster.metadata.annotations
    return PeerRow(
        peer,
        cluster.status.role,
        _api(cluster),
        notes.get(labels.POD_NETWORK, "none"),
        census.out[peer],
        snapshot.lent.get(peer, 0),
        round(left / 86400, 1) if left is not None else None,
        _state(cluster, census),
    )


def _api(cluster: ForeignCluster) -> str:
    for condition in cluster.status.conditions:
        if condition.type == "APIServerStatus":
            return "up" if condition.status == "Established" else condition.message or "down"
    return "-"


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


def _problems(snapshot: Snapshot, nodes: Iterable[NodeRow]) -> Iterable[Problem]:
    daemon = _daemon(snapshot)
    if daemon.startswith("not running"):
        yield Problem(0, "", f"the daemon is {daemon}", "start `liqod run`")
    if snapshot.id_problem:
        what, _, cure = snapshot.id_problem.partition(": ")
        yield Problem(0, "", what, cure)
    if snapshot.unread:
        what = f"this is not all: {', '.join(snapshot.unread)} cannot be read"
        yield Problem(0, "", what, "use a kubeconfig whose user has the right to list them")
    for name in snapshot.definitions:
        yield Problem(0, "", f"the custom resource {name} is missing", "run `liqod install`")
    for cluster in snapshot.foreign_clusters:
        peer, api = cluster.spec.cluster_id, _api(cluster)
        if api not in ("up", "-"):
            yield _api_problem(peer, api)
        if labels.TOMBSTONE in cluster.metadata.annotations:
            what = "it is being left; what is to be removed there waits for its answer"
            yield Problem(3, peer, what, f"`liqod unpeer {peer} --forget` gives that up")
        for condition in cluster.status.conditions:
            if condition.reason == HINDERED:
                yield Problem(3, peer, condition.message, "check what is between you and the peer")
    for node in nodes:
        if node.message:
            what = f"virtual node {node.name}: {node.message}"
            yield Problem(2, node.peer, what, f"`liqod status {node.peer}`")
    for (peer, name), seconds in snapshot.expiries.items():
        if seconds < EXPIRING:
            yield _expiry_problem(peer, name, seconds)
    yield from _slice_problems(snapshot)
    yield from _namespace_problems(snapshot)
    yield from _pod_problems(snapshot)
    for namespace, count in snapshot.stayed.items():
        yield Problem(4, "", *scheduling.stayed(namespace, count))
    if snapshot.webhook not in ("", labels.TRUE):
        what = f"the API server cannot reach the webhook: {snapshot.webhook}"
        cure = "set webhook.advertise to an address that the API server reaches"
        yield Problem(3, "", what, cure)


def _api_problem(peer: str, api: str) -> Problem:
    if REFUSES in api:
        what = f"its API server refuses this cluster: {api}"
        return Problem(1, peer, what, f"`liqod peer` again; what runs at {peer} stays")
    if UNTRUSTED in api:
        cure = f"is that still {peer}? if it was made anew, `liqod peer` again"
        return Problem(1, peer, f"who answers is not known: {api}", cure)
    what = api if api.startswith(ANSWERS) else f"its API server does not answer: {api}"
    return Problem(1, peer, what, "check the peer and the path to it")


def _expiry_problem(peer: str, name: str, seconds: float) -> Problem:
    if seconds <= 0:
        cure = f"`liqod peer` again; what runs at {peer} stays"
        return Problem(1, peer, f"the certificate {name} has expired", cure)
    text = f"the certificate {name} ends in {seconds / 3600:.0f} h and was not renewed"
    return Problem(1, peer, text, f"does the daemon of {peer} run?")


def _slice_problems(snapshot: Snapshot) -> Iterable[Problem]:
    for item in snapshot.slices:
        for condition in item.status.conditions:
            if condition.status == "Denied":
                peer = item.spec.provider_cluster_id or item.spec.consumer_cluster_id
                yield Problem(
                    2, peer, f"slice {item.name} denied: {condition.message}", "ask the provider"
                )


def _namespace_problems(snapshot: Snapshot) -> Iterable[Problem]:
    for offloading in snapshot.offloadings:
        for peer, conditions in offloading.status.remote_namespaces_conditions.items():
            for one in conditions:
                passes = one.reason in ("", "Creating", "Terminating")
                if (one.type, one.status) == ("Ready", "False") and not passes:
                    what = f"namespace {offloading.namespace}: {one.message}"
                    yield Problem(2, peer, what, "choose another name or mapping strategy")


def _pod_problems(snapshot: Snapshot) -> Iterable[Problem]:
    peers = {node.name: node.spec.cluster_id for node in snapshot.virtual_nodes}
    sets: dict[tuple[str, str], int] = {}
    waits: dict[tuple[str, str, str], list[str]] = {}
    for pod in snapshot.pods:
        peer = peers.get(pod.node, "")
        if pod.daemon_set:
            key = (peer, f"{pod.namespace}/{pod.daemon_set}")
            sets[key] = sets.get(key, 0) + 1
        elif pod.reason and not pod.ready:
            waits.setdefault((peer, pod.namespace, pod.reason), []).append(pod.name)
    for (peer, namespace, reason), names in waits.items():
        others = f" and {counted(len(names) - 1, 'other')}" if len(names) > 1 else ""
        what = f"pod {namespace}/{min(names)}{others}: {reason}"
        yield Problem(4, peer, what, "kubectl describe it")
    for (peer, name), count in sets.items():
        what = f"DaemonSet {name} tolerates everything: {count} of its pods wait on virtual nodes"
        cure = "give it a node affinity with liqo.io/type NotIn [virtual-node]"
        yield Problem(5, peer, what, cure)
