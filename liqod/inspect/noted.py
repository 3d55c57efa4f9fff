"""What the events of the rooms add up to: who fails and when that is tried again, and counts.

It listens to the hub from the daemon's first second, so that whoever looks later is told what is
so and not only what comes. Bounded by the peers, plugins, reflectors and mapped namespaces that
there are, not by those that there were.
"""

import msgspec

from liqod.model.view.rows import Event


class Failing(msgspec.Struct, frozen=True):
    """Something that does not run: why, and the Unix second of the next try."""

    reason: str
    retry_at: float


class Counted(msgspec.Struct):
    """What one reflector did at one peer: see :class:`liqod.model.view.rows.Reflection`."""

    done: int = 0
    failed: int = 0
    error: str = ""


WRITES = frozenset({"create", "update", "remove", "status", "finish"})
"""Actions on objects that change something, here or there."""
PEERING = "peering with "
PLUGIN = "discovery plugin "


class Noted:
    """Adds up events; read it, do not write it.

    Attributes:
        peers: peers whose task does not run.
        plugins: discovery plugins that do not run.
        peerings: clusters that peering with fails, by id.
        steps: what peering with a cluster is at.
        seen: when each ``plugin/cluster`` was first sighted.
        webhook: the verdict on the webhook's path, as in :class:`liqod.model.view.rows.Daemon`.
        blind: by peer the kinds that cannot be read there, with the reason.
        replication: by peer why replicating something there failed last.
        reflected: by peer and reflector; reflector is empty where an event does not say.
        namespaces: events about objects by (peer, reflector, namespace), for the metrics; the
            namespace is empty where an event does not say.
    """

    def __init__(self) -> None:
        self.rest()

    def rest(self) -> None:
        """Nothing is so (any more): no rooms run, or this daemon leads no more."""
        self.peers: dict[str, Failing] = {}
        self.plugins: dict[str, Failing] = {}
        self.peerings: dict[str, Failing] = {}
        self.steps: dict[str, str] = {}
        self.seen: dict[str, float] = {}
        self.webhook = ""
        self.blind: dict[str, dict[str, str]] = {}
        self.replication: dict[str, str] = {}
        self.reflected: dict[tuple[str, str], Counted] = {}
        self.namespaces: dict[tuple[str, str, str], Counted] = {}
        self._mapped: set[tuple[str, str]] = set()

    def take(self, event: Event) -> None:
        """Take one event in."""
        match event.topic:
            case "peer.reflection":
                self._reflection(event)
            case "peer.kind":
                kinds = self.blind.setdefault(event.peer, {})
                kinds.pop(str(event.facts.get("kind")), None)
                if event.facts.get("problem"):
                    kinds[str(event.facts.get("kind"))] = str(event.facts["problem"])
            case "peer.replication" if "failed" in event.facts:
                self.replication[event.peer] = str(event.facts["failed"])
            case "peer.namespace":
                self._namespace(event)
            case "peer.failed":
                self.peers[event.peer] = _failing(event)
                self._unmap(event.peer)
            case "peer.running":
                self.peers.pop(event.peer, None)
            case "peer.gone":
                self._forget(event.peer)
            case "peer.introduction":
                self.steps[event.peer] = str(event.facts.get("step", ""))
                self.peerings.pop(event.peer, None)
            case "webhook" if "reachable" in event.facts:
                good = event.facts["reachable"] is True
                self.webhook = "reachable" if good else str(event.facts.get("reason"))
            case "discovery.sighting":
                self._sighting(event)
            case "discovery.begun":
                self.plugins.pop(str(event.facts.get("what", "")).removeprefix(PLUGIN), None)
            case "discovery.failed":
                self._discovery(event)

    def _reflection(self, event: Event) -> None:
        facts, peer = event.facts, event.peer
        reflector, namespace = str(facts.get("reflector", "")), str(facts.get("namespace", ""))
        counts = [self.reflected.setdefault((peer, reflector), Counted())]
        if not namespace or (peer, namespace) in self._mapped:
            key = (peer, reflector, namespace)
            counts.append(self.namespaces.setdefault(key, Counted()))
        for count in counts:
            if "failed" in facts or facts.get("action") == "refused":
                count.failed += 1
                count.error = str(facts.get("failed") or facts.get("reason") or "refused")
            elif facts.get("action") in WRITES:
                count.done += 1
                count.error = ""

    def _namespace(self, event: Event) -> None:
        """A namespace is counted while it is mapped; pods that linger after that are not."""
        mapped = (event.peer, str(event.facts.get("namespace", "")))
        if event.facts.get("state") == "started":
            self._mapped.add(mapped)
            return
        self._mapped.discard(mapped)
        for key in [key for key in self.namespaces if (key[0], key[2]) == mapped]:
            del self.namespaces[key]

    def _unmap(self, peer: str) -> None:
        """The peer's sessions are over; those that begin anew are told again."""
        self._mapped = {each for each in self._mapped if each[0] != peer}
        for key in [key for key in self.namespaces if key[0] == peer]:
            del self.namespaces[key]

    def _sighting(self, event: Event) -> None:
        key = f"{event.facts.get('plugin')}/{event.facts.get('cluster_id')}"
        if event.facts.get("gone"):
            self.seen.pop(key, None)
        else:
            self.seen.setdefault(key, event.at)

    def _discovery(self, event: Event) -> None:
        what = str(event.facts.get("what", ""))
        if what.startswith(PEERING):
            name = what.removeprefix(PEERING)
            self.peerings[name] = _failing(event)
            self.steps.pop(name, None)
        else:
            self.plugins[what.removeprefix(PLUGIN)] = _failing(event)

    def _forget(self, peer: str) -> None:
        for by_peer in (self.peers, self.blind, self.replication, self.peerings, self.steps):
            by_peer.pop(peer, None)
        for key in [key for key in self.reflected if key[0] == peer]:
            del self.reflected[key]
        self._unmap(peer)


def _failing(event: Event) -> Failing:
    wait = event.facts.get("retry_in")
    retry_at = event.at + wait if isinstance(wait, int | float) else 0.0
    return Failing(str(event.facts.get("reason", "")), retry_at)
