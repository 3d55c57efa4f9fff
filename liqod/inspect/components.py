"""The running components that the inspector reads, and the facts of each.

No decision depends on the entries here; components that need each other get references. A fact
is a function from a component to a value: it reads memory and takes microseconds, without any
request.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any
from zlib import crc32

import msgspec
import trio
from msgspec.structs import replace

from liqod.borrowing import Borrowing
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.consumer.identities.formerkey import FormerKey
from liqod.consumer.link import ProviderPeer
from liqod.consumer.nodes.podproxy import PodProxies
from liqod.consumer.nodes.servingcertificate import ServingCertificate
from liqod.consumer.remote import Remote
from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.consumer.webhook.webhookcontroller import WebhookController
from liqod.discovery.discoverymanager import DiscoveryManager
from liqod.discovery.sightings import KeptSighting
from liqod.handshake.handshakemanager import HandshakeManager
from liqod.inspect.summary import EventSummary, Failing
from liqod.kube.client import Client
from liqod.kube.queue import KeyedQueue
from liqod.model.view.daemonfacts import (
    ClientFacts,
    MeetingFacts,
    PluginFacts,
    ReasonFacts,
    SightingFacts,
)
from liqod.model.view.facts import QueueFacts
from liqod.network.orders.tunnels import BackendTrouble
from liqod.network.remotemachine import RemoteMachine
from liqod.plugins.callguard import CallGuard
from liqod.plugins.contracts import Reason
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Loaded


class Components:
    """The running components of one daemon.

    Attributes:
        peers: peers with a running task, by id.
        guest_policies: state of the policies that restrict consumers, as far as it is checked.
        pod_proxies: proxies to the pods at peers.
        discovery: while this daemon leads.
        handshake: while this daemon leads.
        former_key: while this daemon leads.
        admission: where the webhook is enabled.
        serving: server certificates of virtual nodes, while they are served.
        machine: this machine, once it can be ordered.
    """

    def __init__(self) -> None:
        self.peers: dict[str, ProviderPeer] = {}
        self.guest_policies = GuestPolicies()
        self.pod_proxies = PodProxies()
        self.discovery: DiscoveryManager | None = None
        self.handshake: HandshakeManager | None = None
        self.former_key: FormerKey | None = None
        self.admission: PodWebhook | None = None
        self.serving: ServingCertificate | None = None
        self.machine: RemoteMachine | None = None
        self._borrowing: dict[str, Borrowing] = {}

    @property
    def listening(self) -> int:
        """TCP port of the handshake with other daemons; 0 while it is not served."""
        return 0 if self.handshake is None else self.handshake.port

    @property
    def unheard(self) -> str:
        """The reason that an enabled handshake is not served; empty otherwise."""
        return "" if self.handshake is None else self.handshake.problem

    @property
    def troubles(self) -> Mapping[str, BackendTrouble]:
        """The present faults of this machine's tunnel backends, by their names."""
        return {} if self.machine is None else self.machine.troubles

    @property
    def unjoined(self) -> str:
        """The reason that this machine can join no networks of peers; empty otherwise."""
        return "" if self.machine is None else self.machine.facts.now.problem

    def apart(self, named: Iterable[str]) -> tuple[str, ...]:
        """Those of some ids that are of no peer whose network is joined, or not looked at yet."""
        joined = {
            name
            for name, peer in self.peers.items()
            if peer.network.ranges is not None or not peer.network.read
        }
        return tuple(sorted({*named} - joined))

    @property
    def webhook(self) -> WebhookController | None:
        """The controller of the webhook, while this daemon leads."""
        return None if self.admission is None else self.admission.controller

    @property
    def by_former_key(self) -> frozenset[str]:
        """The peers that have only the former key of this cluster."""
        return frozenset() if self.former_key is None else self.former_key.providers

    def borrowing(self) -> dict[str, Borrowing]:
        """The borrowing components, by peer."""
        return dict(self._borrowing)

    def stand_by(self) -> None:
        """Remove the components that only a leader has."""
        self.discovery = self.handshake = self.former_key = None

    @contextmanager
    def peer(self, peer: ProviderPeer) -> Iterator[None]:
        """List a peer while the block runs."""
        self.peers[peer.id] = peer
        try:
            yield
        finally:
            if self.peers.get(peer.id) is peer:  # else its successor is already listed
                del self.peers[peer.id]

    @contextmanager
    def borrows(self, peer: str, borrowing: Borrowing) -> Iterator[None]:
        """List the components that borrow from a peer while the block runs."""
        self._borrowing[peer] = borrowing
        try:
            yield
        finally:
            if self._borrowing.get(peer) is borrowing:
                del self._borrowing[peer]


MOST_REASONS = 2000
"""Most reasons of one peer's objects that are read."""
MOST_KINDS = 100
"""Most different reasons of a peer that are shown."""


def queue(found: KeyedQueue[Any], error: str) -> QueueFacts:
    """The facts of a queue, with the last failure of its keys."""
    worked = trio.current_time() - found.worked
    return QueueFacts(
        waiting=found.waiting,
        oldest=found.oldest,
        busy=found.busy,
        worked=worked if worked < float("inf") else None,
        done=found.done,
        failed=found.failed,
        error=error,
        delays=found.delays,
    )


def queues(borrowing: Borrowing | None) -> list[KeyedQueue[Any]]:
    """The queues of a peer that lends."""
    if borrowing is None:
        return []
    return [*borrowing.engine.queues.values(), borrowing.replication.queue]


