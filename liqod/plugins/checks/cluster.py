"""The doctor's layers of this cluster itself: the base of every peer's ladder."""

from collections.abc import Iterator, Sequence

from liqod.model.objects import webhook as webhooks
from liqod.model.peering import healthsummary
from liqod.model.peering.intervals import UNPROVED
from liqod.model.view.daemonfacts import LEFT_OUT
from liqod.model.view.figures import counted, span
from liqod.plugins.diagnosis import (
    Check,
    ClusterFacts,
    Fault,
    Finding,
    failing,
    found,
    ok,
    skipped,
    unknown,
)
from liqod.plugins.hookspecs import hookimpl

STALE = 30.0
"""Seconds after which an answer of the API server proves nothing any more."""
SKEW = 10.0
"""Seconds by which clocks may differ: leases and certificates bear that much."""
EXPIRING = 3 * 86400.0
LATE = 1.0
"""Seconds of lateness of the event loop that make peers look dead."""


def api(facts: ClusterFacts) -> Finding:
    """Check that this cluster's API server answers."""
    trip = facts.api
    if trip is None:
        return unknown("not asked yet")
    if trip.refused:
        return failing(trip.error, "use credentials that this cluster's API server accepts")
    if trip.error:
        remedy = "check this cluster's API server, and the address in the kubeconfig"
        return failing(trip.error, remedy)
    if trip.ago > STALE:
        return failing(f"no answer for {span(trip.ago)}", "check this cluster's API server")
    took = f"answered in {1000 * trip.took:.0f} ms, {trip.ago:.0f} s ago"
    return ok(f"{facts.version or 'it'} {took}")


def installation(facts: ClusterFacts) -> Finding | None:
    """Check that all that is installed is there, and that the id is the one that peers know."""
    if facts.uninstalled:
        return failing(facts.uninstalled, "run `liqod install --cluster-id NAME`")
    if facts.definitions is None:
        return None
    faults = tuple(_not_installed(facts))
    if facts.unread:
        kinds = ", ".join(facts.unread)
        remedy = "use a kubeconfig whose user has the right to list them"
        unread = Fault(f"this is not all: {kinds} cannot be read", remedy, facts.unread, rank=0)
        if not faults:
            return unknown(f"{kinds} cannot be read by this user", unread)
        faults = (*faults, unread)
    return found(faults, "custom resources and policies are there")


def _not_installed(facts: ClusterFacts) -> Iterator[Fault]:
    install = "run `liqod install`"
    for name in facts.definitions or ():
        yield Fault(f"the custom resource {name} is missing", install, (name,))
    if facts.older:
        yield Fault(healthsummary.older(facts.older), install, facts.older)
    if facts.id_problem is not None:
        yield Fault(facts.id_problem.what, facts.id_problem.remedy)
    for name in facts.policies or ():
        what = f"the admission policy {name} is missing or denies nothing: nobody is held to it"
        yield Fault(what, install, (name,), rank=1)


def leader(facts: ClusterFacts) -> Finding | None:
    """Check that this cluster's daemon runs, by its Lease."""
    seen = facts.daemon
    if seen is None:
        return None
    if seen.runs:
        return ok(seen.how)
    return failing(seen.how, seen.start, f"the daemon is {seen.how}")


def credentials(facts: ClusterFacts) -> Finding:
    """Check that the daemon's own certificate does not expire soon."""
    left = facts.certificate
    if left is None:
        return ok("a token, or a certificate that another program renews")
    renew = "`liqod install --write-kubeconfig FILE` makes a kubeconfig for it that lasts"
    if left <= 0:
        return failing(f"the certificate ended {span(-left)} ago", renew)
    if left < EXPIRING:
        return failing(f"the certificate ends in {span(left)}", renew)
    return ok(f"the certificate is good for {span(left)}")


def clock(facts: ClusterFacts) -> Finding:
    """Check that the clocks of this machine and of the API server agree."""
    if facts.skew is None:
        return unknown("the API server has not told its time")
    return agreeing(facts.skew, "the API server's clock")


def agreeing(skew: float, whose: str) -> Finding:
    """The finding about a clock that is ``skew`` seconds ahead of ours."""
    if abs(skew) > SKEW:
        side = "ahead" if skew > 0 else "behind"
        return failing(f"{whose} is {span(abs(skew))} {side}", "set both clocks by NTP")
    return ok(f"{whose} is within {max(abs(skew), 1.0):.0f} s of ours")


def watches(facts: ClusterFacts) -> Finding:
    """Check that all kinds in this cluster are watched."""
    if facts.silent:
        kind, reason = next(iter(facts.silent.items()))
        return failing(
            f"{counted(len(facts.silent), 'kind')} not followed, {kind}: {reason}",
            "check the daemon's rights (`liqod install`) and the custom resources",
        )
    return ok("all kinds are followed")


def loop(facts: ClusterFacts) -> Finding:
    """Check that the daemon's event loop is not late."""
    if facts.lag > LATE:
        return failing(
            f"the daemon was {facts.lag:.1f} s late in the last minute",
            "give it more of a processor; a plugin that holds it up is named in the log",
        )
    return ok(f"at most {1000 * facts.lag:.0f} ms late in the last minute")


