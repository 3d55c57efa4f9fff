"""Fills facts from the objects of one cluster, where no daemon can be asked. Pure.

A daemon's notes on an object are believed for as long as that daemon runs, and are as old as it
may take to find otherwise.
"""

from collections import Counter

import msgspec

from liqod.apimachinery import labels
from liqod.model.peering import capacity, healthsummary
from liqod.model.peering.foreigncluster import (
    API_SERVER,
    DEGRADED,
    ESTABLISHED,
    REFUSES,
    UNTRUSTED,
    UNUSABLE,
)
from liqod.model.peering.intervals import PEER_DAEMON_EVERY, PROBE_EVERY, SILENT_AFTER
from liqod.model.view.detail import conditions, owner
from liqod.model.view.facts import (
    REACHABLE,
    ClusterFacts,
    DaemonFacts,
    LinkFacts,
    LinkProblem,
    NodeFacts,
    PeerFacts,
    ReflectionFacts,
    Trip,
)
from liqod.model.view.problems import refuses
from liqod.model.view.requests import met
from liqod.model.view.snapshot import Snapshot
from liqod.resources import ForeignCluster, ResourceSlice
from liqod.resources.authentication import DENIED, RESOURCES

RENEWED = PEER_DAEMON_EVERY + SILENT_AFTER + PROBE_EVERY
"""Seconds within which a peer's daemon has renewed its Lease that is noted to run."""
PROBLEMS: dict[str, LinkProblem] = {REFUSES: "refused", UNTRUSTED: "untrusted"}
"""Kinds of a link's failure by the reason of the condition."""


def cluster(snapshot: Snapshot, version: str = "", took: float = 0.0) -> ClusterFacts:
    """The facts about this cluster.

    Args:
        snapshot: its objects.
        version: of its API server.
        took: seconds that it took to answer.
    """
    return ClusterFacts(
        now=0.0,
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
    )


def peers(snapshot: Snapshot, known: ClusterFacts) -> tuple[PeerFacts, ...]:
    """The facts about each peer, by id.

    Args:
        snapshot: the objects.
        known: of this cluster.
    """
    found = sorted(snapshot.foreign_clusters, key=lambda each: each.spec.cluster_id)
    by_peer = _ByPeer(snapshot)
    return tuple(by_peer.facts(each, known) for each in found)


class _ByPeer:
    """The objects of a snapshot by peer, in one pass: a hundred peers stay cheap."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._requests = (
            (*snapshot.outgoing, *snapshot.incoming) if snapshot.requests_read else None
        )
        self._tenants = {
            each.spec.cluster_id: healthsummary.tenant(each) for each in snapshot.tenants
        }
        self._guests = Counter(each.consumer for each in snapshot.guests)
        self._pods: Counter[str] = Counter()
        self._nodes: dict[str, list[NodeFacts]] = {}
        pods = Counter(each.node for each in snapshot.pods)
        for node in snapshot.virtual_nodes:
            problem = snapshot.nodes.get(node.name, "there is no such Node")
            self._nodes.setdefault(node.spec.cluster_id, []).append(NodeFacts(node.name, problem))
            self._pods[node.spec.cluster_id] += pods[node.name]
        self._slices: dict[str, list[ResourceSlice]] = {}
        for each in snapshot.slices:
            peer, lent = owner(each)
            if not lent:
                self._slices.setdefault(peer, []).append(each)
        self._certificates: dict[str, dict[str, float]] = {}
        for (peer, name), left in snapshot.expiries.items():
            self._certificates.setdefault(peer, {})[name] = left

    def facts(self, found: ForeignCluster, known: ClusterFacts) -> PeerFacts:
        """The facts about one peer."""
        peer, link, notes = found.spec.cluster_id, _link(found), found.metadata.annotations
        nodes, slices = self._nodes.get(peer, []), self._slices.get(peer, [])
        certificates, names = self._certificates.get(peer, {}), found.status.tenant_namespace
        by, words = met(peer, self._requests)
        return PeerFacts(
            now=known.now,
            peer=peer,
            cluster=known,
            lends=link.state != "idle" or bool(certificates or nodes or slices),
            borrows=peer in self._tenants,
            tenant=self._tenants.get(peer, ""),
            tenant_namespace=names.local if names is not None else "",
            former=peer in self._snapshot.former,
            link=link,
            pods_out=self._pods[peer],
            pods_in=self._guests[peer],
            role=found.status.role,
            server=found.status.api_server_url,
            pod_network=notes.get(labels.POD_NETWORK, "none"),
            leaving=labels.TOMBSTONE in notes,
            conditions=tuple(conditions(found)),
            met=by,
            words=words,
            reflection=_reflection(peer, tuple(nodes), self._snapshot),
            certificates=certificates,
            identities=len(certificates),
            denied={each.name: why for each in slices if (why := denial(each))},
            beyond={
                each.name: what
                for each in slices
                if (what := capacity.told(each.metadata.annotations, each.status.resources))
            },
            unanswered=tuple(each.name for each in slices if not each.verdict(RESOURCES)),
        )


def denial(found: ResourceSlice) -> str:
    """Why a slice was denied; empty where it was not."""
    denied = (each.message for each in found.status.conditions if each.status == DENIED)
    return next(denied, "")


def _link(found: ForeignCluster) -> LinkFacts:
    """The way to a peer's API server, and its daemon, as they are noted."""
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


def _reflection(peer: str, nodes: tuple[NodeFacts, ...], snapshot: Snapshot) -> ReflectionFacts:
    mapped, refused = 0, {}
    for offloading in snapshot.offloadings:
        for one in offloading.status.remote_namespaces_conditions.get(peer, ()):
            if one.type == "Ready" and one.status == "True":
                mapped += 1
            elif refuses(one):
                refused[offloading.namespace] = (one.message, one.reason)
    return ReflectionFacts(nodes=nodes, namespaces=mapped, refused=refused)
