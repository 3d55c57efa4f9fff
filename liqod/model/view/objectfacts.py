"""Fills facts from the objects of one cluster, where no daemon can be asked. Pure.

What a daemon noted on an object is believed for as long as that daemon runs, and is as old as it
may take to find otherwise.
"""

import msgspec

from liqod.apimachinery import labels
from liqod.model.peering import standing
from liqod.model.peering.foreigncluster import REFUSES, UNTRUSTED
from liqod.model.peering.intervals import PEER_DAEMON_EVERY, PROBE_EVERY, SILENT_AFTER
from liqod.model.view.detail import owner
from liqod.model.view.facts import (
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
from liqod.model.view.snapshot import Snapshot
from liqod.resources import ForeignCluster, ResourceSlice
from liqod.resources.authentication import DENIED, RESOURCES

RENEWED = PEER_DAEMON_EVERY + SILENT_AFTER + PROBE_EVERY
"""Seconds within which a peer's daemon has renewed its Lease that is noted to run."""
PROBLEMS: dict[str, LinkProblem] = {REFUSES: "refused", UNTRUSTED: "untrusted"}
"""Kinds of a link's failure by the reason of the condition."""


def cluster(snapshot: Snapshot, version: str = "", took: float = 0.0) -> ClusterFacts:
    """What is known of this cluster.

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
        id_problem=snapshot.id_problem,
        policies=snapshot.policies,
        unread=snapshot.unread,
        daemon=DaemonFacts(
            runs=standing.runs(snapshot),
            how=standing.daemon(snapshot),
            start=snapshot.start,
            standbys=snapshot.standbys,
        ),
        webhook="reachable" if snapshot.webhook == labels.TRUE else snapshot.webhook,
    )


def peers(snapshot: Snapshot, known: ClusterFacts) -> tuple[PeerFacts, ...]:
    """What is known of each peer, by id.

    Args:
        snapshot: the objects.
        known: of this cluster.
    """
    found = sorted(snapshot.foreign_clusters, key=lambda each: each.spec.cluster_id)
    return tuple(_peer(each, snapshot, known) for each in found)


def _peer(found: ForeignCluster, snapshot: Snapshot, known: ClusterFacts) -> PeerFacts:
    peer, link = found.spec.cluster_id, _link(found)
    nodes = _nodes(peer, snapshot)
    slices = [each for each in snapshot.slices if owner(each) == (peer, False)]
    certificates = {
        name: left for (whose, name), left in snapshot.expiries.items() if whose == peer
    }
    tenants = [each for each in snapshot.tenants if each.spec.cluster_id == peer]
    return PeerFacts(
        now=known.now,
        peer=peer,
        cluster=known,
        lends=link.state != "idle" or bool(certificates or nodes or slices),
        borrows=bool(tenants),
        tenant=standing.tenant(tenants[0]) if tenants else "",
        former=peer in snapshot.former,
        link=link,
        reflection=_reflection(peer, nodes, snapshot),
        certificates=certificates,
        identities=len(certificates),
        denied={each.name: why for each in slices if (why := denial(each))},
        unanswered=tuple(each.name for each in slices if not each.verdict(RESOURCES)),
    )


def denial(found: ResourceSlice) -> str:
    """Why a slice was denied; empty where it was not."""
    denied = (each.message for each in found.status.conditions if each.status == DENIED)
    return next(denied, "")


def _link(found: ForeignCluster) -> LinkFacts:
    """The way to a peer's API server, and its daemon, as they are noted."""
    api = standing.api(found)
    if api == "-":
        return LinkFacts()
    if api != "up":
        problem = PROBLEMS.get(standing.api_reason(found), "")
        return LinkFacts(state="down", reason=api, problem=problem)
    seen = LinkFacts(state="up")
    daemon = standing.peer_daemon(found, current=True)
    if daemon == "-":
        return seen
    if daemon == "up":
        return msgspec.structs.replace(
            seen, daemon="runs", daemon_renewed=RENEWED, daemon_looked=0.0
        )
    return msgspec.structs.replace(seen, daemon="silent", daemon_why=daemon)


def _nodes(peer: str, snapshot: Snapshot) -> tuple[NodeFacts, ...]:
    names = (each.name for each in snapshot.virtual_nodes if each.spec.cluster_id == peer)
    return tuple(
        NodeFacts(name, snapshot.nodes.get(name, "there is no such Node")) for name in names
    )


def _reflection(peer: str, nodes: tuple[NodeFacts, ...], snapshot: Snapshot) -> ReflectionFacts:
    mapped, refused = 0, {}
    for offloading in snapshot.offloadings:
        for one in offloading.status.remote_namespaces_conditions.get(peer, ()):
            if one.type == "Ready" and one.status == "True":
                mapped += 1
            elif refuses(one):
                refused[offloading.namespace] = (one.message, one.reason)
    return ReflectionFacts(nodes=nodes, namespaces=mapped, refused=refused)
