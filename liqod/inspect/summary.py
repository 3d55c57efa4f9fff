"""Sums up the events of the components: failures and the times of the next attempts, and counts.

It listens to the hub from the daemon's first second, so that a later viewer gets the present state
and not only new events. Bounded by the existing peers, plugins, reflectors and mapped namespaces,
not by former ones.
"""

import msgspec

from liqod.model.view.daemonfacts import WriteCounts
from liqod.model.view.facts import REACHABLE
from liqod.telemetry.events import (
    DiscoveryBegun,
    DiscoveryFailed,
    KeyFailed,
    KindRead,
    NamespaceSession,
    PeerFailed,
    PeerGone,
    PeeringStep,
    PeerRunning,
    Reflected,
    Replicated,
    WebhookChanged,
)
from liqod.telemetry.hub import Published


class Failing(msgspec.Struct, frozen=True):
    """A failure of a task: the reason, and the Unix second of the next attempt."""

    reason: str
    retry_at: float


WRITES = frozenset({"create", "update", "remove", "status", "finish"})
"""Actions on objects that change something, in this cluster or at the peer."""


class EventSummary:
    """Adds up events; read it, do not write it.

    Attributes:
        peers: peers whose task does not run.
        plugins: discovery plugins that do not run.
        peerings: clusters with failing peering, by id.
        steps: the current step of peering with a cluster.
        webhook: the verdict on the webhook's path, as in
            :class:`liqod.model.view.daemonfacts.ProcessFacts`.
        blind: by peer the kinds that cannot be read there, with the reason.
        replication: by peer the last failure of a replication there.
        reflected: by peer and reflector; reflector is empty if an event lacks it.
        namespaces: by peer the same by reflector and namespace, for the metrics; the namespace is
            empty if an event lacks it.
    """

    def __init__(self) -> None:
        self.rest()

    def rest(self) -> None:
        """Clear everything: no components run, or this daemon has lost leadership."""
        self.peers: dict[str, Failing] = {}
        self.plugins: dict[str, Failing] = {}
        self.peerings: dict[str, Failing] = {}
        self.steps: dict[str, str] = {}
        self.webhook = ""
        self.blind: dict[str, dict[str, str]] = {}
        self.replication: dict[str, str] = {}
        self.reflected: dict[tuple[str, str], WriteCounts] = {}
        self.namespaces: dict[str, dict[tuple[str, str], WriteCounts]] = {}
        self._mapped: set[tuple[str, str]] = set()

    def take(self, event: Published) -> None:
        """Add one event."""
        peer = event.peer
        match event.payload:
            case Reflected() as told:
                self._reflected(peer, told)
            case KeyFailed(source=Reflected.TOPIC) as told:
                for count in self._counts(peer, told.reflector, ""):
                    count.fail(told.failed)
            case KindRead(kind=kind, problem=problem):
                kinds = self.blind.setdefault(peer, {})
                kinds.pop(kind, None)
                if problem:
                    kinds[kind] = problem
            case (KeyFailed(source=Replicated.TOPIC) | Replicated()) as told if told.failed:
                self.replication[peer] = told.failed
            case NamespaceSession(namespace=namespace, state=state):
                self._namespace(peer, namespace, started=state == "started")
            case PeerFailed() as told:
                self.peers[peer] = _failing(event, told)
                self._unmap(peer)
            case PeerRunning():
                self.peers.pop(peer, None)
            case PeerGone():
                self._forget(peer)
            case PeeringStep(step=step):
                self.steps[peer] = step
                self.peerings.pop(peer, None)
            case WebhookChanged(reachable=bool() as reachable, reason=reason):
                self.webhook = REACHABLE if reachable else reason
            case DiscoveryBegun(plugin=plugin):
                self.plugins.pop(plugin, None)
            case DiscoveryFailed(plugin="", cluster=cluster) as told:
                self.peerings[cluster] = _failing(event, told)
                self.steps.pop(cluster, None)
            case DiscoveryFailed(plugin=plugin) as told:
                self.plugins[plugin] = _failing(event, told)

    def _reflected(self, peer: str, payload: Reflected) -> None:
        for count in self._counts(peer, payload.reflector, payload.namespace):
            if payload.action == "refused":
                count.fail(payload.reason or "refused")
            elif payload.action in WRITES:
                count.succeed()

    def _counts(self, peer: str, reflector: str, namespace: str) -> list[WriteCounts]:
        """The counts of a reflector and of one of its namespaces, while that is mapped."""
        counts = [self.reflected.setdefault((peer, reflector), WriteCounts())]
        if not namespace or (peer, namespace) in self._mapped:
            mapped = self.namespaces.setdefault(peer, {})
            counts.append(mapped.setdefault((reflector, namespace), WriteCounts()))
        return counts

    def _namespace(self, peer: str, namespace: str, *, started: bool) -> None:
        """Count a namespace while it is mapped; pods that remain after that are not counted."""
        mapped = (peer, namespace)
        if started:
            self._mapped.add(mapped)
            return
        self._mapped.discard(mapped)
        counts = self.namespaces.get(peer, {})
        for key in [key for key in counts if key[1] == namespace]:
            del counts[key]

    def _unmap(self, peer: str) -> None:
        """Drop the peer's namespaces as its sessions end; new sessions are reported again."""
        self._mapped = {each for each in self._mapped if each[0] != peer}
        self.namespaces.pop(peer, None)

    def _forget(self, peer: str) -> None:
        for by_peer in (self.peers, self.blind, self.replication, self.peerings, self.steps):
            by_peer.pop(peer, None)
        for key in [key for key in self.reflected if key[0] == peer]:
            del self.reflected[key]
        self._unmap(peer)


def _failing(event: Published, payload: PeerFailed | DiscoveryFailed) -> Failing:
    return Failing(payload.reason, event.at + payload.retry_in)
