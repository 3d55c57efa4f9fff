"""The objects of one cluster at one moment, as far as ``liqod status`` shows them."""

from collections.abc import Mapping

import msgspec

from liqod.model.ids import IdProblem
from liqod.model.view.requests import RequestRow
from liqod.model.view.servicefacts import SharedServices
from liqod.model.view.setfacts import SetFacts
from liqod.resources import (
    ForeignCluster,
    InternalFabric,
    InternalNode,
    NamespaceOffloading,
    ResourceSlice,
    Tenant,
    VirtualNode,
)
from liqod.resources.networking import Connection


class PodSummary(msgspec.Struct, frozen=True):
    """The summary of a pod: its node, its readiness, and the reason for a missing one.

    Attributes:
        node: the node it is bound to.
        phase: ``status.phase``.
        ready: whether its condition Ready is True.
        reason: the reason why it waits, where one is given.
        daemon_set: the DaemonSet that owns it, if one does.
        unplaced: whether no node has a place for it; of one on a virtual node, no node of the peer.
        waits: whether it waits at the peer, and uses nothing of the grant.
    """

    namespace: str
    name: str
    node: str
    phase: str
    ready: bool
    reason: str = ""
    daemon_set: str = ""
    unplaced: bool = False
    waits: bool = False


class GuestSummary(PodSummary, frozen=True):
    """A pod that runs in this cluster for a consumer.

    Attributes:
        consumer: the consumer's id.
    """

    consumer: str = ""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of one cluster at one moment.

    Attributes:
        cluster_id: its id.
        cluster_uid: the UID of its namespace kube-system; empty where that is unknown.
        id_problem: of an id that cannot be this cluster's; None if it can.
        definitions: the custom resources that are missing.
        older: those that are older than a daemon of this version needs, which waits then.
        leader: holder of the daemon's Lease; empty for none.
        leader_age: seconds since that Lease was renewed or released, by one clock only; None
            without a Lease.
        leader_gone: the reason why that daemon does not run although its Lease is fresh; empty
            otherwise.
        start: the step by which a daemon is started.
        standbys: the daemons that wait to take over.
        webhook: the verdict on the webhook's configuration; empty when unknown.
        stayed: number of pods on this cluster's own nodes, by namespace with the strategy Remote.
        now: the time of it, RFC 3339.
        nodes: readiness of each virtual Node by name: empty when Ready, else its message.
        allocatable: the resources of each of these Nodes for pods, as the scheduler counts them.
        expiries: seconds of life left of each peer's certificates, by (peer, identity).
        guests: pods in this cluster that belong to a consumer.
        connections: the Connections of tunnels to peers.
        fabrics: the overlay of this cluster's own nodes, where there is one.
        internal_nodes: the report of each of these nodes.
        incoming: the requests to borrow from this cluster.
        outgoing: the requests of this cluster to others.
        requests_read: whether these two could be read.
        key: SHA-256 of this cluster's public key, in hex; empty where it cannot be read.
        former: the peers that have only the former key of this cluster.
        met_at: endpoint of this cluster's daemon for the handshake; empty without one.
        policies: the admission policies of liqod's that are missing.
        unread: the kinds that the reader may not read.
        capacity: resources of this cluster's own nodes for pods, in billionths; empty where they
            are unknown.
        services: the Services of the set; None: there are none, or unknown.
        clusterset: the ids of this cluster and of its set; None: unknown.
    """

    cluster_id: str
    cluster_uid: str = ""
    id_problem: IdProblem | None = None
    definitions: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    leader: str = ""
    leader_age: float | None = None
    leader_gone: str = ""
    start: str = "start `liqod run`"
    standbys: tuple[str, ...] = ()
    webhook: str = ""
    foreign_clusters: tuple[ForeignCluster, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    virtual_nodes: tuple[VirtualNode, ...] = ()
    offloadings: tuple[NamespaceOffloading, ...] = ()
    stayed: Mapping[str, int] = {}
    now: str = ""
    nodes: Mapping[str, str] = {}
    allocatable: Mapping[str, Mapping[str, int | str]] = {}
    pods: tuple[PodSummary, ...] = ()
    expiries: Mapping[tuple[str, str], float] = {}
    guests: tuple[GuestSummary, ...] = ()
    connections: tuple[Connection, ...] = ()
    fabrics: tuple[InternalFabric, ...] = ()
    internal_nodes: tuple[InternalNode, ...] = ()
    incoming: tuple[RequestRow, ...] = ()
    outgoing: tuple[RequestRow, ...] = ()
    requests_read: bool = True
    key: str = ""
    former: tuple[str, ...] = ()
    met_at: str = ""
    policies: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    capacity: Mapping[str, int] = {}
    services: SharedServices | None = None
    clusterset: SetFacts | None = None
