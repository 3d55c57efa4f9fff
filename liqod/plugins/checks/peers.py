"""The doctor's layers of a peering, from the way to its API server up to the single change."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from liqod.apimachinery.kinds import Kind
from liqod.errors import NotFound
from liqod.model.crossing.exclusions import NAMESPACE_STAYS
from liqod.model.peering import healthsummary
from liqod.model.peering.foreigncluster import REACHED
from liqod.model.peering.intervals import (
    FRESH,
    FROZEN_WITHIN,
    LEADER_RENEWS_EVERY,
    LEADER_STOPS_AFTER,
    NODE_LEASE,
    PEER_DAEMON_EVERY,
    PEER_VERSION_EVERY,
    PROBE_EVERY,
)
from liqod.model.view.figures import counted, span
from liqod.model.view.problems import HINTS
from liqod.plugins.checks.cluster import EXPIRING, agreeing
from liqod.plugins.diagnosis import (
    Asker,
    Check,
    Fault,
    Finding,
    LinkFacts,
    PeerFacts,
    QueueFacts,
    failing,
    found,
    ok,
    skipped,
    unknown,
)
from liqod.plugins.hookspecs import hookimpl
from liqod.resources import IDENTITIES, RESOURCE_SLICES
from liqod.resources.authentication import ACTIVE

SLOW = 10.0
"""Seconds for which a change may wait before its layer counts as failing."""
LOSSY = 0.2
LOOKED = PEER_DAEMON_EVERY + 2 * PROBE_EVERY
"""Seconds without a look at the Lease of a peer's daemon after which it is not known how it is."""
NEEDED = {
    "authentication.liqo.io/v1beta1": ("resourceslices",),
    "offloading.liqo.io/v1beta1": ("namespacemaps", "shadowpods", "shadowendpointslices"),
}
"""Kinds that a provider must serve, by the version of their group."""


def task(facts: PeerFacts) -> Finding:
    """Check that the daemon's own work for the peer runs."""
    if facts.failure:
        return failing(facts.failure, "the log has the whole story; it is tried again by itself")
    return ok("runs")


def api(facts: PeerFacts) -> Finding | None:
    """Check that the peer's API server answers: never ok without a recent round trip."""
    if not facts.lends:
        return None
    seen = facts.cluster.daemon
    if seen is not None and facts.link.state == "idle":
        return None  # nothing is noted of it
    if seen is not None and not seen.runs:
        noted = "up" if facts.link.state == "up" else facts.link.reason
        down = (_unanswered(facts),) if facts.link.state == "down" else ()
        return unknown(f"{healthsummary.STOPPED}; it was last noted as {noted}", *down)
    if facts.link.state == "idle":
        return unknown("there is no identity at the peer yet")
    if facts.link.state == "down":
        fault = _unanswered(facts)
        return Finding("failing", facts.link.reason, fault.remedy, (fault,))
    if seen is not None:
        # What is noted on an object is as old as its writer may take to find otherwise.
        return ok(f"it answered in the last {span(FROZEN_WITHIN)}, as the daemon notes")
    if facts.link.silence is None or facts.link.silence > FRESH:
        silent = "not yet" if facts.link.silence is None else f"not for {span(facts.link.silence)}"
        return failing(f"heard of {silent}", "check the path to the peer's API server")
    rtt = f"round trip {1000 * facts.link.rtt:.1f} ms, " if facts.link.rtt is not None else ""
    answered = f"answered {facts.link.answered:.0f} s ago, " if facts.link.answered else ""
    loss = facts.link.loss or 0.0
    if loss > LOSSY:
        return failing(f"{100 * loss:.0f} % of the probes are lost", "check the path to the peer")
    way = f", {REACHED[facts.link.path]}" if facts.link.path != "direct" else ""
    return ok(f"{rtt}{answered}its host heard of {facts.link.silence:.1f} s ago{way}")


def _unanswered(facts: PeerFacts) -> Fault:
    """The fault of an API server that does not answer, or that cannot be asked."""
    link = facts.link
    what = f"its API server does not answer: {link.reason}"
    if link.problem == "refused":
        what = f"its API server refuses this cluster: {link.reason}"
    elif link.problem == "untrusted":
        what = f"who answers is not known: {link.reason}"
    elif link.grave:
        what = link.reason
    return Fault(what, healthsummary.api_remedy(link.problem, facts.peer))


