"""Fills the facts of this cluster and of its peers from memory, without any request.

Facts that change each second are measured each second (:meth:`FactsInMemory.measure`), about a
millisecond for a hundred peers; all others are read in each round of the doctor.
"""

import os
import time
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import trio

from liqod import __version__
from liqod.apimachinery.kinds import PODS
from liqod.cluster.context import ClusterContext
from liqod.identity import certificates
from liqod.inspect import components as of
from liqod.inspect.components import Components
from liqod.inspect.lentpods import LentPods
from liqod.inspect.objectcaches import CheckedObjects
from liqod.inspect.summary import EventSummary
from liqod.kube.cache.nodeindex import node_index
from liqod.model.view import objectfacts
from liqod.model.view.daemonfacts import ProcessFacts, WriteCounts
from liqod.model.view.facts import (
    ClusterFacts,
    LinkFacts,
    NodeFacts,
    PeerFacts,
    QueueFacts,
    ReflectionFacts,
    Report,
    WorkFacts,
)
from liqod.model.view.objectfacts import SliceFacts
from liqod.model.view.roomrows import SeenWord, seen_words
from liqod.plugins.host import PluginHost

if TYPE_CHECKING:
    from liqod.borrowing import Borrowing
    from liqod.inspect.probing import CheckProbes
    from liqod.kube.client import Client


