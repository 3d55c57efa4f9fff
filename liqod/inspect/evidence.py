"""Gathers the facts that checks look at: from memory, without asking anybody."""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import trio

from liqod.apimachinery.kinds import NODES
from liqod.consumer.nodes.virtualnodes import SELECTOR
from liqod.context import ClusterContext
from liqod.identity import certificates
from liqod.inspect.caches import Cache
from liqod.inspect.sample import Sampler
from liqod.inspect.summary import Counted, EventSummary
from liqod.kube.queue import K, KeyedQueue
from liqod.kube.selection import Selection
from liqod.model.objects.partial import Node
from liqod.model.peering import standing
from liqod.model.view import peerview
from liqod.model.view.detail import owner
from liqod.model.view.networkfacts import NetworkFacts
from liqod.peernetwork import NOBODY
from liqod.plugins.diagnosis import (
    ClusterFacts,
    LinkFacts,
    NodeFacts,
    PeerFacts,
    QueueFacts,
    ReflectionFacts,
)
from liqod.resources import RESOURCE_SLICES, TENANTS, ResourceSlice, Tenant
from liqod.resources.authentication import RESOURCES

if TYPE_CHECKING:
    from liqod.consumer.borrowing import Borrowing
    from liqod.consumer.link import Link
    from liqod.consumer.remote import Remote
    from liqod.inspect.probing import Probes
    from liqod.peer import Peer

ENOUGH_ROUNDS = 10
"""Round trips from which on the part that is lost means something."""
Lent = tuple[str, bool, str, str, bool]


class Evidence:
    """Gathers facts.

    Args:
        home: this cluster.
        summary: what events added up to.
        sampler: the newest figures.
        probes: what was asked for.
    """

    def __init__(
        self, home: ClusterContext, summary: EventSummary, sampler: Sampler, probes: "Probes"
    ) -> None:
        self._home = home
        self._summary = summary
        self._sampler = sampler
        self._probes = probes
        self._slices = Cache[Lent](ResourceSlice, _slice)
        self._tenants = Cache[tuple[str, str]](Tenant, _tenant)
        self._nodes = Cache[tuple[str, str]](Node, peerview.usefulness)
        self._read: tuple[bytes | None, float] = (None, 0.0)
        self._unmapped: dict[tuple[str, str], float] = {}

    async def refresh(self) -> None:
        """Take in what informers told since the last time."""
        find = self._home.informers.find
        self._slices.sit_on(find(RESOURCE_SLICES))
        self._tenants.sit_on(find(TENANTS))
        self._nodes.sit_on(find(NODES, Selection(labels=SELECTOR)))
        for cache in (self._slices, self._tenants, self._nodes):
            await cache.refresh()
        self._by_peer: dict[str, list[Lent]] = {}
        for row in self._slices.rows.values():
            self._by_peer.setdefault(row[0], []).append(row)
        self._conditions = dict(self._tenants.rows.values())
        borrowing = self._home.rooms.borrowing()
        self._unmapped = {key: at for key, at in self._unmapped.items() if key[0] in borrowing}
        self._ready = dict(self._nodes.rows.values())

    def peers(self) -> list[str]:
        """The peers there are, also those whose task does not run now."""
        return sorted({*self._home.rooms.peers, *self._summary.peers})

    def cluster(self) -> ClusterFacts:
        """What is known of this cluster."""
        home, figures = self._home, self._sampler.figures
        informers = home.informers.all()
        return ClusterFacts(
            now=now(),
            api=self._probes.server(),
            skew=self._probes.skew,
            version=home.version,
            certificate=self._own_certificate(),
            silent={each.kind.plural: each.problem for each in informers if each.problem},
            webhook=self._summary.webhook,
            proved=self._proved(),
            lag=max(figures.lags, default=0.0),
            left_out={
                each.name: each.why for each in home.plugins.records if each.state == "left out"
            },
            troubled={**self._ended(), **home.calls.troubles()},
            policies=home.fence.missing if home.fence.known else None,
            leading=figures.daemon.state == "leading",
            met_at=home.rooms.listening if home.config.handshake.enabled else None,
            unmet=home.rooms.unheard,
            serving=self._serving(),
        )

    def _ended(self) -> dict[str, str]:
        """Ways of seeing clusters that do not run, and why."""
        return {f"the discovery {name}": it.reason for name, it in self._summary.plugins.items()}

    def _serving(self) -> str | None:
        """Why virtual nodes show a certificate of the daemon's own."""
        known = self._home.rooms.serving
        return known.problem if known is not None and self._home.pod_ways else None

    def _usage(self, peer: str) -> str | None:
        """Why a peer did not tell what pods use."""
        way = self._home.pod_ways.get(peer)
        return way.usage.problem if way is not None and way.usage.asked is not None else None

    def _proved(self) -> float | None:
        """Seconds since the webhook's way was tried."""
        webhook = self._home.rooms.webhook
        at = webhook.proved if webhook is not None else None
        return None if at is None else trio.current_time() - at

    def _own_certificate(self) -> float | None:
        """Seconds of life left of the daemon's own certificate."""
        pem = self._home.client.certificate
        if pem is None:
            return None
        if pem is not self._read[0]:
            self._read = (pem, certificates.read(pem).ends)
        return self._read[1] - time.time()

    def peer(self, name: str, cluster: ClusterFacts) -> PeerFacts:
        """What is known of one peer."""
        summary, peer = self._summary, self._home.rooms.peers.get(name)
        borrowing = peer.borrowing if peer is not None else None
        failing = summary.peers.get(name)
        slices = self._by_peer.get(name, [])
        identities = borrowing.remotes.all() if borrowing is not None else []
        return PeerFacts(
            now=cluster.now,
            peer=name,
            cluster=cluster,
            failure=failing.reason if failing is not None else "",
            borrows=name in self._conditions,
            tenant=self._conditions.get(name, ""),
            former=name in self._home.rooms.by_former_key,
            denied={each: why for _, lent, each, why, _ in slices if why and not lent},
            unanswered=tuple(
                each for _, lent, each, _, answered in slices if not (answered or lent)
            ),
            lends=bool(identities) or any(not lent for _, lent, *_ in slices),
            link=_link(peer.link) if peer is not None else LinkFacts(),
            certificates=_certificates(identities),
            identities=len(identities),
            reflection=self._reflection(name, borrowing),
            replication=self._replication(name, borrowing),
            unfollowed=borrowing.replication.unfollowed if borrowing is not None else {},
            canary=self._probes.canary(name),
            network=_network(peer),
            usage=self._usage(name),
        )

    def _replication(self, name: str, borrowing: "Borrowing | None") -> QueueFacts | None:
        if borrowing is None:
            return None
        return _queue(borrowing.replication.queue, self._summary.replication.get(name, ""))

    def _reflection(self, name: str, borrowing: "Borrowing | None") -> ReflectionFacts:
        if borrowing is None:
            return ReflectionFacts()
        engine = borrowing.engine
        mapping = engine.mapping
        waiting = mapping.desired - mapping.accepted.keys() if mapping.known else frozenset()
        counts = self._summary.reflected
        return ReflectionFacts(
            nodes=tuple(
                NodeFacts(node, self._ready.get(node, "there is no such Node"))
                for node in engine.nodes
            ),
            namespaces=len(mapping.accepted),
            unmapped=self._since(name, waiting),
            reflectors={
                reflector: _queue(queue, counts.get((name, reflector), Counted()).error)
                for reflector, queue in engine.queues.items()
            },
            blind=dict(self._summary.blind.get(name, ())),
        )

    def _since(self, peer: str, namespaces: frozenset[str]) -> dict[str, float]:
        """How long each of these namespaces has been seen as it is."""
        at = trio.current_time()
        for key in [key for key in self._unmapped if key[0] == peer and key[1] not in namespaces]:
            del self._unmapped[key]
        return {each: at - self._unmapped.setdefault((peer, each), at) for each in namespaces}