def daemon(facts: PeerFacts) -> Finding | None:
    """Check that the peer's daemon runs: never ok without a recent renewal of its Lease."""
    if not facts.lends or (facts.cluster.daemon is not None and facts.link.state == "idle"):
        return None
    start = f"start `liqod run` beside {facts.peer}"
    goes_on = "what runs there stays, nothing new goes"
    silent = f"its daemon does not run: {facts.link.daemon_why}; {goes_on}"
    if facts.cluster.daemon is not None and not facts.cluster.daemon.runs:
        noted = (Fault(silent, start),) if facts.link.daemon == "silent" else ()
        return unknown(healthsummary.STOPPED, *noted)
    match facts.link.daemon:
        case "runs":
            return _renewing(facts.link, start)
        case "silent":
            return failing(facts.link.daemon_why, start, silent)
        case "untold":
            return unknown("the peer does not show it, as Liqo and older versions")
    if facts.cluster.daemon is not None:
        return unknown("not seen yet, or not shown, as by Liqo and older versions")
    return unknown("not seen for long enough yet")


def _renewing(link: LinkFacts, start: str) -> Finding:
    """The finding about a daemon that was never seen to be silent, by the age of its renewal."""
    if link.daemon_renewed is None or link.daemon_looked is None:
        return unknown("nobody has looked of late whether it renews its Lease")
    text = f"it renewed its Lease within the last {span(link.daemon_renewed)}"
    if link.daemon_looked > LOOKED:
        return unknown(f"{text}, and nobody has looked since then")
    if link.daemon_quiet > LEADER_STOPS_AFTER:
        # Who leads stops its work when it could not renew for so long.
        did = f"did not renew its Lease for {span(link.daemon_quiet)}"
        every = f"it is to every {LEADER_RENEWS_EVERY:.0f} s"
        return failing(f"it {did}; {every}", f"if that lasts, {start}")
    return ok(text)


def credentials(facts: PeerFacts) -> Finding | None:
    """Check that this cluster's certificates at the peer do not expire soon."""
    if not facts.lends:
        return None
    if not facts.certificates:
        unread = _unread(facts, IDENTITIES)
        return unread or unknown("there is no certificate of the peer's yet")
    name, left = min(facts.certificates.items(), key=lambda item: item[1])
    if left < EXPIRING:
        faults = tuple(_expiries(facts))
        ends = (
            f"ended {span(-left)} ago" if left <= 0 else f"ends in {span(left)} and was not renewed"
        )
        return Finding("failing", f"{name} {ends}", faults[0].remedy, faults)
    more = " and more" if len(facts.certificates) > 1 else ""
    good = f"{counted(len(facts.certificates), 'certificate')}, good for {span(left)}{more}"
    return ok(f"{good}{_by_former(facts)}")


def _expiries(facts: PeerFacts) -> Iterator[Fault]:
    """The faults of certificates, the one that ends first first."""
    for name, left in sorted(facts.certificates.items(), key=lambda item: item[1]):
        if left <= 0:
            remedy = f"{healthsummary.again(facts.peer)}; what runs at {facts.peer} stays"
            yield Fault(f"the certificate {name} has expired", remedy, (name,))
        elif left < EXPIRING:
            what = f"the certificate {name} ends in {left / 3600:.0f} h and was not renewed"
            yield Fault(what, f"does the daemon of {facts.peer} run?", (name,))


def _unread(facts: PeerFacts, kind: Kind) -> Finding | None:
    """The finding where objects of a kind might not be read; None where they can be."""
    if kind.plural not in facts.cluster.unread:
        return None
    return unknown(f"{kind.plural} cannot be read by this user")


def _by_former(facts: PeerFacts) -> str:
    """The clause for a peer that still knows this cluster's former key; empty otherwise."""
    return f"; {facts.peer} knows this cluster by its former key" if facts.former else ""


def clock(facts: PeerFacts) -> Finding | None:
    """Check that the clocks of the peer and of this machine agree."""
    if facts.link.skew is None:
        return None
    return agreeing(facts.link.skew, "the peer's clock")


class Served(msgspec.Struct, frozen=True):
    """The version of a peer's API server, and the required kinds that it does not serve."""

    version: str
    missing: tuple[str, ...]


class _Version(msgspec.Struct):
    git: str = msgspec.field(name="gitVersion", default="")


class _Resource(msgspec.Struct):
    name: str = ""


class _ResourceList(msgspec.Struct):
    resources: tuple[_Resource, ...] = ()


async def ask_versions(asker: Asker) -> Served:
    """The peer's version, and what it lacks. Raises a LiqodError, or on nonsense a DecodeError."""
    version = msgspec.json.decode(await asker.read("/version"), type=_Version).git
    missing: list[str] = []
    for group, kinds in NEEDED.items():
        there = await _served(asker, group)
        missing += [f"{kind}.{group}" for kind in kinds if kind not in there] if there else [group]
    return Served(version, tuple(missing))


async def _served(asker: Asker, group: str) -> frozenset[str]:
    """The kinds of a version of a group that are served."""
    try:
        found = await asker.read(f"/apis/{group}")
    except NotFound:
        return frozenset()
    listed = msgspec.json.decode(found, type=_ResourceList).resources
    return frozenset(each.name for each in listed)


