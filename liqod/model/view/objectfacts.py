"""Fills facts from the objects of one cluster, where no daemon answers. Pure.

A daemon's notes on an object are believed while that daemon runs, and may be as old as the time it
needs to find a change. A daemon that answers gives more, which is filled from its state
(:func:`of_state`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from liqod.apimachinery import labels
from liqod.model.objects import returnmarks
from liqod.model.objects.conditions import holds
from liqod.model.peering import capacity, healthsummary, nodesready
from liqod.model.peering.foreigncluster import (
    API_SERVER,
    DEGRADED,
    ESTABLISHED,
    REFUSES,
    UNTRUSTED,
    UNUSABLE,
)
from liqod.model.peering.intervals import PEER_DAEMON_EVERY, PROBE_EVERY, SILENT_AFTER
from liqod.model.view.daemonfacts import ReasonFacts
from liqod.model.view.facts import (
    REACHABLE,
    ClusterFacts,
    DaemonFacts,
    LinkFacts,
    LinkProblem,
    NodeFacts,
    PeerFacts,
    ReflectionFacts,
    ReturnFacts,
    Trip,
)
from liqod.model.view.networkfacts import joined, ways
from liqod.model.view.requests import met
from liqod.model.view.servicefacts import ExchangeFacts
from liqod.model.view.snapshot import PodSummary, Snapshot
from liqod.model.view.state import LiveState
from liqod.model.view.viewrows import conditions, owner
from liqod.resources import ForeignCluster, ResourceSlice, VirtualNode
from liqod.resources.authentication import DENIED, RESOURCES, SliceCondition
from liqod.resources.fabric import FABRIC
from liqod.resources.nodes import NODE, NOT_TOLD, RUNNING, VIRTUAL_KUBELET
from liqod.resources.offloading import NamespaceCondition

RENEWED = PEER_DAEMON_EVERY + SILENT_AFTER + PROBE_EVERY
"""Seconds within which a peer's daemon has renewed its Lease that is noted to run."""
NO_NODE = "there is no such Node"
"""The problem of a virtual node that does not exist."""
PROBLEMS: dict[str, LinkProblem] = {REFUSES: "refused", UNTRUSTED: "untrusted"}
"""Kinds of a link's failure by the reason of the condition."""


def cluster(snapshot: Snapshot, version: str = "", took: float = 0.0) -> ClusterFacts:
    """The facts about this cluster.

    Args:
        snapshot: its objects.
        version: of its API server.
        took: seconds that it took to answer.
    """
    # Liqo has objects of this kind, too, of other names.
    fabric = next((each for each in snapshot.fabrics if each.name == FABRIC), None)
    peers = {node.name for node in snapshot.virtual_nodes}
    lent = (each.status.resources for each in snapshot.slices if owner(each)[1])
    return ClusterFacts(
        api=Trip(0.0, took),
        version=version,
        definitions=snapshot.definitions,
        older=() if healthsummary.runs(snapshot) else snapshot.older,
        id_problem=snapshot.id_problem,
        policies=snapshot.policies,
        unread=snapshot.unread,
        daemon=DaemonFacts(
            runs=healthsummary.runs(snapshot),
            how=healthsummary.daemon(snapshot),
            start=snapshot.start,
            standbys=snapshot.standbys,
        ),
        webhook=REACHABLE if snapshot.webhook == labels.TRUE else snapshot.webhook,
        incoming=snapshot.incoming,
        outgoing=snapshot.outgoing,
        overlay=ways(fabric, snapshot.internal_nodes),
        overcommitted=capacity.beyond(snapshot.capacity, lent),
        stayed=dict(snapshot.stayed),
        returned=tuple(
            ReturnFacts(each.namespace, mark)
            for each in snapshot.offloadings
            for mark in returnmarks.in_force(
                returnmarks.read(each.metadata.annotations), snapshot.now
            )
        ),
        pods=tuple(each for each in snapshot.pods if each.node not in peers and _waits(each)),
        services=snapshot.services,
        clusterset=snapshot.clusterset,
    )


def peers(snapshot: Snapshot, known: ClusterFacts) -> tuple[PeerFacts, ...]:
    """The facts about each peer, by id.

    Args:
        snapshot: the objects.
        known: of this cluster.
    """
    found = sorted(snapshot.foreign_clusters, key=lambda each: each.spec.cluster_id)
    by_peer = _ByPeer(snapshot)
    return tuple(by_peer.of_foreign_cluster(each, known) for each in found)


def everyone(snapshot: Snapshot, known: ClusterFacts) -> tuple[PeerFacts, ...]:
    """The facts about each peer, and other clusters in objects; arguments as :func:`peers`."""
    by_peer = _ByPeer(snapshot)
    clusters = {each.spec.cluster_id: each for each in snapshot.foreign_clusters}
    return tuple(
        by_peer.of_foreign_cluster(clusters[peer], known)
        if peer in clusters
        else by_peer.of_objects(peer, known)
        for peer in sorted({*clusters, *by_peer.named})
    )


