"""A request of this cluster's as values: its messages, its spec and its status."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from liqod.handshake.protocol.messages import LONGEST, Ask, Invited
from liqod.kube import times
from liqod.model.objects.conditions import holds, set_condition
from liqod.resources import OutgoingPeering
from liqod.resources.peering import NOTED

WAITS: Final = 7 * 24 * 3600.0
"""Seconds after which a request is given up if nobody has answered and it says nothing else."""
INVITATION_ID, INVITATION_SECRET = "id", "secret"
"""Keys of the Secret with an invitation."""


def ends(request: OutgoingPeering) -> float:
    """Unix time at which a request is given up, by this cluster's clock."""
    try:
        return times.seconds(request.spec.expires)
    except ValueError:
        made = request.metadata.creation_timestamp
        return (times.seconds(made) if made else times.seconds(times.now())) + WAITS


def left(request: OutgoingPeering) -> int:
    """Seconds until that."""
    return min(max(int(ends(request) - times.seconds(times.now())), 0), LONGEST)


def is_untold(request: OutgoingPeering) -> bool:
    """True if it is a peering, and the other side does not know that yet.

    It is notified for as long as the request lasts; after that it has ended the request by itself.
    """
    done = request.status.phase == "Done" and not holds(request.status.conditions, NOTED)
    return done and left(request) > 0


def ask_of(request: OutgoingPeering, labels: Mapping[str, str], invited: Invited | None) -> Ask:
    """The message that carries a request."""
    spec = request.spec
    return Ask(
        request=request.metadata.uid,
        resources={name: str(amount) for name, amount in spec.resources.items()},
        slice=spec.slice,
        invitation=invited,
        labels=dict(labels),
        networking=spec.networking,
        lifetime=left(request),
    )


def status_patch(
    request: OutgoingPeering,
    changes: Mapping[str, Any],
    steps: Mapping[str, tuple[str, ...]],
) -> dict[str, Any]:
    """A merge patch of the status: fields, and conditions as (status, message) by type, with a
    reason behind them where it is not the step's own.
    """
    conditions = msgspec.to_builtins(request.status.conditions)
    for step, (status, message, *own) in steps.items():
        reason = own[0] if own else step if status == "True" else f"Not{step}"
        conditions = set_condition(
            conditions, step, status, now=times.now(), reason=reason, message=message
        )
    return {"status": {**changes, "conditions": conditions}}
