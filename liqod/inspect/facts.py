"""Fills the facts of this cluster and of its peers from memory, without asking anybody.

Facts that change each second are measured each second (:meth:`FactsInMemory.measure`), about a
millisecond for a hundred peers; all else is read when the doctor looks.
"""

import os
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, PODS
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.consumer.nodes.virtualnodes import SELECTOR
from liqod.identity import certificates
from liqod.inspect.caches import Cache
from liqod.inspect.components import Components
from liqod.inspect.summary import Counted, EventSummary
from liqod.kube.cache.nodeindex import placement
from liqod.kube.queue import K, KeyedQueue
from liqod.kube.selection import Selection
from liqod.model.objects.partial import Node
from liqod.model.peering import healthsummary
from liqod.model.view import objectfacts, peerview
from liqod.model.view.detail import owner
from liqod.model.view.facts import (
    ClusterFacts,
    LinkFacts,
    NodeFacts,
    PeerFacts,
    QueueFacts,
    ReflectionFacts,
    WorkFacts,
)
from liqod.model.view.networkfacts import NetworkFacts
from liqod.model.view.rows import Daemon
from liqod.peers.peernetwork import NOBODY
from liqod.plugins.host import PluginHost
from liqod.resources import RESOURCE_SLICES, TENANTS, ResourceSlice, Tenant
from liqod.resources.authentication import RESOURCES

if TYPE_CHECKING:
    from liqod.borrowing import Borrowing
    from liqod.consumer.link import ProviderPeer
    from liqod.consumer.remote import Remote
    from liqod.inspect.probing import Probes
    from liqod.kube.client import Client

Lent = tuple[str, bool, str, str, bool]


