"""Finds the problems that ``liqod status`` shows, worst first, each with its remedy. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from liqod.apimachinery import labels
from liqod.model.crossing.exclusions import NAMESPACE_STAYS
from liqod.model.network import podpath
from liqod.model.objects import scheduling, webhook
from liqod.model.peering import capacity, healthsummary, nodesready
from liqod.model.view.detail import owner
from liqod.model.view.facts import ClusterFacts, LinkFacts, PeerFacts
from liqod.model.view.figures import counted, span
from liqod.model.view.nodeways import ways
from liqod.model.view.requests import wanted
from liqod.model.view.snapshot import Snapshot
from liqod.resources import InternalFabric
from liqod.resources.authentication import DENIED
from liqod.resources.fabric import FABRIC
from liqod.resources.networking import Connection
from liqod.resources.offloading import NamespaceCondition

EXPIRING = 3 * 24 * 3600.0
"""Seconds of life left below which a certificate is a problem: renewal is long overdue."""
HINTS = 4
"""Rank from which on a problem is one of users' pods, or intended, and not of the peering."""


class Problem(msgspec.Struct, frozen=True, order=True):
    """Something to mend.

    Attributes:
        rank: how bad it is; 0 is worst.
        peer: whose it is; empty for this cluster's own.
        what: what is wrong.
        remedy: what to do.
        layer: the doctor's layer that it is about; empty for none.
        at: when the evidence was had, in Unix seconds; 0 where it has just been read.
        since: since when it is so; 0 where that is not known.
    """

    rank: int
    peer: str
    what: str
    remedy: str
    layer: str = ""
    at: float = 0.0
    since: float = 0.0

    @property
    def hint(self) -> bool:
        """True if the problem is no fault of the peering: a user's pod that waits, or intended."""
        return self.rank >= HINTS


def known(problem: Problem, now: float) -> str:
    """Since when a problem is, and when that was seen, in brackets; empty where it is of now."""
    parts = []
    if problem.since and now - problem.since >= 1:
        parts.append(f"for {span(now - problem.since)}")
    if problem.at and now - problem.at >= 1:
        parts.append(f"seen {span(now - problem.at)} ago")
    return f" ({', '.join(parts)})" if parts else ""


def problems(
    snapshot: Snapshot,
    own: ClusterFacts,
    peers: Iterable[PeerFacts],
    nodes: Mapping[str, tuple[str, str]],
) -> tuple[Problem, ...]:
    """All problems, the worst first.

    Args:
        snapshot: the objects.
        own: what they say of this cluster.
        peers: what they say of each peer.
        nodes: of each virtual node by name its peer, and what is wrong with it.
    """
    every = (each for facts in peers for each in _of_peer(facts))
    return tuple(sorted((*_of_cluster(own), *every, *_of_objects(snapshot, nodes))))


def network(found: Connection) -> str:
    """The problem of a Connection's network, as a clause; empty for none."""
    if found.status.value != "Connected":
        return f"the tunnel is {found.status.value or 'not there yet'}"
    path = podpath.read(found.metadata.annotations.get(labels.PODS, ""))
    return f"from pod to pod {path.why}" if path.state == "failed" else ""


def _of_cluster(own: ClusterFacts) -> Iterable[Problem]:
    if own.daemon is not None and not own.daemon.runs:
        yield Problem(0, "", f"the daemon is {own.daemon.how}", own.daemon.start, "leader")
    if own.id_problem is not None:
        yield Problem(0, "", own.id_problem.what, own.id_problem.remedy, "installation")
    if own.unread:
        what = f"this is not all: {', '.join(own.unread)} cannot be read"
        yield Problem(0, "", what, "use a kubeconfig whose user has the right to list them")
    for name in own.definitions or ():
        what = f"the custom resource {name} is missing"
        yield Problem(0, "", what, "run `liqod install`", "installation")
    if own.older:
        yield Problem(0, "", healthsummary.older(own.older), "run `liqod install`", "installation")
    for name in own.policies or ():
        what = f"the admission policy {name} is missing or denies nothing: nobody is held to it"
        yield Problem(1, "", what, "run `liqod install`", "policies")
    if own.webhook_reached is False:
        what = f"the API server cannot reach the webhook: {own.webhook}"
        yield Problem(3, "", what, webhook.remedy(own.webhook), "webhook")