def of_state(state: LiveState) -> tuple[ClusterFacts, tuple[PeerFacts, ...]]:
    """The facts of a daemon's state that no object holds: plugins, sightings, reasons."""
    own = ClusterFacts(
        plugins=state.plugins,
        sightings=dict(sorted(state.sightings.items())),
    )
    reasons: dict[str, dict[str, ReasonFacts]] = defaultdict(dict)
    for key, row in sorted(state.reasons.items()):
        reasons[row.peer][key] = row
    return own, tuple(
        PeerFacts(peer=peer, cluster=own, reasons=rows) for peer, rows in reasons.items()
    )


class _ByPeer:
    """The objects of a snapshot by peer, in one pass: a hundred peers stay cheap.

    Attributes:
        named: the ids of clusters that objects name.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._requests = (
            (*snapshot.outgoing, *snapshot.incoming) if snapshot.requests_read else None
        )
        self._tenants = {
            each.spec.cluster_id: healthsummary.tenant(each) for each in snapshot.tenants
        }
        self._guests = Counter(each.consumer for each in snapshot.guests)
        self._nodes: dict[str, list[NodeFacts]] = defaultdict(list)
        peers: dict[str, str] = {}
        for node in snapshot.virtual_nodes:
            peers[node.name] = node.spec.cluster_id
            self._nodes[node.spec.cluster_id].append(
                virtual_node(node, snapshot.nodes.get(node.name, NO_NODE))
            )
        self._pods: dict[str, list[PodSummary]] = defaultdict(list)
        for pod in snapshot.pods:
            self._pods[peers.get(pod.node, "")].append(pod)
        self._slices: dict[str, list[SliceFacts]] = defaultdict(list)
        for each in map(slice_facts, snapshot.slices):
            self._slices[each.peer].append(each)
        self._certificates: dict[str, dict[str, float]] = defaultdict(dict)
        for (peer, name), left in snapshot.expiries.items():
            self._certificates[peer][name] = left
        self._connections = {
            each.metadata.labels.get(labels.REMOTE_CLUSTER_ID, ""): joined([each])
            for each in snapshot.connections
        }
        self._namespaces = _by_namespace(snapshot)
        self._exchanges: dict[str, list[ExchangeFacts]] = defaultdict(list)
        for exchange in snapshot.services.exchanges if snapshot.services is not None else ():
            self._exchanges[exchange.peer].append(exchange)
        self.named = {
            *self._nodes,
            *self._slices,
            *self._certificates,
            *self._connections,
            *self._namespaces,
            *snapshot.former,
        }

    def of_foreign_cluster(self, found: ForeignCluster, known: ClusterFacts) -> PeerFacts:
        """The facts about one peer."""
        peer, link, notes = found.spec.cluster_id, _link(found), found.metadata.annotations
        names = found.status.tenant_namespace
        by, words = met(peer, self._requests)
        facts = self.of_objects(peer, known)
        return msgspec.structs.replace(
            facts,
            lends=link.state != "idle" or facts.lends,
            tenant_namespace=names.local if names is not None else "",
            link=link,
            role=found.status.role,
            server=found.status.api_server_url,
            pod_network=notes.get(labels.POD_NETWORK, "none"),
            leaving=labels.TOMBSTONE in notes,
            conditions=tuple(conditions(found)),
            met=by,
            words=words,
        )

    def of_objects(self, peer: str, known: ClusterFacts) -> PeerFacts:
        """The facts about one cluster but for those that its ForeignCluster holds."""
        nodes, slices = self._nodes.get(peer, []), self._slices.get(peer, [])
        certificates, pods = self._certificates.get(peer, {}), self._pods.get(peer, [])
        mapped, refused = self._namespaces.get(peer, (0, {}))
        return PeerFacts(
            now=known.now,
            peer=peer,
            cluster=known,
            lends=bool(certificates or nodes) or any(not each.lent for each in slices),
            borrows=peer in self._tenants,
            tenant=self._tenants.get(peer, ""),
            former=peer in self._snapshot.former,
            pods_out=len(pods),
            pods_in=self._guests[peer],
            reflection=ReflectionFacts(nodes=tuple(nodes), namespaces=mapped, refused=refused),
            certificates=certificates,
            identities=len(certificates),
            **of_slices(slices),
            pods=tuple(each for each in pods if _waits(each)),
            joined=self._connections.get(peer),
            exchanges=tuple(self._exchanges.get(peer, ())),
        )


def node_problem(node: VirtualNode, unready: str) -> str:
    """The fault of a virtual node; empty for none.

    Args:
        node: the VirtualNode: the reason for a fault of its Node helps more than the Node's state.
        unready: the reason why its Node is not Ready; empty if it is.
    """
    said = (
        each.message
        for each in node.status.conditions
        if each.type == NODE and each.message and each.reason != NOT_TOLD
    )
    return next(said, unready)


def virtual_node(node: VirtualNode, unready: str = "") -> NodeFacts:
    """The facts of a virtual node; arguments as :func:`node_problem`."""
    found = node.status.conditions
    return NodeFacts(
        node.name,
        node_problem(node, unready),
        behind=nodesready.sentence(node.metadata.annotations),
        kubelet=holds(found, VIRTUAL_KUBELET, RUNNING),
        runs=None if node.spec.create_node is False else holds(found, NODE, RUNNING),
    )


def _waits(pod: PodSummary) -> bool:
    """True if a pod that waits is shown; pods of DaemonSets are counted in any case."""
    return bool(pod.daemon_set or (pod.reason and not pod.ready))


class SliceFacts(NamedTuple):
    """The facts of one slice.

    Attributes:
        peer: the other cluster.
        lent: it is lent to that peer, else borrowed from it.
        denied: the reason why it was denied; empty if it was not.
        ungrown: the reason why a later request for more is not granted; empty if it is.
        beyond: its provider's message where it grants more than its nodes have; empty for none.
        answered: there is any verdict on it.
    """

    peer: str
    lent: bool
    name: str
    denied: str
    ungrown: str
    beyond: str
    answered: bool


def slice_facts(found: ResourceSlice) -> SliceFacts:
    """The facts of a slice."""
    peer, lent = owner(found)
    denied = [each for each in found.status.conditions if each.denies]
    return SliceFacts(
        peer,
        lent,
        found.name,
        _why(each for each in denied if each.status == DENIED),
        _why(each for each in denied if each.status != DENIED),
        capacity.overcommit_warning(found.metadata.annotations, found.status.resources),
        bool(found.verdict(RESOURCES)),
    )


def _why(denied: Iterable[SliceCondition]) -> str:
    """The reasons of denials, each once; empty where there are none."""
    said = (each.message or each.reason or "no reason is given" for each in denied)
    return "; ".join(dict.fromkeys(said))


def of_slices(found: Iterable[SliceFacts]) -> dict[str, Any]:
    """The fields of a peer's facts that its slices fill."""
    slices = sorted(found)  # else the first to be named is another each time
    borrowed, lent = ([one for one in slices if one.lent == way] for way in (False, True))
    return {
        "denied": {each.name: each.denied for each in borrowed if each.denied},
        "ungrown": {each.name: each.ungrown for each in borrowed if each.ungrown},
        "beyond": {each.name: each.beyond for each in borrowed if each.beyond},
        "unanswered": tuple(each.name for each in borrowed if not each.answered),
        "lent_denied": {each.name: each.denied for each in lent if each.denied},
        "lent_ungrown": {each.name: each.ungrown for each in lent if each.ungrown},
    }