def versions(facts: PeerFacts) -> Finding | None:
    """Check that the peer serves the kinds that this cluster writes there."""
    if not facts.lends:
        return None
    served = facts.probed
    if not isinstance(served, Served):
        return unknown("not asked yet")
    if served.missing:
        return failing(f"it does not serve {', '.join(served.missing)}", "install liqod there")
    return ok(f"Kubernetes {served.version} there, {facts.cluster.version} here")


def replication(facts: PeerFacts) -> Finding | None:
    """Check that this cluster's requests are replicated to the peer."""
    queue = facts.replication
    if not facts.lends or queue is None:
        return None
    if facts.unfollowed:
        kind, why = next(iter(facts.unfollowed.items()))
        remedy = f"`liqod install` at {facts.peer}; where rights are missing, "
        again = healthsummary.again(facts.peer)
        return failing(f"{kind} there cannot be followed: {why}", remedy + again)
    if queue.oldest > SLOW:
        return failing(
            f"{counted(queue.waiting, 'object')} waiting, the oldest for {span(queue.oldest)}"
            + (f": {queue.error}" if queue.error else ""),
            "check this cluster's rights at the peer:"
            f" {healthsummary.again(facts.peer)} renews them",
        )
    canary = facts.canary
    if canary is not None and canary.error:
        return failing(f"a write there fails: {canary.error}", "check the rights at the peer")
    if queue.worked is None and canary is None:
        return unknown("nothing has been written yet")
    ages = [each for each in (queue.worked, canary.ago if canary else None) if each is not None]
    took = f", a write takes {1000 * canary.took:.0f} ms" if canary is not None else ""
    return ok(f"last written {span(min(ages))} ago{took}")


def granted(facts: PeerFacts) -> Finding | None:
    """Check that the peer denies no ResourceSlice."""
    if not facts.lends:
        return None
    faults = (*denials(facts.denied, facts.ungrown, "ask the provider, or ask for less"),)
    less = "ask for less, or have its administrator add nodes"
    hints = tuple(
        Fault(f"slice {name}: {what}; what does not fit waits for a place", less, (name,), HINTS)
        for name, what in facts.beyond.items()
    )
    if not faults:
        if unread := _unread(facts, RESOURCE_SLICES):
            return unread
        if facts.unanswered:
            waiting = ", ".join(facts.unanswered)
            return unknown(f"no answer yet about {waiting}", *hints)
    beyond = "".join(f"; slice {name}: {what}" for name, what in facts.beyond.items())
    return found((*faults, *hints), f"no slice is denied{beyond}")


def denials(denied: dict[str, str], ungrown: dict[str, str], remedy: str) -> Iterator[Fault]:
    """The faults of slices that are denied, or that may not grow, by the reason of each."""
    for name, why in denied.items():
        yield Fault(f"slice {name} denied: {why}", remedy, (name,))
    for name, why in ungrown.items():
        yield Fault(f"slice {name} may not grow: {why}", remedy, (name,))


def nodes(facts: PeerFacts) -> Finding | None:
    """Check that the peer's virtual nodes are alive."""
    if not facts.reflection.nodes:
        return None
    faults = tuple(_not_alive(facts))
    leases = [node.lease for node in facts.reflection.nodes if node.lease is not None]
    told = f", leases renewed {max(leases):.0f} s ago" if leases else ""
    return found(faults, f"{len(facts.reflection.nodes)} ready{told}")


def _not_alive(facts: PeerFacts) -> Iterator[Fault]:
    """The faults of virtual nodes."""
    for node in facts.reflection.nodes:
        what = f"virtual node {node.name}"
        if node.problem:
            describe = f"`kubectl describe node {node.name}` has more"
            remedy = f"{describe}; `liqod doctor {facts.peer}` names the first layer that fails"
            yield Fault(f"{what}: {node.problem}", remedy, (node.name,))
        elif node.lease is not None and node.lease > NODE_LEASE:
            yield Fault(f"{what}: no lease for {span(node.lease)}", "look at the log", (node.name,))


def namespaces(facts: PeerFacts) -> Finding | None:
    """Check that the requested namespaces are mapped."""
    refused = facts.reflection.refused
    if refused:
        faults = (
            Fault(f"namespace {name}: {why}", _namespace_remedy(name, reason), (name,))
            for name, (why, reason) in refused.items()
        )
        return found(faults, "")
    if not facts.reflection.nodes:
        return None
    late = {name: waited for name, waited in facts.reflection.unmapped.items() if waited > SLOW}
    if late:
        name, waited = max(late.items(), key=lambda item: item[1])
        reason = f"`kubectl get namespaceoffloadings -n {name} -o yaml` has the peer's reason"
        return failing(f"{name} is not mapped for {span(waited)}", reason)
    return ok(f"{facts.reflection.namespaces} mapped")


