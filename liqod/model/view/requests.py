"""From who asks and who is asked to the rows that the inspector shows of them. Pure."""

from collections.abc import Mapping

from liqod.model.view.peerview import unix
from liqod.model.view.rows import Request
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
    )


def outgoing(found: OutgoingPeering) -> Request:
    """Whom this cluster asks, or offers to lend to; that it brings an invitation is not shown."""
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
    )


def _texts(resources: Mapping[str, int | str]) -> dict[str, str]:
    return {name: f"{amount}" for name, amount in resources.items()}