class FactsInMemory:
    """Fills facts from the memory of this daemon's components.

    Args:
        summary: the sums of events.
        probes: the results of probes.

    Attributes:
        daemon: the process, as last measured.
        lags: delay of the event loop in each of the last sixty seconds, newest last.
        words: age of each provider's word on what is free, by virtual node.
    """

    def __init__(
        self,
        context: ClusterContext,
        components: Components,
        plugins: PluginHost,
        summary: EventSummary,
        probes: "CheckProbes",
    ) -> None:
        self.daemon = ProcessFacts(pid=os.getpid(), started=time.time())
        self.lags: tuple[float, ...] = ()
        self.words: dict[str, SeenWord] = {}
        self._measured: dict[str, PeerFacts] = {}
        self._context, self._components, self._plugins = context, components, plugins
        self._summary = summary
        self._probes = probes
        self._objects = CheckedObjects(context)
        self._lent_pods = LentPods(context.informers, self._objects.guests)
        self._slices: dict[str, list[SliceFacts]] = {}
        self._tenants: dict[str, str] = {}
        self._nodes: dict[str, str] = {}
        self._read: tuple[bytes | None, float] = (None, 0.0)
        self._unmapped: dict[tuple[str, str], float] = {}
        self._bytes: dict[str, tuple[int, int]] = {}
        self._second = int(trio.current_time())
        self._at = trio.current_time()

    async def measure(self, daemon: ProcessFacts) -> Report:
        """Measure the figures of a second: of the process, and of each peer's link, work and pods.

        Args:
            daemon: the figures of the process.
        """
        self.daemon = daemon
        self.lags = (*self.lags[-59:], daemon.lag)
        await self._objects.refresh_guests()
        at = trio.current_time()
        passed, self._at = max(at - self._at, 1e-3), at
        # The last of these whole seconds is not over yet.
        seconds, self._second = (self._second, int(at)), int(at)
        cluster = ClusterFacts(now=now(), process=daemon)
        lent, peers = Counter(self._objects.guests.rows.values()), self._components.peers
        borrowing = self._components.borrowing()
        self._measured = {
            name: PeerFacts(
                now=cluster.now,
                peer=name,
                cluster=cluster,
                link=peer.link.facts(),
                work=self._work(name, borrowing.get(name), passed, seconds),
                pods_out=self._pods_out(borrowing.get(name)),
                pods_in=lent[name],
            )
            for name, peer in peers.items()
        }
        for gone in self._bytes.keys() - peers.keys():
            del self._bytes[gone]
        return Report(cluster, self._measured)

    def working(self, found: PeerFacts) -> PeerFacts:
        """The facts about a peer, with the present ones of its task and its link."""
        peer, failing = self._components.peers.get(found.peer), self._summary.peers.get(found.peer)
        return msgspec.structs.replace(
            found,
            failure=failing.reason if failing is not None else "",
            retry_at=failing.retry_at if failing is not None else 0.0,
            tenant_namespace=found.tenant_namespace if peer is None else peer.tenant_namespace,
            link=peer.link.facts() if peer is not None else LinkFacts(),
        )

    def _work(
        self, peer: str, borrowing: "Borrowing | None", passed: float, seconds: tuple[int, int]
    ) -> WorkFacts:
        queues, clients = of.queues(borrowing), of.clients(borrowing)
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
        return sum(node_index(pods).count(node) for node in borrowing.engine.nodes)

    def _rates(self, name: str, clients: "list[Client]", passed: float) -> tuple[float, float]:
        """Bytes per second to a peer, and from it."""
        stats = [client.stats for client in clients]
        totals = (sum(each.bytes_out for each in stats), sum(each.bytes_in for each in stats))
        before = self._bytes.get(name, totals)
        self._bytes[name] = totals
        sent, received = (max(a - b, 0) / passed for a, b in zip(totals, before, strict=True))
        return round(sent), round(received)

    async def refresh(self) -> None:
        """Read the changes that informers reported since the last call."""
        await self._objects.refresh()
        await self._objects.refresh_guests()
        await self._lent_pods.refresh()
        self._slices = {}
        for row in self._objects.slices.rows.values():
            self._slices.setdefault(row.peer, []).append(row)
        self._tenants = dict(self._objects.tenants.rows.values())
        self._nodes = dict(self._objects.nodes.rows.values())
        self.words = seen_words(self.words, dict(self._objects.words.rows.values()), now())
        borrowing = self._components.borrowing()
        self._unmapped = {key: at for key, at in self._unmapped.items() if key[0] in borrowing}

    def peers(self) -> list[str]:
        """All peers, also those without a running task."""
        return sorted({*self._components.peers, *self._summary.peers})

    def report(self) -> Report:
        """All facts."""
        cluster = self.cluster()
        return Report(cluster, {name: self.peer(name, cluster) for name in self.peers()})

    def nudge(self) -> None:
        """Have the figures of all networks read again for the next report."""
        for peer in self._components.peers.values():
            peer.network.nudge()

    @property
    def webhook(self) -> str:
        """The verdict on the webhook's path; empty if unknown."""
        return self._summary.webhook

    @property
    def missing_policies(self) -> tuple[str, ...]:
        """The missing admission policies that restrict consumers."""
        return self._components.guest_policies.missing

    def cluster(self) -> ClusterFacts:
        """The facts of this cluster."""
        context, components = self._context, self._components
        informers, policies = context.informers.all(), components.guest_policies
        discovery, handshake = components.discovery, components.handshake
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
            process=msgspec.structs.replace(
                self.daemon,
                cluster_id=context.cluster_id,
                version=__version__,
                kubernetes=context.version,
                webhook=self._summary.webhook,
                key="" if discovery is None else discovery.own_key,
                met_at="" if handshake is None else handshake.advertised_address,
                services=context.config.services.enabled,
            ),
            plugins=of.plugins(self._plugins, self._summary, components.troubles),
            sightings=of.sightings(discovery, self._summary),
            sighted={} if discovery is None else discovery.book.counts,
            meetings=of.meetings(handshake),
            requests=of.requests(context.client),
            policies=policies.missing if policies.known else None,
            leading=self.daemon.leading,
            met_at=components.listening if context.config.handshake.enabled else None,
            unmet=components.unheard,
            unjoined=components.unjoined if context.config.network.enabled else None,
            apart=components.apart(context.transit.named),
            serving=self._serving(),
        )

    def _serving(self) -> str | None:
        """The reason that virtual nodes use a certificate of the daemon's own."""
        known = self._components.serving
        return known.problem if known is not None and self._components.pod_proxies else None

    def _usage(self, peer: str) -> str | None:
        """The reason that a peer did not report the usage of pods."""
        way = self._components.pod_proxies.get(peer)
        return way.usage.problem if way is not None and way.usage.requested_at is not None else None

    def _proved(self) -> float | None:
        """Seconds since the webhook's path was last tested."""
        webhook = self._components.webhook
        at = webhook.proved if webhook is not None else None
        return None if at is None else trio.current_time() - at

    def _own_certificate(self) -> float | None:
        """Seconds until the expiry of the daemon's own certificate."""
        pem = self._context.client.certificate
        if pem is None:
            return None
        if pem is not self._read[0]:
            self._read = (pem, certificates.read(pem).not_after)
        return self._read[1] - time.time()

    def peer(self, name: str, cluster: ClusterFacts) -> PeerFacts:
        """The facts of one peer."""
        peer = self._components.peers.get(name)
        measured = self._measured.get(name) or PeerFacts(peer=name)
        borrowing = self._components.borrowing().get(name)
        identities = borrowing.remotes.all() if borrowing is not None else []
        slices = self._slices.get(name, [])
        unmade = self._lent_pods.unmade
        return msgspec.structs.replace(
            self.working(measured),
            now=cluster.now,
            cluster=cluster,
            borrows=name in self._tenants,
            tenant=self._tenants.get(name, ""),
            left_out=self._lent_pods.left_out.get(name, ()),
            unmade=None if unmade is None else unmade.get(name, ()),
            former=name in self._components.by_former_key,
            **objectfacts.of_slices(slices),
            lends=bool(identities) or any(not each.lent for each in slices),
            certificates=of.certificates(identities),
            identities=len(identities),
            reflection=self._reflection(name, borrowing),
            replication=self._replication(name, borrowing),
            unfollowed=borrowing.replication.unfollowed if borrowing is not None else {},
            canary=self._probes.canary(name),
            network=peer.network.facts() if peer is not None else None,
            reasons={} if borrowing is None else of.reasons(name, borrowing),
            requests=tuple(of.requests(client) for client in of.clients(borrowing)),
            usage=self._usage(name),
        )

    def _replication(self, name: str, borrowing: "Borrowing | None") -> QueueFacts | None:
        if borrowing is None:
            return None
        return of.queue(borrowing.replication.queue, self._summary.replication.get(name, ""))

    def _reflection(self, name: str, borrowing: "Borrowing | None") -> ReflectionFacts:
        if borrowing is None:
            return ReflectionFacts()
        engine = borrowing.engine
        mapping = engine.mapping
        waiting = mapping.desired - mapping.accepted.keys() if mapping.known else frozenset()
        counts = {
            reflector: self._summary.reflected.get((name, reflector), WriteCounts())
            for reflector in engine.queues
        }
        return ReflectionFacts(
            nodes=tuple(
                NodeFacts(node, self._nodes.get(node, "there is no such Node"))
                for node in engine.nodes
            ),
            namespaces=len(mapping.accepted),
            unmapped=self._since(name, waiting),
            reflectors={
                reflector: of.queue(queue, counts[reflector].error)
                for reflector, queue in engine.queues.items()
            },
            written=counts,
            mapped=dict(self._summary.namespaces.get(name, {})),
            events=engine.context.events.writer.counts,
            blind=dict(self._summary.blind.get(name, ())),
        )

    def _since(self, peer: str, namespaces: frozenset[str]) -> dict[str, float]:
        """Seconds for which each of these namespaces has been seen unchanged."""
        at = trio.current_time()
        for key in [key for key in self._unmapped if key[0] == peer and key[1] not in namespaces]:
            del self._unmapped[key]
        return {each: at - self._unmapped.setdefault((peer, each), at) for each in namespaces}


def now() -> float:
    """The time of findings, to a tenth of a second."""
    return round(time.time(), 1)
