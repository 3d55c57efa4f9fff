"""Requests of the handshake as they are shown: incoming and outgoing ones. Pure.

The row of each, made from its object; and how a peer was met, by the requests that are kept.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.model.objects.conditions import holds
from liqod.resources import IncomingPeering, OutgoingPeering
from liqod.resources.peering import REACHED

AGREED: Final = ("Accepted", "Done")
KUBECONFIG: Final = "kubeconfig"
"""Method by which two clusters have met where no request is kept: a kubeconfig."""
UNKNOWN: Final = "-"


class RequestRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to borrow from this cluster, or of this cluster to another one; without secrets.

    Attributes:
        name: of the IncomingPeering or OutgoingPeering.
        cluster_id: the other cluster; empty while that is unknown.
        words: the words that both sides show, for two people to compare.
        asked: requested quantities by resource; empty for the lender's default grant.
        granted: the granted ones, likewise.
        state: its phase, such as ``Waiting``; empty before it has crossed.
        decision: ``Accept`` or ``Deny`` of an operator; empty before the decision.
        always: whether the decision also applies to later requests.
        source: the address that it comes from, or that was reached.
        reason: the awaited step, the source of the decision, or the reason of a denial.
        since: time of its creation.
        expires: time when it is deleted without a result, as Kubernetes writes times.
        lends: whether this cluster dials the other one to lend to it, and requests nothing.
        met: whether the two are connected; ``reason`` then has the next step with the words.
        by: the method by which the two have met: ``invitation``; ``discovery`` or ``policy``, of
            clusters that are seen; ``address``, which a user gave; ``request`` of the other one.
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
    met: bool = False
    by: str = ""


def unix(stamp: str | None) -> float:
    """Unix seconds of a Kubernetes time; 0 where there is none."""
    return datetime.fromisoformat(stamp).timestamp() if stamp else 0.0


def incoming(found: IncomingPeering) -> RequestRow:
    """The row of a request to borrow from this cluster."""
    spec, status = found.spec, found.status
    return RequestRow(
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


def outgoing(found: OutgoingPeering) -> RequestRow:
    """The row of this cluster's request, or of its offer to lend; without its invitation."""
    spec, status = found.spec, found.status
    return RequestRow(
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
        met=holds(status.conditions, REACHED) and not status.next_try,
        by=_way(found),
    )


def _way(found: OutgoingPeering) -> str:
    """The source of the requested cluster: invitation, policy, address or discovery."""
    if found.spec.invitation_secret:
        return "invitation"
    if labels.SOUGHT in found.metadata.labels:
        return "policy"
    return "address" if found.spec.addresses else "discovery"


def _texts(resources: Mapping[str, int | str]) -> dict[str, str]:
    return {name: f"{amount}" for name, amount in resources.items()}


def met(peer: str, requests: Iterable[RequestRow] | None) -> tuple[str, str]:
    """The methods of meeting a peer (``invitation``, ``discovery``, ``address``, ``policy``,
    ``request``, ``kubeconfig``), with commas between them; and the words that both sides showed.

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
