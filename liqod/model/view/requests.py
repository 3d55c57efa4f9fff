"""From who asks and who is asked to the rows that the inspector shows of them. Pure."""

from collections.abc import Mapping

from liqod.apimachinery import labels
from liqod.model.view.peerview import unix
from liqod.model.view.request import Request
from liqod.resources import IncomingPeering, OutgoingPeering


def incoming(found: IncomingPeering) -> Request:
    """Who asks to borrow from this cluster."""
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
    """Whom this cluster asks, or offers to lend to; of its invitation only that it brings one."""
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
    """What led to the cluster that is asked."""
    if found.spec.invitation_secret:
        return "invitation"
    if labels.SOUGHT in found.metadata.labels:
        return "policy"
    return "address" if found.spec.addresses else "discovery"


def _texts(resources: Mapping[str, int | str]) -> dict[str, str]:
    return {name: f"{amount}" for name, amount in resources.items()}