def _namespace_remedy(namespace: str, reason: str) -> str:
    """The remedy for a namespace that a peer refuses, by the reason as a word."""
    if reason == NAMESPACE_STAYS:
        return f"`liqod unoffload namespace {namespace}`"
    return "choose another name or mapping strategy"


def reflection(facts: PeerFacts) -> Finding | None:
    """Check that changes arrive in time."""
    work = facts.reflection
    if not work.namespaces:
        return None
    if work.blind:
        kind, why = next(iter(work.blind.items()))
        return failing(
            f"{kind} there cannot be followed: {why}",
            f"at {facts.peer}: install the definition of {kind}, and give the rights to them; or "
            "switch their reflector off here, by `[reflection] disabled`",
        )
    if facts.link.degraded:
        remedy = "check the peer's API server, and the admission webhooks there"
        return failing(facts.link.degraded, remedy)
    for name, queue in work.reflectors.items():
        if queue.oldest > SLOW:
            return failing(
                f"{name}: {counted(queue.waiting, 'change')} waiting, the oldest for "
                f"{span(queue.oldest)}",
                f"`liqod tasks` shows what they wait for; last error: {queue.error or 'none'}",
            )
    waiting = sum(queue.waiting for queue in work.reflectors.values())
    return ok(f"{counted(waiting, 'change')} waiting" + _latest(work.reflectors.values()))


def _latest(queues: Iterable[QueueFacts]) -> str:
    worked = [each.worked for each in queues if each.worked is not None]
    return f", last looked at one {span(min(worked))} ago" if worked else ""


def usage(facts: PeerFacts) -> Finding | None:
    """Check that the peer reports the usage of pods there, where that is asked for."""
    if facts.usage is None:
        return None
    if facts.usage:
        return unknown(f"what pods there use is not known: {facts.usage}")
    return ok("it tells what pods there use")


def tenant(facts: PeerFacts) -> Finding | None:
    """Check that the peer's Tenant here is active."""
    if not facts.borrows:
        return None
    if facts.tenant == healthsummary.UNACCEPTED:
        return unknown(healthsummary.NO_WAY_IN)
    if facts.tenant != ACTIVE:
        return skipped(healthsummary.meant(facts.peer, facts.tenant))
    return ok(f"the tenant is active{_by_former(facts)}")


def guests(facts: PeerFacts) -> Finding | None:
    """Check that each ShadowPod of the peer here has its pod, or the reason why not."""
    if not facts.borrows:
        return None
    if facts.left_out:
        kinds = ", ".join(facts.left_out)
        return failing(
            f"it has more here than is kept in memory, and not all {kinds} are read",
            "raise max_bytes under [guests], or have it delete some",
        )
    if facts.unmade is None:
        return unknown("its ShadowPods are not read")
    if facts.unmade:
        whose = f"{counted(len(facts.unmade), 'ShadowPod')} of it, such as {min(facts.unmade)}"
        return failing(
            f"{whose}: no pod is made, and no reason is given",
            "see the daemon's log; `kubectl annotate` one of them has it looked at again",
        )
    return ok("each of its ShadowPods has its pod, or the reason why not")


@hookimpl
def liqod_checks() -> Sequence[Check]:
    """The layers, the lowest first."""
    reach = ("task", "api")

    def layer(order: int, name: str, title: str, look: object, **more: object) -> Check:
        known = {"needs": reach, **more}
        return Check(name=name, title=title, scope="peer", order=order, look=look, **known)  # type: ignore[arg-type]

    return (
        layer(10, "task", "the peer's task", task, needs=()),
        layer(20, "api", "its API server", api, needs=("task",), by_objects=True),
        layer(25, "daemon", "the peer's daemon", daemon, by_objects=True),
        layer(
            *(30, "credentials", "our certificates there", credentials),
            needs=("task",),
            by_objects=True,
        ),
        layer(40, "clock", "the clocks", clock),
        layer(50, "versions", "versions", versions, probe=ask_versions, every=PEER_VERSION_EVERY),
        layer(60, "replication", "replication", replication),
        layer(70, "granted", "what it grants", granted, by_objects=True),
        layer(80, "nodes", "virtual nodes", nodes, by_objects=True),
        layer(90, "namespaces", "mapped namespaces", namespaces, by_objects=True),
        layer(100, "reflection", "reflection", reflection),
        layer(105, "usage", "figures of pods", usage),
        layer(110, "tenant", "its tenant here", tenant, needs=(), by_objects=True),
        layer(115, "guests", "its pods here", guests, needs=("tenant",)),
    )