def _of_peer(facts: PeerFacts) -> Iterable[Problem]:
    peer, link = facts.peer, facts.link
    if link.state == "down":
        yield _api_problem(peer, link)
    if link.daemon == "silent":
        what = (
            f"its daemon does not run: {link.daemon_why}; what runs there stays, nothing new goes"
        )
        yield Problem(1, peer, what, f"start `liqod run` beside {peer}", "daemon")
    if facts.leaving:
        what = "it is being left; what is to be removed there waits for its answer"
        yield Problem(HINTS, peer, what, f"`liqod unpeer {peer} --forget` gives that up")
    if link.degraded:
        remedy = f"`liqod doctor {peer}` says what to do, in the layer reflection"
        yield Problem(3, peer, link.degraded, remedy, "reflection")


def _of_objects(snapshot: Snapshot, nodes: Mapping[str, tuple[str, str]]) -> Iterable[Problem]:
    for name, (peer, message) in nodes.items():
        if message:
            remedy = f"`liqod doctor {peer}` names the first layer that fails"
            yield Problem(2, peer, f"virtual node {name}: {message}", remedy, "nodes")
    for virtual in snapshot.virtual_nodes:
        lacks = nodesready.text(nodesready.told(virtual.metadata.annotations))
        if lacks:
            remedy = "its administrator knows more: `kubectl get nodes` there"
            what = f"virtual node {virtual.name}: {lacks}"
            yield Problem(2, virtual.spec.cluster_id, what, remedy)
    for connection in snapshot.connections:
        what = network(connection)
        if what:
            peer = connection.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")
            remedy = f"`liqod network status {peer}` and `liqod doctor {peer}` say which part"
            yield Problem(2, peer, f"the joined network: {what}", remedy, "network")
    for way in ways(_fabric(snapshot), snapshot.internal_nodes):
        what = way.problem or ("`liqod node` has never run there" if way.told is None else "")
        if what:
            remedy = f"see `liqod node` on {way.name}; `liqod network status` shows all nodes"
            yield Problem(2, "", f"pods of the node {way.name} may reach no peer: {what}", remedy)
    for (peer, name), seconds in snapshot.expiries.items():
        if seconds < EXPIRING:
            yield _expiry_problem(peer, name, seconds)
    for peer in snapshot.former:
        what = f"{peer} knows this cluster by its former key, which is kept for it"
        remedy = (
            f"start `liqod run` beside {peer}; where that is Liqo or an older liqod, `liqod unpeer"
            f" {peer}`, the same there, and peer again"
        )
        yield Problem(HINTS, peer, what, remedy)
    for each in wanted(snapshot.incoming, snapshot.outgoing):
        yield Problem(2 if each.failed else HINTS, each.peer, each.what, each.remedy)
    yield from _slice_problems(snapshot)
    yield from _lending_problem(snapshot)
    yield from _namespace_problems(snapshot)
    yield from _pod_problems(snapshot)
    for namespace, count in snapshot.stayed.items():
        yield Problem(4, "", *scheduling.stayed(namespace, count))


def _fabric(snapshot: Snapshot) -> InternalFabric | None:
    """Liqo has objects of this kind, too, of other names."""
    return next((each for each in snapshot.fabrics if each.name == FABRIC), None)


def _api_problem(peer: str, link: LinkFacts) -> Problem:
    what = f"its API server does not answer: {link.reason}"
    if link.problem == "refused":
        what = f"its API server refuses this cluster: {link.reason}"
    elif link.problem == "untrusted":
        what = f"who answers is not known: {link.reason}"
    elif link.grave:
        what = link.reason
    return Problem(1, peer, what, healthsummary.api_remedy(link.problem, peer), "api")


