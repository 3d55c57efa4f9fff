"""What is wrong, worst first, each with what to do: the problems of ``liqod status``. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from liqod.model import labels
from liqod.model.crossing.crossing import NAMESPACE_STAYS
from liqod.model.objects import scheduling
from liqod.model.peering import standing
from liqod.model.peering.foreigncluster import DEGRADED, REFUSES, UNTRUSTED, UNUSABLE
from liqod.model.view.detail import owner
from liqod.model.view.figures import counted
from liqod.model.view.nodeways import ways
from liqod.model.view.snapshot import Snapshot
from liqod.model.view.waiting import told
from liqod.resources import InternalFabric, NamespaceOffloading
from liqod.resources.authentication import DENIED
from liqod.resources.fabric import FABRIC
from liqod.resources.networking import Connection

EXPIRING = 3 * 24 * 3600.0
"""Seconds of life left below which a certificate is a problem: renewal is long overdue."""
HINTS = 4
"""Rank from which on a problem is one of users' pods, or intended, and not of the peering."""


class Problem(msgspec.Struct, frozen=True, order=True):
    """Something to mend: how bad (0 is worst), whose, what, and what to do."""

    rank: int
    peer: str
    what: str
    remedy: str

    @property
    def hint(self) -> bool:
        """Whether it is no fault of the peering: a pod of a user's that waits, something meant."""
        return self.rank >= HINTS


def problems(snapshot: Snapshot, nodes: Mapping[str, tuple[str, str]]) -> tuple[Problem, ...]:
    """All problems, the worst first.

    Args:
        snapshot: the cluster.
        nodes: of each virtual node by name its peer, and what is wrong with it.
    """
    return tuple(sorted(_problems(snapshot, nodes)))


def network(found: Connection) -> str:
    """What is wrong with the network of a Connection; empty for nothing."""
    if found.status.value != "Connected":
        return f"the tunnel is {found.status.value or 'not there yet'}"
    pods, _, why = found.metadata.annotations.get(labels.PODS, "").partition(": ")
    return f"from pod to pod {why}" if pods == labels.PODS_FAILED else ""


def _problems(snapshot: Snapshot, nodes: Mapping[str, tuple[str, str]]) -> Iterable[Problem]:
    if not standing.runs(snapshot):
        yield Problem(0, "", f"the daemon is {standing.daemon(snapshot)}", snapshot.start)
    if snapshot.id_problem:
        what, _, remedy = snapshot.id_problem.partition(": ")
        yield Problem(0, "", what, remedy)
    if snapshot.unread:
        what = f"this is not all: {', '.join(snapshot.unread)} cannot be read"
        yield Problem(0, "", what, "use a kubeconfig whose user has the right to list them")
    for name in snapshot.definitions:
        yield Problem(0, "", f"the custom resource {name} is missing", "run `liqod install`")
    for name in snapshot.policies:
        what = f"the admission policy {name} is missing or denies nothing: nobody is held to it"
        yield Problem(1, "", what, "run `liqod install`")
    for cluster in snapshot.foreign_clusters:
        peer, api = cluster.spec.cluster_id, standing.api(cluster)
        if api not in ("up", "-"):
            yield _api_problem(peer, api, standing.api_reason(cluster))
        daemon = standing.peer_daemon(cluster, current=True)
        if daemon not in ("up", "-", standing.NOT_KNOWN):
            what = f"its daemon does not run: {daemon}; what runs there stays, nothing new goes"
            yield Problem(1, peer, what, f"start `liqod run` beside {peer}")
        if labels.TOMBSTONE in cluster.metadata.annotations:
            what = "it is being left; what is to be removed there waits for its answer"
            yield Problem(HINTS, peer, what, f"`liqod unpeer {peer} --forget` gives that up")
        for condition in cluster.status.conditions:
            if condition.reason == DEGRADED:
                yield Problem(3, peer, condition.message, "check what is between you and the peer")
    for name, (peer, message) in nodes.items():
        if message:
            remedy = f"`liqod doctor {peer}` names the first layer that fails"
            yield Problem(2, peer, f"virtual node {name}: {message}", remedy)
    for connection in snapshot.connections:
        what = network(connection)
        if what:
            peer = connection.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")
            remedy = f"`liqod network status {peer}` and `liqod doctor {peer}` say which part"
            yield Problem(2, peer, f"the joined network: {what}", remedy)
    for way in ways(_fabric(snapshot), snapshot.internal_nodes):
        what = way.problem or ("`liqod node` has never run there" if way.told is None else "")
        if what:
            remedy = f"see `liqod node` on {way.name}; `liqod network status` shows all nodes"
            yield Problem(2, "", f"pods of the node {way.name} may reach no peer: {what}", remedy)
    for (peer, name), seconds in snapshot.expiries.items():
        if seconds < EXPIRING:
            yield _expiry_problem(peer, name, seconds)
    for each in told(snapshot.incoming, snapshot.outgoing):
        yield Problem(2 if each.failed else HINTS, each.peer, each.what, each.remedy)
    yield from _slice_problems(snapshot)
    yield from _namespace_problems(snapshot)
    yield from _pod_problems(snapshot)
    for namespace, count in snapshot.stayed.items():
        yield Problem(4, "", *scheduling.stayed(namespace, count))
    if snapshot.webhook not in ("", labels.TRUE):
        what = f"the API server cannot reach the webhook: {snapshot.webhook}"
        remedy = "set webhook.advertise to an address that the API server reaches"
        yield Problem(3, "", what, remedy)


