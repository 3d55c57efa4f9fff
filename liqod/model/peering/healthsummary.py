"""States of this cluster's daemon and its peers, by the objects of the API server. Pure.

A daemon's notes count only while it runs: no state is good only because it once was.
"""

from collections.abc import Sequence

from liqod.model.peering.intervals import LEADER_STOPS_AFTER
from liqod.model.view.facts import LinkProblem
from liqod.model.view.figures import counted, span
from liqod.model.view.snapshot import Snapshot
from liqod.resources import Tenant
from liqod.resources.authentication import ACTIVE, TOLERATE_NO_HANDSHAKE

NO_WEBHOOK = "nobody answers it: the daemon does not run"
"""State of the webhook while this cluster's daemon does not run."""
NOT_KNOWN = "not known"
"""State of a peer's API server while this cluster's daemon does not run."""

STOPPED = "not known while this cluster's daemon does not run"
"""The same, of the layer of the doctor's."""
UNACCEPTED = "not accepted"
"""The condition of a tenant without access: it was revoked, or has proved nothing (yet)."""


def runs(snapshot: Snapshot) -> bool:
    """True if this cluster's daemon runs, by its Lease: one that cannot renew it for long stops."""
    age = snapshot.leader_age
    held = age is not None and bool(snapshot.leader) and not snapshot.leader_gone
    return held and (age or 0.0) <= LEADER_STOPS_AFTER


def daemon(snapshot: Snapshot) -> str:
    """The state of this cluster's daemon, in a few words."""
    if snapshot.leader_age is None:
        return "not running: it has never led here"
    if not runs(snapshot):
        ago = span(snapshot.leader_age)
        if snapshot.leader_gone:
            return f"not running: {snapshot.leader_gone}; last heard of {ago} ago"
        return f"not running: {'last heard of' if snapshot.leader else 'it was stopped'} {ago} ago"
    waiting = f"; {', '.join(snapshot.standbys)} standing by" if snapshot.standbys else ""
    return f"running as {snapshot.leader}{waiting}"


def older(definitions: Sequence[str]) -> str:
    """The problem of definitions that a daemon of this version does not work with, as a clause."""
    more = len(definitions) - 1
    others = f" and {counted(more, 'other')}" if more else ""
    what = f"the custom resource {definitions[0]}{others}"
    return f"{what} is older than a daemon of this version needs, which waits"


def again(peer: str) -> str:
    """The step to peer anew with a peer, for each method by which the two may have met."""
    anew = "`liqod peer --remote-kubeconfig FILE` with a new kubeconfig of it"
    return f"`liqod peer {peer}` with the same options again, or {anew}"


def api_remedy(problem: LinkProblem, peer: str) -> str:
    """The remedy for a peer's API server that does not answer, by the kind of its problem."""
    if problem == "refused":
        return f"{again(peer)}; what runs at {peer} stays"
    if problem == "untrusted":
        anew = f"`liqod peer {peer} --replace`, or `liqod peer --remote-kubeconfig FILE --replace`"
        return f"is that still {peer}? if it was made anew, {anew}"
    return "check the peer's API server, and the path to it"


def tenant(found: Tenant) -> str:
    """The condition of a consumer's tenant: Active only where it has access."""
    asked = found.spec.tenant_condition
    free = found.spec.authz_policy == TOLERATE_NO_HANDSHAKE
    return UNACCEPTED if asked == ACTIVE and not free and not found.status.auth_params else asked


NO_WAY_IN = "it has no way in: it was revoked, or not accepted yet; the Tenant's Events say why"
"""Explanation of a tenant that is not accepted."""


def meant(peer: str, state: str) -> str:
    """Explanation of a tenant that an operator cordoned or drained on purpose."""
    verb = "uncordon" if state == "Cordoned" else "activate"
    return f"{state.lower()} by hand: `liqod {verb} tenant {peer}` ends that"
