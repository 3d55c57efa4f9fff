"""Facts about this cluster and each peer, in one value. Pure.

It is filled from the daemon's memory (:mod:`liqod.inspect.memoryfacts`), or from the objects of the
API server where no daemon answers (:mod:`liqod.model.view.objectfacts`). The doctor's checks, the
rows of viewers, ``/metrics`` and the history read it. Unknown values are None, or empty.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from liqod.model.ids import IdProblem
from liqod.model.objects.returnmarks import ReturnMark
from liqod.model.peering.heartbeat import State
from liqod.model.view.daemonfacts import (
    ClientFacts,
    MeetingFacts,
    PluginFacts,
    ProcessFacts,
    ReasonFacts,
    SightingFacts,
    WriteCounts,
)
from liqod.model.view.networkfacts import JoinedFacts, NetworkFacts, NodeWay
from liqod.model.view.requests import RequestRow
from liqod.model.view.rows import ConditionRow
from liqod.model.view.servicefacts import ExchangeFacts, SharedServices
from liqod.model.view.setfacts import SetFacts
from liqod.model.view.snapshot import PodSummary
from liqod.telemetry.histogram import Histogram

REACHABLE: Final = "reachable"
"""The verdict on the webhook's path where it works; any other is the reason."""
LinkState = Literal["up", "down", "idle"]
"""State of an API server's answers; ``idle`` where no request is sent."""
LinkProblem = Literal["", "refused", "untrusted"]
"""Reasons why an API server accepts no request, other than the path to it."""


class Trip(msgspec.Struct, frozen=True):
    """One request that was made as a probe.

    Attributes:
        ago: seconds since.
        took: seconds it took.
        error: the failure; empty for none.
        refused: it failed as the server does not accept the client.
    """

    ago: float
    took: float
    error: str = ""
    refused: bool = False


class DaemonFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The state of this cluster's daemon, as its Lease shows it to others.

    Attributes:
        runs: it runs: a daemon that could not renew its Lease for long stops.
        how: its state, in a few words.
        start: the step by which it is started.
        standbys: the daemons that wait to take over.
    """

    runs: bool
    how: str = ""
    start: str = ""
    standbys: tuple[str, ...] = ()


class ReturnFacts(msgspec.Struct, frozen=True):
    """A controller whose pods a peer could not start, by its mark; and their namespace."""

    namespace: str
    mark: ReturnMark


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about this cluster.

    Attributes:
        now: Unix time; 0 where the facts are of objects.
        uninstalled: the reason why liqod is not installed; empty where it is.
        definitions: custom resources that are missing; None: unknown.
        older: those that are older than a daemon of this version needs, while none runs.
        id_problem: of an id that cannot be this cluster's; None if it can.
        unread: kinds of objects that might not be read.
        daemon: its daemon, as others see it; None where that daemon itself fills these facts.
        policies: admission policies for consumers that are missing, or deny nothing; None: unknown.
        api: the newest request to its API server.
        skew: seconds by which its clock is ahead of ours; None: unknown.
        version: its version.
        certificate: seconds of life left of the daemon's own certificate; None for tokens.
        silent: kinds that are not followed now, with the reason.
        webhook: the verdict on the webhook's path: :data:`REACHABLE`, or the reason why it does not
            work; empty: unknown.
        proved: seconds since that path was last tried; None: unknown.
        lag: the worst lateness of the event loop in the last minute, in seconds.
        leading: whether this daemon leads.
        met_at: TCP port of the handshake with other clusters' daemons; None: there is none.
        unmet: the reason why the handshake does not work; empty where it does.
        unjoined: the reason why this machine can join no networks of peers; empty where it can,
            None where it is not to.
        apart: ids that the configuration names for transit and whose networks are not joined;
            this cluster's own is never one of its peers.
        serving: the reason why the cluster has not signed the certificate of virtual nodes; empty
            where it has, None without a request.
        incoming: the requests to borrow from this cluster.
        outgoing: its own requests to others, and offers to lend.
        overlay: the paths of its nodes to the gateway, as each reports its own.
        overcommitted: resources granted to consumers beyond its nodes' capacity, as a clause;
            empty for none.
        stayed: pods on its own nodes, by the namespace whose pods are to run at peers only.
        returned: controllers whose pods a peer could not start, and which avoid it now.
        pods: those on virtual nodes of unknown peers, as of :attr:`PeerFacts.pods`.
        process: the daemon's own process; None where no daemon fills these facts.
        plugins: all plugins, by ``kind/name``.
        sightings: clusters that discovery sees, by ``plugin/cluster/source``.
        sighted: number of kept sightings, by plugin.
        meetings: handshakes with other daemons; None while none are accepted.
        requests: to its API server; None: unknown.
        services: the Services of the set; None: there are none, or unknown.
        clusterset: the ids of this cluster and of its set; None: unknown.
        probed: the last result of the check's own probe; None: none yet.
        settings: the check's own settings, as its ``config_type``.
    """

    now: float = 0.0
    uninstalled: str = ""
    definitions: tuple[str, ...] | None = None
    older: tuple[str, ...] = ()
    id_problem: IdProblem | None = None
    unread: tuple[str, ...] = ()
    daemon: DaemonFacts | None = None
    policies: tuple[str, ...] | None = None
    api: Trip | None = None
    skew: float | None = None
    version: str = ""
    certificate: float | None = None
    silent: dict[str, str] = {}
    webhook: str = ""
    proved: float | None = None
    lag: float = 0.0
    process: ProcessFacts | None = None
    plugins: dict[str, PluginFacts] = {}
    sightings: dict[str, SightingFacts] = {}
    sighted: Mapping[str, int] = {}
    meetings: MeetingFacts | None = None
    requests: ClientFacts | None = None
    leading: bool = True
    met_at: int | None = None
    unmet: str = ""
    unjoined: str | None = None
    apart: tuple[str, ...] = ()
    serving: str | None = None
    incoming: tuple[RequestRow, ...] = ()
    outgoing: tuple[RequestRow, ...] = ()
    overlay: tuple[NodeWay, ...] = ()
    overcommitted: str = ""
    stayed: dict[str, int] = {}
    returned: tuple[ReturnFacts, ...] = ()
    pods: tuple[PodSummary, ...] = ()
    services: SharedServices | None = None
    clusterset: SetFacts | None = None
    probed: Any = None
    settings: Any = None

    @property
    def webhook_reached(self) -> bool | None:
        """True if the API server reaches the webhook; None: unknown."""
        return self.webhook == REACHABLE if self.webhook else None

    @property
    def webhook_answered(self) -> bool:
        """True if a daemon exists that answers the webhook: this one, or one that others see."""
        return self.daemon is None or self.daemon.runs or bool(self.daemon.standbys)


class NodeFacts(msgspec.Struct, frozen=True):
    """A virtual node.

    Attributes:
        problem: its fault; empty for none.
        lease: the age of its lease in seconds; None: unknown.
        behind: the reason why its pods may not answer, as its provider reports of its nodes;
            empty for none.
        kubelet: its kubelet runs.
        runs: its Node is kept; None where it is to have none.
    """

    name: str
    problem: str = ""
    lease: float | None = None
    behind: str = ""
    kubelet: bool = False
    runs: bool | None = None


class QueueFacts(msgspec.Struct, frozen=True):
    """A queue of the peer's.

    Attributes:
        waiting: keys in it.
        oldest: seconds that the oldest is overdue.
        worked: seconds since the last success; None: none yet.
        failed: failures so far.
        error: why the last one failed, if nothing has succeeded since.
        busy: keys that are worked on.
        done: keys that were worked on so far.
        delays: delays of keys after they were due; None: unknown.
    """

    waiting: int = 0
    oldest: float = 0.0
    worked: float | None = None
    failed: int = 0
    error: str = ""
    busy: int = 0
    done: int = 0
    delays: Histogram | None = None


class LinkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about the link to a peer's API server.

    Attributes:
        state: ``up``, ``down``, or ``idle`` where nothing is borrowed and no request is sent.
        reason: the reason, in one clause.
        problem: the kind of that reason, ``refused`` or ``untrusted``; empty for the path.
        path: the last path: ``direct``, or ``in-band`` through the tunnel.
        since: time when ``state`` last changed, in Unix seconds.
        silence: seconds since the last packet, from the host at least; None: nothing yet.
        heard: time of that packet, in Unix seconds to a tenth.
        answered: seconds since the server itself last answered; None: never, or unknown.
        rtt: seconds of the newest round trip; None where it was lost.
        p50: median of the round trips in the last ten minutes, in seconds.
        p95: 95th percentile of them.
        jitter: mean difference between one round trip and the next, in seconds.
        loss: part of the last hundred probes that were lost one by one, 0 to 1, outages left out.
        lost: part of them that was lost in all.
        skew: seconds by which the peer's clock is ahead of ours.
        version: version of the API server; empty: unknown.
        degraded: the fault of the API server although it answers; empty for none.
        grave: that fault is no small one.
        daemon: the peer's daemon ``runs``, is ``silent``, is ``untold`` where the peer does not
            show it, or ``unasked`` while that is unknown yet.
        daemon_why: the reason, in one clause, where it is silent.
        daemon_renewed: seconds since it renewed its Lease, or less than that; None: unknown.
        daemon_quiet: seconds for which it was certainly not renewed, at the last look.
        daemon_looked: seconds since that look; None: unknown.
    """

    state: LinkState = "idle"
    reason: str = ""
    problem: LinkProblem = ""
    path: str = "direct"
    since: float = 0.0
    silence: float | None = None
    heard: float | None = None
    answered: float | None = None
    rtt: float | None = None
    p50: float | None = None
    p95: float | None = None
    jitter: float | None = None
    loss: float | None = None
    lost: float | None = None
    skew: float | None = None
    version: str = ""
    degraded: str = ""
    grave: bool = False
    daemon: State = "unasked"
    daemon_why: str = ""
    daemon_renewed: float | None = None
    daemon_quiet: float = 0.0
    daemon_looked: float | None = None

    @property
    def why(self) -> str:
        """The reason for its state, with the fault that it has although it is up."""
        degraded = self.degraded if self.state == "up" else ""
        return ", but ".join(each for each in (self.reason, degraded) if each)


class WorkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The amount of work under way with a peer.

    Attributes:
        lag: seconds from a local change to its write at the peer, worst of the last second.
        backlog: keys that wait in its queues.
        oldest: seconds that the oldest of them is overdue.
        requests: requests to it under way.
        sent: bytes a second to it.
        received: bytes a second from it.
    """

    lag: float | None = None
    backlog: int = 0
    oldest: float = 0.0
    requests: int = 0
    sent: float = 0.0
    received: float = 0.0


class ReflectionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about the reflection at a peer.

    Attributes:
        nodes: virtual nodes.
        namespaces: number of namespaces mapped at the peer.
        unmapped: namespaces that are requested and not mapped, with the seconds since.
        refused: namespaces that it does not accept, with the reason as a clause, and as a word.
        reflectors: their queues by name.
        blind: kinds that cannot be read at the peer, with the reason.
        written: counts of each reflector's writes, by its name.
        mapped: the same by reflector and namespace, for namespaces that are mapped.
        events: Events of remote objects by type, and the results of their local writes; None:
            unknown.
    """

    nodes: tuple[NodeFacts, ...] = ()
    namespaces: int = 0
    unmapped: dict[str, float] = {}
    refused: dict[str, tuple[str, str]] = {}
    reflectors: dict[str, QueueFacts] = {}
    blind: dict[str, str] = {}
    written: dict[str, WriteCounts] = {}
    mapped: dict[tuple[str, str], WriteCounts] = {}
    events: Mapping[tuple[str, str], int] | None = None


class PeerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about one peer.

    Attributes:
        peer: its id.
        now: Unix time; 0 where the facts are of objects.
        cluster: the facts about this cluster.
        lends: it lends to this cluster, or is to.
        borrows: it borrows from this cluster.
        failure: the reason why its task does not run; empty if it does.
        retry_at: time of the next try, in Unix seconds; 0 for none.
        tenant_namespace: its namespace in this cluster; empty: unknown.
        remote_namespace: this cluster's at the peer; empty while there is no identity of its
            control plane.
        link: the path to its API server.
        work: the work under way with it, as of the last second; None: unknown.
        pods_out: pods of this cluster at the peer; None: unknown.
        pods_in: pods of the peer in this cluster; None: unknown.
        role: its role for this cluster, as in its ForeignCluster.
        server: URL of its API server, likewise; empty where nothing is borrowed.
        proxy: HTTP proxy on the path to it.
        pod_network: the path to its pods, such as ``tunnel``.
        leaving: this cluster is leaving it.
        conditions: of its ForeignCluster.
        met: the method by which the two have met (:mod:`liqod.model.view.requests`).
        words: the words that both sides have shown then.
        reflection: the reflection at the peer.
        certificates: seconds of life left of each identity at the peer.
        identities: existing identities at the peer.
        replication: the queue of replication to the peer.
        canary: the newest write at the peer that changes nothing.
        unfollowed: replicated kinds that cannot be watched at the peer, with the reason.
        denied: slices that it denied, with the reason.
        beyond: slices that are granted more than its nodes have, with its message about that.
        ungrown: slices whose later requests for more are not granted, with the reason.
        unanswered: slices that it has not answered yet.
        lent_denied: slices lent to it that this cluster denied, with the reason.
        lent_ungrown: those that this cluster does not let grow, with the reason.
        pods: those of this cluster at the peer that wait, or that are of a DaemonSet.
        reasons: the reasons why objects are not as wanted, on either side, each with its own key.
        former: it has only the former key of this cluster.
        tenant: condition of the peer's tenant in this cluster, as its Tenant has it or
            :data:`liqod.model.peering.healthsummary.UNACCEPTED`; empty where there is none.
        tenant_ready: that Tenant was accepted.
        left_out: kinds of which it has more here than is kept in memory, so that some is not read.
        unmade: its ShadowPods here that have long had neither a pod nor the reason why not; None:
            unknown.
        network: the facts about the network that is joined with it; None where none is to be.
        joined: the same from its objects; None where they have none, or were not read.
        requests: to its API server, by identity; None: unknown.
        usage: the reason why it did not report the usage of its guests; empty where it did, None
            without a request.
        exchanges: the namespaces whose exported Services are shared with it, as objects have them.
        probed: the last result of the check's own probe; None: none yet.
        settings: the check's own settings, as its ``config_type``.
    """

    peer: str
    now: float = 0.0
    cluster: ClusterFacts = ClusterFacts()
    lends: bool = False
    borrows: bool = False
    failure: str = ""
    retry_at: float = 0.0
    tenant_namespace: str = ""
    remote_namespace: str = ""
    link: LinkFacts = LinkFacts()
    work: WorkFacts | None = None
    pods_out: int | None = None
    pods_in: int | None = None
    role: str = ""
    server: str = ""
    proxy: str = ""
    pod_network: str = "none"
    leaving: bool = False
    conditions: tuple[ConditionRow, ...] = ()
    met: str = "-"
    words: str = ""
    reflection: ReflectionFacts = ReflectionFacts()
    certificates: dict[str, float] = {}
    identities: int = 0
    replication: QueueFacts | None = None
    canary: Trip | None = None
    unfollowed: dict[str, str] = {}
    denied: dict[str, str] = {}
    beyond: dict[str, str] = {}
    ungrown: dict[str, str] = {}
    unanswered: tuple[str, ...] = ()
    lent_denied: dict[str, str] = {}
    lent_ungrown: dict[str, str] = {}
    pods: tuple[PodSummary, ...] = ()
    reasons: dict[str, ReasonFacts] = {}
    former: bool = False
    tenant: str = ""
    tenant_ready: bool = False
    left_out: tuple[str, ...] = ()
    unmade: tuple[str, ...] | None = None
    network: NetworkFacts | None = None
    joined: JoinedFacts | None = None
    requests: tuple[ClientFacts, ...] | None = None
    usage: str | None = None
    exchanges: tuple[ExchangeFacts, ...] = ()
    probed: Any = None
    settings: Any = None


class Report(msgspec.Struct, frozen=True):
    """The facts about this cluster and about all of its peers, at one moment.

    Attributes:
        cluster: of this cluster.
        peers: of each peer, by id.
    """

    cluster: ClusterFacts
    peers: dict[str, PeerFacts]