def _expiry_problem(peer: str, name: str, seconds: float) -> Problem:
    if seconds <= 0:
        remedy = f"{healthsummary.again(peer)}; what runs at {peer} stays"
        return Problem(1, peer, f"the certificate {name} has expired", remedy, "credentials")
    text = f"the certificate {name} ends in {seconds / 3600:.0f} h and was not renewed"
    return Problem(1, peer, text, f"does the daemon of {peer} run?", "credentials")


def _slice_problems(snapshot: Snapshot) -> Iterable[Problem]:
    for item in snapshot.slices:
        peer, lent = owner(item)
        remedy = "your own configuration decides" if lent else "ask the provider"
        for condition in item.status.conditions:
            what = f"slice {item.name} may not grow: {condition.message}"
            if condition.status == DENIED:
                what = f"slice {item.name} denied: {condition.message}"
            if condition.denies:
                yield Problem(2, peer, what, remedy, "" if lent else "granted")
        beyond = "" if lent else capacity.told(item.metadata.annotations, item.status.resources)
        if beyond:
            what = f"slice {item.name}: {beyond}; what does not fit waits for a place"
            yield Problem(HINTS, peer, what, "ask for less, or have its administrator add nodes")


def _lending_problem(snapshot: Snapshot) -> Iterable[Problem]:
    lent = (each.status.resources for each in snapshot.slices if owner(each)[1])
    found = capacity.beyond(snapshot.capacity, lent)
    if found:
        remedy = "grant less (max_resources under [guests]), or add nodes"
        yield Problem(HINTS, "", f"{found}: what does not fit waits for a place", remedy)


def _namespace_problems(snapshot: Snapshot) -> Iterable[Problem]:
    for offloading in snapshot.offloadings:
        for peer, conditions in offloading.status.remote_namespaces_conditions.items():
            for one in conditions:
                if refuses(one):
                    what = f"namespace {offloading.namespace}: {one.message}"
                    remedy = namespace_remedy(offloading.namespace, one.reason)
                    yield Problem(2, peer, what, remedy, "namespaces")


def refuses(one: NamespaceCondition) -> bool:
    """True if a peer refuses a namespace, and that does not pass by itself."""
    passes = one.reason in ("", "Creating", "Terminating")
    return (one.type, one.status) == ("Ready", "False") and not passes


def namespace_remedy(namespace: str, reason: str) -> str:
    """The remedy for a namespace that a peer refuses, by the reason as a word."""
    if reason == NAMESPACE_STAYS:
        return f"`liqod unoffload namespace {namespace}`"
    return "choose another name or mapping strategy"


def _pod_problems(snapshot: Snapshot) -> Iterable[Problem]:
    peers = {node.name: node.spec.cluster_id for node in snapshot.virtual_nodes}
    sets: dict[tuple[str, str], int] = {}
    waits: dict[tuple[str, str, str], list[str]] = {}
    unplaced: dict[tuple[str, str, str], list[str]] = {}
    for pod in snapshot.pods:
        peer = peers.get(pod.node, "")
        if pod.daemon_set:
            key = (peer, f"{pod.namespace}/{pod.daemon_set}")
            sets[key] = sets.get(key, 0) + 1
        elif pod.reason and not pod.ready:
            alike = unplaced if pod.unplaced and peer else waits
            alike.setdefault((peer, pod.namespace, pod.reason), []).append(pod.name)
    for (peer, namespace, reason), names in waits.items():
        what = f"pod {namespace}/{_named(names)}: {reason}"
        yield Problem(4, peer, what, "kubectl describe it")
    for (peer, namespace, reason), names in unplaced.items():
        what = f"no node of {peer} has a place for the pod {namespace}/{_named(names)}: {reason}"
        remedy = "ask for no more than it has, or have its administrator make room"
        yield Problem(3, peer, what, remedy)
    for (peer, name), count in sets.items():
        what = f"DaemonSet {name} tolerates everything: {count} of its pods wait on virtual nodes"
        remedy = "give it a node affinity with liqo.io/type NotIn [virtual-node]"
        yield Problem(5, peer, what, remedy)


def _named(names: list[str]) -> str:
    others = f" and {counted(len(names) - 1, 'other')}" if len(names) > 1 else ""
    return f"{min(names)}{others}"