def _fabric(snapshot: Snapshot) -> InternalFabric | None:
    """Liqo has objects of this kind, too, of other names."""
    return next((each for each in snapshot.fabrics if each.name == FABRIC), None)


def _api_problem(peer: str, api: str, reason: str) -> Problem:
    if reason == REFUSES:
        what = f"its API server refuses this cluster: {api}"
        return Problem(1, peer, what, f"`liqod peer` again; what runs at {peer} stays")
    if reason == UNTRUSTED:
        remedy = f"is that still {peer}? if it was made anew, `liqod peer` again"
        return Problem(1, peer, f"who answers is not known: {api}", remedy)
    what = api if reason == UNUSABLE else f"its API server does not answer: {api}"
    return Problem(1, peer, what, "check the peer and the path to it")


def _expiry_problem(peer: str, name: str, seconds: float) -> Problem:
    if seconds <= 0:
        remedy = f"`liqod peer` again; what runs at {peer} stays"
        return Problem(1, peer, f"the certificate {name} has expired", remedy)
    text = f"the certificate {name} ends in {seconds / 3600:.0f} h and was not renewed"
    return Problem(1, peer, text, f"does the daemon of {peer} run?")


def _slice_problems(snapshot: Snapshot) -> Iterable[Problem]:
    for item in snapshot.slices:
        peer, lent = owner(item)
        remedy = "your own configuration decides" if lent else "ask the provider"
        for condition in item.status.conditions:
            what = f"slice {item.name} may not grow: {condition.message}"
            if condition.status == DENIED:
                what = f"slice {item.name} denied: {condition.message}"
            if condition.denies:
                yield Problem(2, peer, what, remedy)


def _namespace_problems(snapshot: Snapshot) -> Iterable[Problem]:
    for offloading in snapshot.offloadings:
        for peer, conditions in offloading.status.remote_namespaces_conditions.items():
            for one in conditions:
                passes = one.reason in ("", "Creating", "Terminating")
                if (one.type, one.status) == ("Ready", "False") and not passes:
                    what = f"namespace {offloading.namespace}: {one.message}"
                    yield Problem(2, peer, what, _namespace_remedy(offloading, one.reason))


def _namespace_remedy(offloading: NamespaceOffloading, reason: str) -> str:
    if reason == NAMESPACE_STAYS:
        return f"`liqod unoffload namespace {offloading.namespace}`"
    return "choose another name or mapping strategy"


def _pod_problems(snapshot: Snapshot) -> Iterable[Problem]:
    peers = {node.name: node.spec.cluster_id for node in snapshot.virtual_nodes}
    sets: dict[tuple[str, str], int] = {}
    waits: dict[tuple[str, str, str], list[str]] = {}
    for pod in snapshot.pods:
        peer = peers.get(pod.node, "")
        if pod.daemon_set:
            key = (peer, f"{pod.namespace}/{pod.daemon_set}")
            sets[key] = sets.get(key, 0) + 1
        elif pod.reason and not pod.ready:
            waits.setdefault((peer, pod.namespace, pod.reason), []).append(pod.name)
    for (peer, namespace, reason), names in waits.items():
        others = f" and {counted(len(names) - 1, 'other')}" if len(names) > 1 else ""
        what = f"pod {namespace}/{min(names)}{others}: {reason}"
        yield Problem(4, peer, what, "kubectl describe it")
    for (peer, name), count in sets.items():
        what = f"DaemonSet {name} tolerates everything: {count} of its pods wait on virtual nodes"
        remedy = "give it a node affinity with liqo.io/type NotIn [virtual-node]"
        yield Problem(5, peer, what, remedy)
