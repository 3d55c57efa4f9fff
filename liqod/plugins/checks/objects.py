"""Checks of single objects: of what is no layer of a ladder, and in the list of problems alone.

Each looks at a fact that the objects of the API server hold, or a daemon's state (its sightings,
its reflectors' reasons), and has a finding of it only where something is wrong.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal

from liqod.apimachinery import labels
from liqod.model.objects import returnmarks
from liqod.model.view.daemonfacts import PLUGIN_FAILS
from liqod.model.view.figures import counted
from liqod.model.view.problems import HINTS, LAST
from liqod.model.view.requests import RequestRow
from liqod.model.view.snapshot import PodSummary
from liqod.plugins.checks import cluster, services
from liqod.plugins.checks.peers import denials
from liqod.plugins.diagnosis import Check, ClusterFacts, Fault, Finding, PeerFacts, found

NAMED: Final = 5
"""Clusters that wait for a person and are named one by one: any number of them may."""
MOST_OBJECTS: Final = 50
"""Most objects that a fault names."""
BEGUN: Final = ("", "Waiting", "Accepted")
ENDED_BADLY: Final = ("Refused", "Failed")


def requests(facts: ClusterFacts) -> Iterator[Fault]:
    """The faults of requests, in both directions, that need a person."""
    waiting = [each for each in facts.incoming if each.state == "Waiting"]
    waiting.sort(key=lambda each: each.name)
    for entry in waiting[:NAMED]:
        asked = ", ".join(f"{name} {amount}" for name, amount in sorted(entry.asked.items()))
        what = f"asks to borrow {asked or 'what is granted by default'}{_words(entry)}"
        yield _of_request(entry, what, f"`liqod inbox accept {entry.name}`, or deny", HINTS)
    if len(waiting) > NAMED:
        what = f"{counted(len(waiting) - NAMED, 'more cluster')} may ask to borrow from this one"
        names = tuple(each.name for each in waiting[NAMED:][:MOST_OBJECTS])
        yield Fault(what, "`liqod inbox` shows all", names, HINTS)
    for request in facts.outgoing:
        if request.lends:
            yield from _offered(request)
        elif request.state in (*ENDED_BADLY, *BEGUN):
            yield _asked(request)


def _of_request(request: RequestRow, what: str, remedy: str, rank: int | None = None) -> Fault:
    return Fault(what, remedy, (request.name,), rank, request.cluster_id)


def _asked(request: RequestRow) -> Fault:
    said = request.reason or "nothing was heard yet"
    if request.state in ENDED_BADLY:
        what = f"the request {request.name} to borrow has failed: {said}"
        again = f"`liqod peer {request.name}` with the same options again"
        if request.by == "invitation":
            again = "give `liqod peer` another invitation (`liqod invite` there)"
        return _of_request(request, what, f"mend that, and {again}")
    words = "" if request.met else _words(request)
    what = f"is asked to lend: {said}{words}"
    return _of_request(request, what, "`liqod inbox` there shows the request", HINTS)


def _offered(request: RequestRow) -> Iterator[Fault]:
    """The faults of an offer to lend, for which this cluster dials the other one."""
    said = request.reason or "nothing was heard yet"
    if request.state in ENDED_BADLY:
        what = f"the offer {request.name} to lend has failed: {said}"
        yield _of_request(request, what, "`liqod peer` with another invitation")
    elif request.state in BEGUN:
        what = f"is dialled to lend to it: {said}{_words(request)}"
        yield _of_request(request, what, "`liqod inbox` shows what it asks", HINTS)
    elif request.state == "Done" and request.reason:
        # What runs here for it goes on; it sees nothing of that meanwhile.
        what = f"borrows by a connection that this cluster dials, and that is not there: {said}"
        remedy = "let it be reached; it is dialled again and again"
        yield _of_request(request, what, remedy, HINTS)


def _words(request: RequestRow) -> str:
    return f"; words: {request.words}" if request.words else ""


def sightings(facts: ClusterFacts) -> Iterator[Fault]:
    """The faults of clusters that are seen: peering fails, or they wait for somebody's word."""
    waiting = 0
    for seen in facts.sightings.values():
        peer = seen.cluster_id
        waiting += not seen.problem and seen.waits
        if seen.problem:
            what = f"peering with it fails: {seen.problem}"
            yield Fault(what, "check the kubeconfig of its entry", peer=peer)
        elif seen.waits and waiting <= NAMED:
            what = f"{seen.plugin} sees it, and it is not peered with, as nobody has said so"
            remedy = f"a [[peers]] entry with id = '{peer}' says so"
            yield Fault(what, remedy, rank=LAST, peer=peer)
    if waiting > NAMED:
        more = f"{counted(waiting - NAMED, 'other sighting')} of clusters that nobody named"
        yield Fault(more, "`liqod discover` lists them", rank=LAST)


