"""The doctor's ladders by the API server alone: what is so where no daemon can be asked. Pure.

The daemon's own ladders say more. A layer of which only a daemon could know is never said to work
on the word of one that does not run.
"""

from collections.abc import Iterable

from liqod.model.objects import webhook
from liqod.model.peering import standing
from liqod.model.peering.intervals import (
    FROZEN_WITHIN,
    PEER_DAEMON_EVERY,
    PROBE_EVERY,
    SILENT_AFTER,
)
from liqod.model.view.figures import counted, span
from liqod.model.view.problems import EXPIRING, Problem
from liqod.model.view.rows import Check, Ladder, Verdict
from liqod.model.view.snapshot import Snapshot
from liqod.resources import ForeignCluster

TITLES = {
    "server": "the API server",
    "installation": "the installation",
    "leader": "the daemon",
    "webhook": "the pod webhook",
    "api": "its API server",
    "daemon": "the peer's daemon",
    "credentials": "our certificates there",
    "granted": "what it grants",
    "nodes": "virtual nodes",
    "namespaces": "mapped namespaces",
    "tenant": "its tenant here",
}
"""Titles of the layers by name, as the built-in checks have them where there is one."""
STOPPED = "not known while this cluster's daemon does not run"


def row(layer: str, verdict: Verdict, evidence: str, remedy: str = "", *, at: float = 0.0) -> Check:
    """One layer."""
    return Check(
        layer, TITLES[layer], verdict, 0.0, evidence, remedy if verdict != "ok" else "", at
    )


def unreadable(error: str, remedy: str) -> Ladder:
    """This cluster's ladder where its API server cannot be asked.

    Args:
        error: why.
        remedy: what to do.
    """
    failing = row("server", "failing", error, remedy)
    above = ("installation", "leader", "webhook")
    return Ladder("", (failing, *(row(each, "skipped", "waits for it") for each in above)))


def uninstalled(error: str) -> Ladder:
    """This cluster's ladder where nothing is installed."""
    failing = row("installation", "failing", error, "run `liqod install`")
    above = ("leader", "webhook")
    return Ladder(
        "",
        (
            row("server", "ok", "it answers"),
            failing,
            *(row(each, "skipped", "waits for the installation") for each in above),
        ),
    )


def ladders(
    snapshot: Snapshot, problems: Iterable[Problem], version: str, took: float
) -> tuple[Ladder, ...]:
    """This cluster's ladder, then each peer's.

    Args:
        snapshot: what the API server holds.
        problems: what is wrong by that (:func:`liqod.model.view.problems.problems`).
        version: of the API server.
        took: seconds that it took to answer.
    """
    known = list(problems)
    answered = row("server", "ok", f"{version or 'it'} answered in {1000 * took:.0f} ms")
    own = Ladder("", (answered, installation(snapshot), leader(snapshot), *_webhook(snapshot)))
    clusters = sorted(snapshot.foreign_clusters, key=lambda each: each.spec.cluster_id)
    return (own, *(_peer(each, snapshot, known) for each in clusters))


def beside(own: Ladder, snapshot: Snapshot) -> Ladder:
    """The ladder of a daemon that was asked, with what the API server tells of it."""
    first, rest = own.checks[:1], own.checks[1:]
    return Ladder(own.peer, (*first, installation(snapshot), leader(snapshot), *rest))


def installation(snapshot: Snapshot) -> Check:
    """Whether everything is there that is installed, and the id is the one that peers know."""
    if snapshot.definitions:
        more = len(snapshot.definitions) - 1
        others = f" and {counted(more, 'other')}" if more else ""
        text = f"the custom resource {snapshot.definitions[0]}{others} is missing"
        return row("installation", "failing", text, "run `liqod install`")
    if snapshot.id_problem is not None:
        what, remedy = snapshot.id_problem.what, snapshot.id_problem.remedy
        return row("installation", "failing", what, remedy)
    if snapshot.policies:
        text = f"the admission policy {snapshot.policies[0]} is missing or denies nothing"
        return row("installation", "failing", text, "run `liqod install`")
    if snapshot.unread:
        text = f"{', '.join(snapshot.unread)} cannot be read by this user"
        return row("installation", "unknown", text)
    return row("installation", "ok", "custom resources and policies are there")


def leader(snapshot: Snapshot) -> Check:
    """Whether this cluster's daemon runs."""
    found = standing.daemon(snapshot)
    if standing.runs(snapshot):
        return row("leader", "ok", found)
    return row("leader", "failing", found, snapshot.start)