class FactsInMemory:
    """Fills facts from what this daemon's components have in memory.

    Args:
        context: this cluster.
        components: those that work now.
        plugins: the plugins, and their calls.
        summary: what events added up to.
        probes: what was asked for.

    Attributes:
        daemon: the process, as it was measured last.
        lags: how late the event loop was in each of the last sixty seconds, newest last.
        measured: of each peer what was measured last.
        lent: of each pod here that belongs to a consumer, that consumer.
    """

    def __init__(
        self,
        context: ClusterContext,
        components: Components,
        plugins: PluginHost,
        summary: EventSummary,
        probes: "Probes",
    ) -> None:
        self.daemon = Daemon(pid=os.getpid(), started=time.time())
        self.lags: tuple[float, ...] = ()
        self.measured: dict[str, PeerFacts] = {}
        self.lent = Cache[str](Partial, peerview.origin)
        self._context, self._components, self._plugins = context, components, plugins
        self._summary = summary
        self._probes = probes
        self._slices = Cache[Lent](ResourceSlice, _slice)
        self._tenants = Cache[tuple[str, str]](Tenant, _tenant)
        self._nodes = Cache[tuple[str, str]](Node, peerview.usefulness)
        self._read: tuple[bytes | None, float] = (None, 0.0)
        self._unmapped: dict[tuple[str, str], float] = {}
        self._bytes: dict[str, tuple[int, int]] = {}
        self._second = int(trio.current_time())
        self._at = trio.current_time()

    async def measure(self, daemon: Daemon) -> None:
        """Take the figures of a second.

        Args:
            daemon: those of the process.
        """
        self.daemon = daemon
        self.lags = (*self.lags[-59:], daemon.lag)
        find, peers = self._context.informers.find, self._components.peers
        self.lent.sit_on(find(PODS, Selection(labels=labels.GUEST_PODS)))
        await self.lent.refresh()
        at = trio.current_time()
        passed, self._at = max(at - self._at, 1e-3), at
        # The last of these whole seconds is not over yet.
        seconds, self._second = (self._second, int(at)), int(at)
        bare, lent = ClusterFacts(now=now()), Counter(self.lent.rows.values())
        borrowing = self._components.borrowing()
        self.measured = {
            name: msgspec.structs.replace(
                self._working(name, bare),
                work=self._work(name, borrowing.get(name), passed, seconds),
                pods_out=self._pods_out(borrowing.get(name)),
                pods_in=lent[name],
            )
            for name in peers
        }
        for gone in self._bytes.keys() - peers.keys():
            del self._bytes[gone]

    def now(self, peer: str) -> PeerFacts:
        """How the task of a peer and the way to it are at this moment, and no more."""
        return self._working(peer, ClusterFacts(now=now()))

    def _work(
        self, peer: str, borrowing: "Borrowing | None", passed: float, seconds: tuple[int, int]
    ) -> WorkFacts:
        queues, clients = _queues(borrowing), _clients(borrowing)
        sent, received = self._rates(peer, clients, passed)
        slowest = max((queue.slowest(*seconds) for queue in queues), default=0.0)
        return WorkFacts(
            lag=round(slowest, 3) if slowest else None,
            backlog=sum(queue.waiting for queue in queues),
            oldest=round(max((queue.oldest for queue in queues), default=0.0), 1),
            requests=sum(client.busy()[0] for client in clients),
            sent=sent,
            received=received,
        )

    def _pods_out(self, borrowing: "Borrowing | None") -> int:
        pods = self._context.informers.find(PODS, self._context.own_pods.selection)
        if pods is None or borrowing is None:
            return 0
        return sum(placement(pods).count(node) for node in borrowing.engine.nodes)

    def _rates(self, name: str, clients: "list[Client]", passed: float) -> tuple[float, float]:
        """Bytes a second to a peer, and from it."""
        stats = [client.stats for client in clients]
        totals = (sum(each.bytes_out for each in stats), sum(each.bytes_in for each in stats))
        before = self._bytes.get(name, totals)
        self._bytes[name] = totals
        sent, received = (max(a - b, 0) / passed for a, b in zip(totals, before, strict=True))
        return round(sent), round(received)

    def _working(self, name: str, cluster: ClusterFacts) -> PeerFacts:
        """How the task of a peer works, and the way to its API server."""
        peer, failing = self._components.peers.get(name), self._summary.peers.get(name)
        return PeerFacts(
            now=cluster.now,
            peer=name,
            cluster=cluster,
            failure=failing.reason if failing is not None else "",
            retry_at=failing.retry_at if failing is not None else 0.0,
            tenant_namespace=peer.tenant_namespace if peer is not None else "",
            link=peer.link.facts() if peer is not None else LinkFacts(),
        )

    async def refresh(self) -> None:
        """Take in what informers reported since the last time."""
        find = self._context.informers.find
        self._slices.sit_on(find(RESOURCE_SLICES))
        self._tenants.sit_on(find(TENANTS))
        self._nodes.sit_on(find(NODES, Selection(labels=SELECTOR)))
        for cache in (self._slices, self._tenants, self._nodes):
            await cache.refresh()
        self._by_peer: dict[str, list[Lent]] = {}
        for row in self._slices.rows.values():
            self._by_peer.setdefault(row[0], []).append(row)
        self._conditions = dict(self._tenants.rows.values())
        borrowing = self._components.borrowing()
        self._unmapped = {key: at for key, at in self._unmapped.items() if key[0] in borrowing}
        self._ready = dict(self._nodes.rows.values())

    def peers(self) -> list[str]:
        """The peers there are, also those whose task does not run now."""
        return sorted({*self._components.peers, *self._summary.peers})

    def cluster(self) -> ClusterFacts:
        """The facts of this cluster."""
        context = self._context
        informers, policies = context.informers.all(), self._components.guest_policies
        return ClusterFacts(
            now=now(),
            api=self._probes.server(),
            skew=self._probes.skew,
            version=context.version,
            certificate=self._own_certificate(),
            silent={each.kind.plural: each.problem for each in informers if each.problem},
            webhook=self._summary.webhook,
            proved=self._proved(),
            lag=max(self.lags, default=0.0),
            left_out={
                each.name: each.why
                for each in self._plugins.loaded.records
                if each.state == "left out"
            },
            troubled={**self._ended(), **self._plugins.calls.troubles()},
            policies=policies.missing if policies.known else None,
            leading=self.daemon.leading,
            met_at=self._components.listening if context.config.handshake.enabled else None,
            unmet=self._components.unheard,
            serving=self._serving(),
        )

    def _ended(self) -> dict[str, str]:
        """Ways of seeing clusters that do not run, and why."""
        return {f"the discovery {name}": it.reason for name, it in self._summary.plugins.items()}

    def _serving(self) -> str | None:
        """Why virtual nodes show a certificate of the daemon's own."""
        known = self._components.serving
        return known.problem if known is not None and self._components.pod_proxies else None

    def _usage(self, peer: str) -> str | None:
        """Why a peer did not report what pods use."""
        way = self._components.pod_proxies.get(peer)
        return way.usage.problem if way is not None and way.usage.asked is not None else None

    def _proved(self) -> float | None:
        """Seconds since the webhook's way was tried."""
        webhook = self._components.webhook
        at = webhook.proved if webhook is not None else None
        return None if at is None else trio.current_time() - at

    def _own_certificate(self) -> float | None:
        """Seconds of life left of the daemon's own certificate."""
        pem = self._context.client.certificate
        if pem is None:
            return None
        if pem is not self._read[0]:
            self._read = (pem, certificates.read(pem).ends)
        return self._read[1] - time.time()

    def peer(self, name: str, cluster: ClusterFacts) -> PeerFacts:
        """The facts of one peer."""
        peer, measured = self._components.peers.get(name), self.measured.get(name)
        borrowing = self._components.borrowing().get(name)
        slices = self._by_peer.get(name, [])
        identities = borrowing.remotes.all() if borrowing is not None else []
        return msgspec.structs.replace(
            self._working(name, cluster),
            work=measured.work if measured is not None else None,
            pods_out=measured.pods_out if measured is not None else None,
            pods_in=measured.pods_in if measured is not None else None,
            borrows=name in self._conditions,
            tenant=self._conditions.get(name, ""),
            former=name in self._components.by_former_key,
            denied={each: why for _, lent, each, why, _ in slices if why and not lent},
            unanswered=tuple(
                each for _, lent, each, _, answered in slices if not (answered or lent)
            ),
            lends=bool(identities) or any(not lent for _, lent, *_ in slices),
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


def _certificates(identities: "Iterable[Remote]") -> dict[str, float]:
    """Seconds of life left of each, by what it is for."""
    now = time.time()
    return {
        f"slice {each.slice}" if each.slice else "control plane": each.expires - now
        for each in identities
        if each.expires
    }


def _network(peer: "ProviderPeer | None") -> NetworkFacts | None:
    """The facts of the component that keeps the peer's network; None where none is joined."""
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


def _queues(borrowing: "Borrowing | None") -> "list[KeyedQueue[Any]]":
    if borrowing is None:
        return []
    return [*borrowing.engine.queues.values(), borrowing.replication.queue]


def _clients(borrowing: "Borrowing | None") -> "list[Client]":
    return [] if borrowing is None else [each.client for each in borrowing.remotes.all()]


def _slice(found: ResourceSlice) -> Lent:
    """The peer of a slice, whether it is lent, its name, why it was denied, and whether there is
    any verdict on it."""
    peer, lent = owner(found)
    answered = bool(found.verdict(RESOURCES))
    return peer, lent, found.name, objectfacts.denial(found), answered


def _tenant(found: Tenant) -> tuple[str, str]:
    return found.spec.cluster_id, healthsummary.tenant(found)