def overlay(facts: ClusterFacts) -> Iterator[Fault]:
    """The faults of this cluster's nodes whose pods may reach no peer."""
    for way in facts.overlay:
        never = "`liqod node` has never run there" if way.told is None else ""
        if what := way.problem or never:
            remedy = f"see `liqod node` on {way.name}; `liqod network status` shows all nodes"
            lost = f"pods of the node {way.name} may reach no peer: {what}"
            yield Fault(lost, remedy, (way.name,))


def capacity(facts: ClusterFacts) -> Iterator[Fault]:
    """The hint that more is granted than this cluster's nodes have."""
    if facts.overcommitted:
        remedy = "grant less (max_resources under [guests]), or add nodes"
        what = f"{facts.overcommitted}: what does not fit waits for a place"
        yield Fault(what, remedy, rank=HINTS)


def stayed(facts: ClusterFacts) -> Iterator[Fault]:
    """The hints of pods that run here although their namespace is for peers only.

    They were made before the namespace was offloaded, or while the webhook could not be reached.
    """
    remedy = "delete what was made before it was offloaded, or past the webhook: it is made again"
    for namespace, count in facts.stayed.items():
        whose = f"1 pod of {namespace} runs" if count == 1 else f"{count} pods of {namespace} run"
        what = f"{whose} on this cluster's own nodes, though its strategy is Remote"
        yield Fault(what, remedy, (namespace,), HINTS)


def returned(facts: ClusterFacts) -> Iterator[Fault]:
    """The faults of controllers whose pods a peer could not start, while they avoid it."""
    for back in facts.returned:
        mark = back.mark
        what = f"{returnmarks.sentence(mark)}: {mark.message}"
        remedy = (
            "mend that; to try it at once, `kubectl annotate namespaceoffloading offloading -n "
            f"{back.namespace} {labels.RETURNED}-`"
        )
        whose = f"{back.namespace}/{mark.name}"
        yield Fault(what, remedy, (whose,), 3, mark.cluster)


def placeless(facts: ClusterFacts) -> Iterator[Fault]:
    """The faults of pods on virtual nodes of no known peer."""
    return _pods(facts.pods, "")


def pods(facts: PeerFacts) -> Iterator[Fault]:
    """The faults of this cluster's pods at a peer: those that wait, and why."""
    return _pods(facts.pods, facts.peer)


def _pods(found: Iterable[PodSummary], peer: str) -> Iterator[Fault]:
    sets: dict[str, list[str]] = {}
    waits: dict[tuple[str, str, bool], list[str]] = {}
    for pod in found:
        if pod.daemon_set:
            sets.setdefault(f"{pod.namespace}/{pod.daemon_set}", []).append(pod.name)
        else:
            alike = (pod.namespace, pod.reason, pod.unplaced and bool(peer))
            waits.setdefault(alike, []).append(pod.name)
    for (namespace, reason, unplaced), names in waits.items():
        which = f"{namespace}/{_named(names)}"
        objects = tuple(f"{namespace}/{name}" for name in sorted(names)[:MOST_OBJECTS])
        if unplaced:
            what = f"no node of {peer} has a place for the pod {which}: {reason}"
            remedy = "ask for no more than it has, or have its administrator make room"
            yield Fault(what, remedy, objects, 3)
        else:
            yield Fault(f"pod {which}: {reason}", "kubectl describe it", objects, HINTS)
    for name, names in sets.items():
        what = (
            f"DaemonSet {name} tolerates everything: {len(names)} of its pods wait on virtual nodes"
        )
        remedy = "give it a node affinity with liqo.io/type NotIn [virtual-node]"
        yield Fault(what, remedy, (name,), LAST)