def _webhook(snapshot: Snapshot) -> Iterable[Check]:
    found = standing.webhook(snapshot)
    if found == standing.NO_WEBHOOK:
        yield row("webhook", "skipped", found)
    elif found == "reachable":
        yield row("webhook", "ok", "the API server reached it when that was tried last")
    elif snapshot.webhook:
        yield row("webhook", "failing", found, webhook.remedy(found))


def _peer(cluster: ForeignCluster, snapshot: Snapshot, problems: list[Problem]) -> Ladder:
    peer = cluster.spec.cluster_id
    mine = [each for each in problems if each.peer == peer]
    rows = (
        *_api(cluster, standing.runs(snapshot)),
        *_certificates(peer, snapshot),
        *_nodes(peer, snapshot),
        *_of(mine, "granted"),
        *_of(mine, "namespaces"),
        *_tenant(peer, snapshot),
    )
    return Ladder(peer, rows)


def _api(cluster: ForeignCluster, current: bool) -> Iterable[Check]:
    """Its API server and its daemon, as this cluster's daemon noted them, if that runs."""
    api, daemon = standing.api(cluster), standing.peer_daemon(cluster, current=True)
    if api == "-":
        return
    if not current:
        yield row("api", "unknown", f"{STOPPED}; it was last noted as {api}")
        yield row("daemon", "unknown", STOPPED)
        return
    if api != "up":
        remedy = standing.api_remedy(standing.api_reason(cluster), cluster.spec.cluster_id)
        yield row("api", "failing", api, remedy)
        yield row("daemon", "skipped", f"waits for {TITLES['api']}")
        return
    # What is noted on an object is as old as its writer may take to find otherwise.
    yield row("api", "ok", f"it answered in the last {span(FROZEN_WITHIN)}, as the daemon notes")
    if daemon == "up":
        late = span(PEER_DAEMON_EVERY + SILENT_AFTER + PROBE_EVERY)
        yield row("daemon", "ok", f"it renewed its Lease in the last {late}, as the daemon notes")
    elif daemon == "-":
        yield row("daemon", "unknown", "not seen yet, or not shown, as by Liqo and older versions")
    else:
        remedy = f"start `liqod run` beside {cluster.spec.cluster_id}"
        yield row("daemon", "failing", daemon, remedy)


def _certificates(peer: str, snapshot: Snapshot) -> Iterable[Check]:
    left = {name: seconds for (whose, name), seconds in snapshot.expiries.items() if whose == peer}
    if not left:
        return
    name, seconds = min(left.items(), key=lambda each: each[1])
    if seconds <= 0:
        yield row("credentials", "failing", f"{name} has expired", "run `liqod peer` again")
    elif seconds < EXPIRING:
        text = f"{name} ends in {seconds / 3600:.0f} h and was not renewed"
        yield row("credentials", "failing", text, f"see that the daemon of {peer} runs")
    else:
        yield row("credentials", "ok", f"good for {seconds / 86400:.0f} d")


def _nodes(peer: str, snapshot: Snapshot) -> Iterable[Check]:
    names = [each.name for each in snapshot.virtual_nodes if each.spec.cluster_id == peer]
    for name in names:
        why = snapshot.nodes.get(name, "there is no such Node")
        if why:
            remedy = f"`kubectl describe node {name}` has more"
            yield row("nodes", "failing", f"{name}: {why}", remedy)
            return
    if names:
        yield row("nodes", "ok", f"{len(names)} ready")


def _of(problems: list[Problem], layer: str) -> Iterable[Check]:
    """The first problem that is one of this layer's."""
    for each in problems:
        if each.layer == layer:
            yield row(layer, "failing", each.what, each.remedy)
            return


def _tenant(peer: str, snapshot: Snapshot) -> Iterable[Check]:
    for tenant in snapshot.tenants:
        if tenant.spec.cluster_id != peer:
            continue
        state = standing.tenant(tenant)
        if state == "Active":
            yield row("tenant", "ok", "the tenant is active")
        elif state == standing.UNACCEPTED:
            yield row("tenant", "unknown", NO_WAY_IN)
        else:
            yield row("tenant", "skipped", meant(peer, state))


NO_WAY_IN = "it has no way in: it was revoked, or not accepted yet; the Tenant's Events say why"
"""What is said of a tenant that is not accepted."""


def meant(peer: str, state: str) -> str:
    """What is said of a tenant that somebody cordoned or drained: it is meant so."""
    verb = "uncordon" if state == "Cordoned" else "activate"
    return f"{state.lower()} by hand: `liqod {verb} tenant {peer}` ends that"