def now() -> float:
    """The time that findings carry, to a tenth of a second."""
    return round(time.time(), 1)


def _link(link: "Link") -> LinkFacts:
    rounds = link.rounds
    return LinkFacts(
        state=link.state,
        reason=link.reason,
        path=link.path,
        problem=link.problem,
        since=link.since,
        silence=link.since_last_answer,
        answered=link.since_last_word,
        rtt=rounds[-1] if rounds else None,
        loss=lossiness(tuple(rounds)),
        skew=link.skew,
        degraded=str(link.degradations),
        daemon=link.daemon.verdict.state,
        daemon_why=link.daemon.verdict.why,
        daemon_renewed=link.daemon.renewed,
        daemon_quiet=link.daemon.quiet,
        daemon_looked=link.daemon.looked,
    )


def _certificates(identities: "Iterable[Remote]") -> dict[str, float]:
    """Seconds of life left of each, by what it is for."""
    now = time.time()
    return {
        f"slice {each.slice}" if each.slice else "control plane": each.expires - now
        for each in identities
        if each.expires
    }


def _network(peer: "Peer | None") -> NetworkFacts | None:
    """What the room that keeps the peer's network knows; None where none is joined."""
    if peer is None:
        return None
    known = peer.network
    if not known.begun:
        return None
    return known.facts() if known.facts is not None else NetworkFacts(waits=known.waits or NOBODY)


def _queue(queue: KeyedQueue[K], error: str) -> QueueFacts:
    worked = trio.current_time() - queue.worked
    return QueueFacts(
        waiting=queue.waiting,
        oldest=queue.oldest,
        worked=worked if worked < float("inf") else None,
        failed=queue.failed,
        error=error,
    )


def _slice(found: ResourceSlice) -> Lent:
    """The peer of a slice, whether it is lent, its name, why it was denied, and whether there is
    any verdict on it."""
    peer, lent = owner(found)
    denied = (each.message for each in found.status.conditions if each.status == "Denied")
    answered = bool(found.verdict(RESOURCES))
    return peer, lent, found.name, next(denied, ""), answered


def _tenant(found: Tenant) -> tuple[str, str]:
    return found.spec.cluster_id, standing.tenant(found)


def lossiness(rounds: Sequence[float | None]) -> float | None:
    """The part of the round trips that single losses are; None of too few.

    What came before an outage and the outage itself do not count: the link tells of those.
    """
    begin = 0
    for index in range(1, len(rounds)):
        if rounds[index] is None and rounds[index - 1] is None:
            begin = index + 1
    counted = rounds[begin:]
    return counted.count(None) / len(counted) if len(counted) >= ENOUGH_ROUNDS else None
