"""Requests of the handshake as they are shown: incoming and outgoing ones. Pure.

The row of each, made from its object; how a peer was met, by the requests that are kept; and the
action that a waiting or failed request needs from a person.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.model.view.figures import counted
from liqod.resources import IncomingPeering, OutgoingPeering

AGREED: Final = ("Accepted", "Done")
KUBECONFIG: Final = "kubeconfig"
"""Way in which two clusters have met where no request is kept: by a kubeconfig."""
UNKNOWN: Final = "-"
NAMED: Final = 5
"""Clusters that wait for an answer and are reported one by one: anybody may ask, and many may."""
BEGUN: Final = ("", "Waiting", "Accepted")
ENDED_BADLY: Final = ("Refused", "Failed")


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to borrow from this cluster, or of this cluster to another one; without secrets.

    Attributes:
        name: of the IncomingPeering or OutgoingPeering.
        cluster_id: who asks, or who is asked; empty while that is not known.
        words: what both sides show, for two people to compare.
        asked: quantities by resource; empty for what the lender grants by default.
        granted: likewise what is granted.
        state: its phase, such as ``Waiting``; empty before it has crossed.
        decision: ``Accept`` or ``Deny`` of an operator; empty while nobody has decided.
        always: whether the decision is good for later requests, too.
        source: the address that it comes from, or that was reached.
        reason: what is waited for, who has decided, or why the answer is no.
        since: when it was made.
        expires: when it is forgotten if nothing comes of it, as Kubernetes writes times.
        lends: whether this cluster dials the other one to lend to it, and does not ask it.
        by: how the two have met: ``invitation``; ``discovery`` or ``policy``, of those that are
            seen; ``address``, which somebody gave; ``request`` of the other one.
    """

    name: str
    cluster_id: str = ""
    words: str = ""
    asked: dict[str, str] = {}
    granted: dict[str, str] = {}
    state: str = ""
    decision: str = ""
    always: bool = False
    source: str = ""
    reason: str = ""
    since: float = 0.0
    expires: str = ""
    lends: bool = False
    by: str = ""


def unix(stamp: str | None) -> float:
    """Unix seconds of a Kubernetes time; 0 where there is none."""
    return datetime.fromisoformat(stamp).timestamp() if stamp else 0.0


def incoming(found: IncomingPeering) -> Request:
    """The row of a request to borrow from this cluster."""
    spec, status = found.spec, found.status
    return Request(
        name=found.name,
        cluster_id=spec.cluster_id,
        words=status.words,
        asked=_texts(spec.resources),
        granted=_texts(status.granted),
        state=status.phase,
        decision=spec.decision,
        always=spec.always,
        source=spec.source,
        reason=status.reason,
        since=unix(found.metadata.creation_timestamp),
        expires=status.expires,
        by="invitation" if spec.invitation else "request",
    )


def outgoing(found: OutgoingPeering) -> Request:
    """The row of this cluster's request, or of its offer to lend; without its invitation."""
    spec, status = found.spec, found.status
    return Request(
        name=found.name,
        cluster_id=status.cluster_id or spec.cluster_id,
        words=status.words,
        asked=_texts(spec.resources),
        granted=_texts(status.granted),
        state=status.phase,
        source=status.address or next(iter(spec.addresses), ""),
        reason=status.message,
        since=unix(found.metadata.creation_timestamp),
        expires=spec.expires,
        lends=spec.lend,
        by=_way(found),
    )


def _way(found: OutgoingPeering) -> str:
    """The source of the cluster that is asked: invitation, policy, address or discovery."""
    if found.spec.invitation_secret:
        return "invitation"
    if labels.SOUGHT in found.metadata.labels:
        return "policy"
    return "address" if found.spec.addresses else "discovery"


def _texts(resources: Mapping[str, int | str]) -> dict[str, str]:
    return {name: f"{amount}" for name, amount in resources.items()}


def met(peer: str, requests: Iterable[Request] | None) -> tuple[str, str]:
    """How a peer was met (``invitation``, ``discovery``, ``address``, ``policy``, ``request``,
    ``kubeconfig``), several with commas between them; and the words that both sides have shown.

    Args:
        peer: its id.
        requests: of both sides; None where they may not be read.
    """
    if requests is None:
        return UNKNOWN, ""
    found = [each for each in requests if each.cluster_id == peer and each.state in AGREED]
    ways = sorted({each.by for each in found if each.by})
    words = next((each.words for each in found if each.words), "")
    return ", ".join(ways) or KUBECONFIG, words


class Wanted(msgspec.Struct, frozen=True):
    """The action that a request needs from a person.

    Attributes:
        peer: the other cluster's id, as far as it is known.
        what: how the request stands.
        remedy: what to do.
        failed: it does not go on by itself.
    """

    peer: str
    what: str
    remedy: str
    failed: bool = False


def wanted(incoming: Iterable[Request], outgoing: Iterable[Request]) -> Iterable[Wanted]:
    """The actions that the requests of both directions need from a person."""
    waiting = [each for each in incoming if each.state == "Waiting"]
    waiting.sort(key=lambda each: each.name)
    for entry in waiting[:NAMED]:
        yield _asks(entry)
    if len(waiting) > NAMED:
        what = f"{counted(len(waiting) - NAMED, 'more cluster')} may ask to borrow from this one"
        yield Wanted("", what, "`liqod inbox` shows all")
    for request in outgoing:
        if request.lends:
            yield from _offered(request)
        elif request.state in (*ENDED_BADLY, *BEGUN):
            yield _asked(request)


def _asks(entry: Request) -> Wanted:
    asked = ", ".join(f"{name} {amount}" for name, amount in sorted(entry.asked.items()))
    what = f"asks to borrow {asked or 'what is granted by default'}{_words(entry)}"
    return Wanted(entry.cluster_id, what, f"`liqod inbox accept {entry.name}`, or deny")


def _asked(request: Request) -> Wanted:
    said = request.reason or "nothing was heard yet"
    if request.state in ENDED_BADLY:
        what = f"the request {request.name} to borrow has failed: {said}"
        again = f"`liqod peer {request.name}` with the same options again"
        if request.by == "invitation":
            again = "give `liqod peer` another invitation (`liqod invite` there)"
        return Wanted(request.cluster_id, what, f"mend that, and {again}", failed=True)
    words = "" if request.words in said else _words(request)
    what = f"is asked to lend: {said}{words}"
    return Wanted(request.cluster_id, what, "`liqod inbox` there shows the request")


def _offered(request: Request) -> Iterable[Wanted]:
    """The actions for an offer to lend, for which this cluster dials the other one."""
    said = request.reason or "nothing was heard yet"
    if request.state in ENDED_BADLY:
        what = f"the offer {request.name} to lend has failed: {said}"
        yield Wanted(request.cluster_id, what, "`liqod peer` with another invitation", failed=True)
    elif request.state in BEGUN:
        what = f"is dialled to lend to it: {said}{_words(request)}"
        yield Wanted(request.cluster_id, what, "`liqod inbox` shows what it asks")
    elif request.state == "Done" and request.reason:
        # What runs here for it goes on; it sees nothing of that meanwhile.
        what = f"borrows by a connection that this cluster dials, and that is not there: {said}"
        yield Wanted(request.cluster_id, what, "let it be reached; it is dialled again and again")


def _words(request: Request) -> str:
    return f"; words: {request.words}" if request.words else ""
