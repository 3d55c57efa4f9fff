"""Sums up the events of the components: failures and the times of the next attempts, and counts.

It listens to the hub from the daemon's first second, so that a later viewer gets the present state
and not only what comes. Bounded by the peers, plugins, reflectors and mapped namespaces that there
are, not by those that there were.
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
    """Something that does not run: why, and the Unix second of the next try."""

    reason: str
    retry_at: float


WRITES = frozenset({"create", "update", "remove", "status", "finish"})
"""Actions on objects that change something, here or there."""


class EventSummary:
    """Adds up events; read it, do not write it.

    Attributes:
        peers: peers whose task does not run.
        plugins: discovery plugins that do not run.
        peerings: clusters that peering with fails, by id.
        steps: what peering with a cluster is at.
        webhook: the verdict on the webhook's path, as in
            :class:`liqod.model.view.daemonfacts.ProcessFacts`.
        blind: by peer the kinds that cannot be read there, with the reason.
        replication: by peer why replicating something there failed last.
        reflected: by peer and reflector; reflector is empty where an event does not say.
        namespaces: by peer the same by reflector and namespace, for the metrics; the namespace is
            empty where an event does not say.
    """

    def __init__(self) -> None:
        self.rest()

    def rest(self) -> None:
        """Nothing is so (any more): no components run, or this daemon leads no more."""
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
        """Take one event in."""
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
        """Those of a reflector and of one of its namespaces, as long as that is mapped."""
        counts = [self.reflected.setdefault((peer, reflector), WriteCounts())]
        if not namespace or (peer, namespace) in self._mapped:
            mapped = self.namespaces.setdefault(peer, {})
            counts.append(mapped.setdefault((reflector, namespace), WriteCounts()))
        return counts

    def _namespace(self, peer: str, namespace: str, *, started: bool) -> None:
        """A namespace is counted while it is mapped; pods that linger after that are not."""
        mapped = (peer, namespace)
        if started:
            self._mapped.add(mapped)
            return
        self._mapped.discard(mapped)
        counts = self.namespaces.get(peer, {})
        for key in [key for key in counts if key[1] == namespace]:
            del counts[key]

    def _unmap(self, peer: str) -> None:
        """The peer's sessions are over; those that begin anew are reported again."""
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
