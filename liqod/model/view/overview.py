"""The overview of ``liqod status``: the tables of listed objects, and the problems.

:func:`overview` makes it of the objects of the API server and of their facts. It holds no secrets
and needs no daemon, so the reasons are available without one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from liqod.model.crossing.guests import GuestRow, guest_rows
from liqod.model.objects.podstatus import TERMINAL
from liqod.model.peering import healthsummary
from liqod.model.view import problems
from liqod.model.view.facts import ClusterFacts, PeerFacts
from liqod.model.view.objectfacts import NO_NODE, node_problem
from liqod.model.view.problems import Problem
from liqod.model.view.rows import ConditionRow, NamespaceRow, NodeRow, PeerRow, SliceRow
from liqod.model.view.serviceanswer import ServicesRow, sums
from liqod.model.view.snapshot import Snapshot
from liqod.model.view.viewrows import owner, slice_row
from liqod.resources import FOREIGN_CLUSTERS, NamespaceOffloading, VirtualNode
from liqod.resources.authentication import ACTIVE


class WaitingPod(msgspec.Struct, frozen=True):
    """A pod of this cluster on a virtual node of the peer that is not ready, with the reason."""

    namespace: str
    name: str
    node: str
    phase: str
    why: str


class Detail(msgspec.Struct, frozen=True):
    """The details of one peer beyond the overview.

    Attributes:
        server: URL of the peer's API server.
        namespace: the peer's tenant namespace in this cluster.
        conditions: of the ForeignCluster and of the modules in use.
        slices: borrowed and lent ones.
        certificates: days that each certificate from the peer is still valid, by identity.
        waiting: pods on the peer's virtual nodes that are not ready.
    """

    server: str
    namespace: str
    conditions: tuple[ConditionRow, ...]
    slices: tuple[SliceRow, ...]
    certificates: dict[str, float]
    waiting: tuple[WaitingPod, ...]


class Overview(msgspec.Struct, frozen=True):
    """The content of ``status``, from the custom resources or from the daemon's own facts;
    ``detail`` only of a requested peer, ``unread`` the kinds that might not be read;
    ``key`` is SHA-256 of this cluster's own, ``met_at`` the endpoint of its daemon's handshake;
    ``services`` sums the Services of the set.
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
    services: ServicesRow | None = None

    @property
    def well(self) -> bool:
        """True if there are no problems but hints."""
        return problems.well(self.problems)

    @property
    def knows_peers(self) -> bool:
        """True if the view has all peers, so that one that is not in it does not exist."""
        return self.source == "resources" and FOREIGN_CLUSTERS.plural not in self.unread


def overview(
    snapshot: Snapshot,
    own: ClusterFacts,
    peers: Sequence[PeerFacts],
    found: tuple[Problem, ...] = (),
    only: str = "",
) -> Overview:
    """The view of a snapshot.

    Args:
        snapshot: the objects.
        own: their facts about this cluster.
        peers: those about each peer.
        found: the problems, the worst first.
        only: of that peer only; empty for all.
    """
    pods = Counter(pod.node for pod in snapshot.pods)
    ready = Counter(pod.node for pod in snapshot.pods if pod.ready)
    virtual = sorted(snapshot.virtual_nodes, key=lambda each: each.name)
    waits = Counter(pod.node for pod in snapshot.pods if pod.waits)
    counts = (pods, ready, waits)
    nodes = tuple(_node(each, snapshot, *(by[each.name] for by in counts)) for each in virtual)
    offloadings = sorted(snapshot.offloadings, key=lambda each: each.namespace)
    view = Overview(
        snapshot.cluster_id,
        own.daemon.how if own.daemon is not None else "",
        _webhook(own),
        tuple(_peer(each) for each in peers),
        nodes,
        tuple(_namespace(offloading) for offloading in offloadings),
        found,
        next((_detail(snapshot, each) for each in peers if each.peer == only), None),
        unread=snapshot.unread,
        guests=guest_rows(snapshot.guests),
        key=snapshot.key,
        met_at=snapshot.met_at,
        services=sums(snapshot.services),
    )
    return of_peer(view, only) if only else view


def _webhook(own: ClusterFacts) -> str:
    """The state of the webhook's path from the API server, in a few words."""
    if not own.webhook_answered:
        return healthsummary.NO_WEBHOOK
    return own.webhook or "not proved yet"


def of_peer(view: Overview, peer: str) -> Overview:
    """The part of a view that concerns one peer, and this cluster itself."""
    return msgspec.structs.replace(
        view,
        peers=tuple(row for row in view.peers if row.id == peer),
        nodes=tuple(row for row in view.nodes if row.peer == peer),
        namespaces=tuple(
            msgspec.structs.replace(row, clusters={peer: row.clusters[peer]})
            for row in view.namespaces
            if peer in row.clusters
        ),
        problems=problems.of_peer(view.problems, peer),
        guests=tuple(row for row in view.guests if row.consumer == peer),
    )


def _detail(snapshot: Snapshot, facts: PeerFacts) -> Detail:
    mine = {each.name for each in facts.reflection.nodes}
    waiting = (
        WaitingPod(pod.namespace, pod.name, pod.node, pod.phase, pod.reason)
        for pod in snapshot.pods
        if pod.node in mine and not pod.ready and pod.phase not in TERMINAL
    )
    rows = [slice_row(each) for each in snapshot.slices if owner(each)[0] == facts.peer]
    left = sorted(facts.certificates.items())
    return Detail(
        facts.server,
        facts.tenant_namespace,
        facts.conditions,
        tuple(sorted(rows, key=lambda row: (row.direction, row.name))),
        {name: round(seconds / 86400, 1) for name, seconds in left},
        tuple(sorted(waiting, key=lambda pod: (pod.namespace, pod.name))),
    )


def _peer(facts: PeerFacts) -> PeerRow:
    link, left = facts.link, min(facts.certificates.values(), default=None)
    runs = facts.cluster.daemon is not None and facts.cluster.daemon.runs
    apis = {"up": "up" if runs else healthsummary.NOT_KNOWN, "down": link.reason, "idle": "-"}
    daemon = "-"
    if link.daemon == "silent":
        daemon = link.daemon_why
    elif link.daemon == "runs":
        daemon = "up" if runs and link.state == "up" else healthsummary.NOT_KNOWN
    state = "active" if facts.tenant in ("", ACTIVE) else facts.tenant
    return PeerRow(
        facts.peer,
        facts.role,
        apis[link.state],
        facts.pod_network,
        facts.pods_out or 0,
        facts.pods_in or 0,
        None if left is None else round(left / 86400, 1),
        "leaving" if facts.leaving else state,
        daemon,
        facts.met,
        facts.words,
    )


def _node(node: VirtualNode, snapshot: Snapshot, pods: int, ready: int, waits: int) -> NodeRow:
    unready = snapshot.nodes.get(node.name, NO_NODE)
    return NodeRow(
        node.name,
        node.spec.cluster_id,
        not unready,
        node_problem(node, unready),
        _texts(snapshot.allocatable.get(node.name, {})),
        pods,
        ready,
        waits,
        _texts(node.spec.resource_quota.hard),
    )


def _texts(resources: Mapping[str, int | str]) -> dict[str, str]:
    return {key: str(value) for key, value in resources.items()}


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