def clients(borrowing: Borrowing | None) -> list[Client]:
    """The clients of the API server of a peer that lends, one for each identity."""
    return [] if borrowing is None else [each.client for each in borrowing.remotes.all()]


def requests(client: Client) -> ClientFacts:
    """The facts about a client's requests."""
    stats = client.stats
    return ClientFacts(
        answers=stats.answers, took=stats.took, sent=stats.bytes_out, received=stats.bytes_in
    )


def certificates(identities: Iterable[Remote]) -> dict[str, float]:
    """Seconds until the expiry of each identity's certificate, by its purpose."""
    now = time.time()
    return {
        f"slice {each.slice}" if each.slice else "control plane": each.expires - now
        for each in identities
        if each.expires
    }


def reasons(peer: str, borrowing: Borrowing) -> dict[str, ReasonFacts]:
    """The reasons that objects differ from their wanted state, each reason once."""
    found: dict[tuple[str, Reason], list[str]] = {}
    for (reflector, namespace, name), reason in islice(borrowing.engine.reasons(), MOST_REASONS):
        if not reason.expected:
            found.setdefault((reflector, reason), []).append(f"{namespace}/{name}")
    return {
        f"{peer}/{reflector}/{reason.code}/{crc32(reason.message.encode()):08x}": ReasonFacts(
            peer=peer,
            reflector=reflector,
            code=reason.code,
            message=reason.message,
            objects=len(objects),
            example=min(objects),
        )
        for (reflector, reason), objects in islice(found.items(), MOST_KINDS)
    }


def meetings(handshake: HandshakeManager | None) -> MeetingFacts | None:
    """The facts of the handshakes with other daemons; None if they are disabled."""
    if handshake is None:
        return None
    counters = handshake.counters
    return MeetingFacts(
        requests={
            way: {str(phase): count for phase, count in phases.items()}
            for way, phases in handshake.requests().items()
        },
        answers=counters.answers,
        refused=counters.refused,
        channels=counters.channels,
        streams=counters.streams,
        received=counters.received,
        sent=counters.sent,
    )


def plugins(
    host: PluginHost, summary: EventSummary, troubles: Mapping[str, BackendTrouble]
) -> dict[str, PluginFacts]:
    """The state of each plugin, by ``kind/name``.

    Args:
        troubles: the present faults of tunnel backends, which another program calls, by name.
    """
    found = {
        f"{each.kind}/{each.name}": _plugin(each, summary, _gauges(host, each))
        for each in host.loaded.records
    }
    for name, trouble in troubles.items():
        key = f"network/{name}"
        if key in found:
            retry_at = time.time() + trouble.rests if trouble.rests else 0.0
            found[key] = replace(found[key], failure=trouble.reason, retry_at=retry_at)
    return found


def _gauges(host: PluginHost, found: Loaded) -> list[CallGuard]:
    """The gauges of a plugin's calls; a check's probe has one of its own."""
    kinds = ("check", "probe") if found.kind == "check" else (found.kind,)
    gauges = (host.calls.find(kind, found.name) for kind in kinds)
    return [each for each in gauges if each is not None]


def _plugin(found: Loaded, summary: EventSummary, gauges: Iterable[CallGuard]) -> PluginFacts:
    failing = summary.plugins.get(found.name) if found.kind == "discovery" else None
    for gauge in gauges:
        if trouble := gauge.trouble:
            rests = gauge.rests
            failing = Failing(trouble, time.time() + rests if rests else 0.0)
    return PluginFacts(
        name=found.name,
        kind=found.kind,
        version=found.version,
        package=found.package,
        state=found.state,
        why=found.why,
        failure=failing.reason if failing is not None else "",
        retry_at=failing.retry_at if failing is not None else 0.0,
    )


def sightings(
    discovery: DiscoveryManager | None, summary: EventSummary
) -> dict[str, SightingFacts]:
    """The sightings of clusters, by ``plugin/cluster/source``."""
    if discovery is None:
        return {}
    rows: dict[str, SightingFacts] = {}
    for cluster in discovery.book.clusters():
        seen = discovery.seen(cluster)
        assert seen is not None, "it is in the book"
        failing = summary.peerings.get(cluster)
        whole = SightingFacts(
            cluster_id=cluster,
            plugin="",
            own=cluster == discovery.context.cluster_id,
            named=bool(discovery.context.config.peer(cluster).key),
            conflict=seen.conflict,
            waits=discovery.waits(cluster),
            step=summary.steps.get(cluster, ""),
            problem=failing.reason if failing is not None else "",
            retry_at=failing.retry_at if failing is not None else 0.0,
        )
        for entry in seen.entries:
            rows["/".join(filter(None, entry.key))] = _sighting(whole, entry)
    return rows


def _sighting(whole: SightingFacts, entry: KeptSighting) -> SightingFacts:
    """The row of one source, from the facts of the whole cluster and of the source."""
    seen, told = entry.seen, entry.verified
    return msgspec.structs.replace(
        whole,
        plugin=seen.plugin,
        where=seen.where,
        seen=entry.since,
        kubeconfig=bool(seen.kubeconfig),
        addresses=tuple(dict.fromkeys((*(told.addresses if told else ()), *seen.addresses))),
        key=told.key if told else "",
        unverified=entry.problem,
        proof=seen.proof,
        free=dict(told.free) if told else {},
        capabilities=told.capabilities if told else (),
    )