def webhook(facts: ClusterFacts) -> Finding | None:
    """Check that the API server reaches the webhook for pods."""
    if not facts.webhook_answered:
        return skipped(healthsummary.NO_WEBHOOK)
    if facts.webhook_reached is None:
        return None
    if facts.webhook_reached:
        if facts.daemon is not None:
            return ok("the API server reached it when that was tried last")
        if facts.proved is None or facts.proved > UNPROVED:
            return unknown("it was not tried of late whether the API server reaches it")
        return ok(f"the API server reached it {span(facts.proved)} ago")
    what = f"the API server cannot reach the webhook: {facts.webhook}"
    return failing(facts.webhook, webhooks.remedy(facts.webhook), what)


def policies(facts: ClusterFacts) -> Finding:
    """Check that the admission policies for consumers exist and deny."""
    if facts.policies is None:
        return unknown("only the daemon that leads looks at them")
    if facts.policies:
        what = f"{facts.policies[0]} is missing or denies nothing: nothing new is lent"
        return failing(what, "run `liqod install`")
    return ok("those that hold consumers deny")


def plugins(facts: ClusterFacts) -> Finding:
    """Check that every plugin could be loaded, and does its work."""
    mend, every = "mend, block or remove the plugin; the log has more", facts.plugins.values()
    left_out = [each for each in every if each.state == LEFT_OUT]
    troubled = [each for each in every if each.failure and each.state != LEFT_OUT]
    faults = (
        *(Fault(f"{each.whole} is left out: {each.why}", mend) for each in left_out),
        *(Fault(f"{each.whole} fails: {each.failure}", mend) for each in troubled),
    )
    return found(faults, "all are loaded and work")


def handshake(facts: ClusterFacts) -> Finding | None:
    """Check that the daemon listens for the handshakes of other clusters."""
    if facts.met_at is None or not facts.leading:
        return None
    if facts.unmet:
        return failing(
            f"no other cluster can ask this one: {facts.unmet}",
            "end the other program or set [handshake] port; with enabled = false there is none",
        )
    if not facts.met_at:
        return unknown("it is not listened to yet")
    return ok(f"other clusters' daemons are met at port {facts.met_at}")


def gateway(facts: ClusterFacts) -> Finding | None:
    """Check that this machine can join the networks of peers, where it is to."""
    if facts.unjoined is None or not facts.leading:
        return None
    if facts.unjoined:
        return unknown(f"it joins no networks of peers: {facts.unjoined}")
    return ok("it can join the networks of peers")


def transit(facts: ClusterFacts) -> Finding | None:
    """Check that the networks of the peers are joined between which transit is allowed."""
    if not facts.apart or not facts.leading or facts.unjoined is None:
        return None
    names = ", ".join(facts.apart)
    why = f"[network] transit names {names}, and no network of a peer of that name is joined"
    return failing(why, "peer with it, or mend its name in the configuration")


def serving(facts: ClusterFacts) -> Finding | None:
    """Check that the cluster has signed the serving certificate of virtual nodes."""
    if facts.serving is None or not facts.leading:
        return None
    if facts.serving:
        return unknown(f"the certificate is not the cluster's: {facts.serving}")
    return ok("the cluster has signed the certificate of virtual nodes")


@hookimpl
def liqod_checks() -> Sequence[Check]:
    """The layers, the lowest first."""
    return (
        Check(
            name="server",
            title="the API server",
            scope="cluster",
            order=10,
            look=api,
            by_objects=True,
        ),
        Check(
            name="installation",
            title="the installation",
            scope="cluster",
            order=12,
            look=installation,
            by_objects=True,
        ),
        Check(
            name="leader",
            title="the daemon",
            scope="cluster",
            order=14,
            look=leader,
            by_objects=True,
        ),
        Check(
            name="identity",
            title="the daemon's credentials",
            scope="cluster",
            order=20,
            look=credentials,
        ),
        Check(name="time", title="the clock", scope="cluster", order=30, look=clock),
        Check(
            name="watches",
            title="following objects",
            scope="cluster",
            order=40,
            look=watches,
            needs=("server",),
        ),
        Check(name="loop", title="keeping up", scope="cluster", order=50, look=loop),
        Check(
            name="webhook",
            title="the pod webhook",
            scope="cluster",
            order=60,
            look=webhook,
            by_objects=True,
        ),
        Check(
            name="policies", title="admission policies", scope="cluster", order=65, look=policies
        ),
        Check(name="handshake", title="the handshake", scope="cluster", order=67, look=handshake),
        Check(name="serving", title="kubelet API", scope="cluster", order=68, look=serving),
        Check(name="gateway", title="the gateway", scope="cluster", order=69, look=gateway),
        Check(name="plugins", title="plugins", scope="cluster", order=70, look=plugins),
        Check(name="transit", title="transit", scope="cluster", order=71, look=transit),
    )