def _link(found: ForeignCluster) -> LinkFacts:
    """The path to a peer's API server, and its daemon, from the notes on an object."""
    degraded = (each.message for each in found.status.conditions if each.reason == DEGRADED)
    link = _daemon(found.metadata.annotations.get(labels.PEER_DAEMON, ""), next(degraded, ""))
    for condition in found.status.conditions:
        if condition.type == API_SERVER:
            if condition.status == ESTABLISHED:
                return msgspec.structs.replace(link, state="up")
            return msgspec.structs.replace(
                link,
                state="down",
                reason=condition.message or "down",
                problem=PROBLEMS.get(condition.reason, ""),
                grave=condition.reason == UNUSABLE,
            )
    return link


def _daemon(noted: str, degraded: str) -> LinkFacts:
    """The facts about a peer's daemon and its degraded API server, from the notes on its object."""
    if not noted:
        return LinkFacts(degraded=degraded)
    if noted != labels.TRUE:
        return LinkFacts(degraded=degraded, daemon="silent", daemon_why=noted)
    return LinkFacts(degraded=degraded, daemon="runs", daemon_renewed=RENEWED, daemon_looked=0.0)


def _by_namespace(snapshot: Snapshot) -> dict[str, tuple[int, dict[str, tuple[str, str]]]]:
    """The number of namespaces that are mapped at each peer, and those that it refuses."""
    mapped: Counter[str] = Counter()
    refused: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for offloading in snapshot.offloadings:
        for peer, found in offloading.status.remote_namespaces_conditions.items():
            for one in found:
                mapped[peer] += one.type == "Ready" and one.status == "True"
                if _refuses(one):
                    refused[peer][offloading.namespace] = (one.message, one.reason)
    return {peer: (mapped[peer], refused.get(peer, {})) for peer in {*mapped, *refused}}


def _refuses(one: NamespaceCondition) -> bool:
    """True if a peer refuses a namespace, and that does not pass by itself."""
    passes = one.reason in ("", "Creating", "Terminating")
    return (one.type, one.status) == ("Ready", "False") and not passes