def _named(names: list[str]) -> str:
    others = f" and {counted(len(names) - 1, 'other')}" if len(names) > 1 else ""
    return f"{min(names)}{others}"


def reasons(facts: PeerFacts) -> Iterator[Fault]:
    """The hints of objects that are not as they are to be, one for each reason of a reflector."""
    for row in facts.reasons.values():
        if row.code != PLUGIN_FAILS:
            others = f" and {counted(row.objects - 1, 'other')}" if row.objects > 1 else ""
            what = f"{row.reflector} {row.example}{others}: {row.code}: {row.message}"
            yield Fault(what, "kubectl describe it", (row.example,), HINTS)


def leaving(facts: PeerFacts) -> Iterator[Fault]:
    """The hint that a peer is being left."""
    if facts.leaving:
        what = "it is being left; what is to be removed there waits for its answer"
        yield Fault(what, f"`liqod unpeer {facts.peer} --forget` gives that up", rank=HINTS)


def degraded(facts: PeerFacts) -> Iterator[Fault]:
    """The fault of an API server that answers and does not do all that it is asked for."""
    if facts.link.degraded:
        remedy = f"`liqod doctor {facts.peer}` says what to do, in the layer reflection"
        yield Fault(facts.link.degraded, remedy)


def behind(facts: PeerFacts) -> Iterator[Fault]:
    """The faults of the provider's own nodes, as it reports of them."""
    for node in facts.reflection.nodes:
        if node.behind:
            remedy = "its administrator knows more: `kubectl get nodes` there"
            yield Fault(f"virtual node {node.name}: {node.behind}", remedy, (node.name,))


def connection(facts: PeerFacts) -> Iterator[Fault]:
    """The fault of the joined network, as its Connection has it."""
    if facts.joined is not None and facts.joined.fault:
        peer = facts.peer
        remedy = f"`liqod network status {peer}` and `liqod doctor {peer}` say which part"
        yield Fault(f"the joined network: {facts.joined.fault}", remedy)


def former_key(facts: PeerFacts) -> Iterator[Fault]:
    """The hint that a peer knows this cluster by its former key."""
    if facts.former:
        peer = facts.peer
        what = f"{peer} knows this cluster by its former key, which is kept for it"
        where = "where that is Liqo or an older liqod"
        again = f"`liqod unpeer {peer}`, the same there, and peer again"
        yield Fault(what, f"start `liqod run` beside {peer}; {where}, {again}", rank=HINTS)


def lent(facts: PeerFacts) -> Iterator[Fault]:
    """The faults of slices that this cluster denied to a peer."""
    return denials(facts.lent_denied, facts.lent_ungrown, "your own configuration decides")


def _check(
    scope: Literal["cluster", "peer"],
    name: str,
    title: str,
    faults: Callable[[Any], Iterable[Fault]],
) -> Check:
    def look(facts: ClusterFacts | PeerFacts) -> Finding | None:
        finding = found(faults(facts), "")
        return finding if finding.faults else None

    return Check(name=name, title=title, scope=scope, order=0, look=look, by_objects=True)


CHECKS: Final = (
    _check("cluster", "requests", "requests of other clusters and to them", requests),
    _check("cluster", "sightings", "peering with clusters that are seen", sightings),
    _check("cluster", "overlay", "the nodes' ways to the gateway", overlay),
    _check("cluster", "capacity", "what is granted in all", capacity),
    _check("cluster", "stayed", "pods that are to run at peers", stayed),
    _check("cluster", "returned", "pods that a peer could not start", returned),
    _check("cluster", "placeless", "pods of no known peer", placeless),
    *(each for each in cluster.liqod_checks() if each.name == "plugins"),
    _check("peer", "pods-there", "this cluster's pods there", pods),
    _check("peer", "reasons", "single objects", reasons),
    _check("peer", "leaving", "leaving it", leaving),
    _check("peer", "reflection", "reflection", degraded),
    _check("peer", "behind", "the provider's nodes", behind),
    _check("peer", "network", "the joined network", connection),
    _check("peer", "former-key", "this cluster's former key", former_key),
    _check("peer", "exchanges", "Services shared with it", services.exchanges),
    _check("peer", "lent", "what is lent to it", lent),
)
"""The checks; that of plugins has its facts from a daemon's state."""
