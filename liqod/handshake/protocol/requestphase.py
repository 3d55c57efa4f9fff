"""The state machine of a request over several meetings: phases on each side, and events. Pure.

Each side keeps one word of a request in its custom resource, and changes it by :func:`next_phase`,
which takes what happened. It is written first and said afterwards: whoever is killed in between
says it at the next meeting. An end is for ever, but for what a provider thinks before it knows:
what the consumer says of its own side (it takes the request back, it has made the peering) holds.

Consumer: "" → Waiting → Accepted → Done or Failed; or Denied, Refused, Expired, Cancelled.
Provider: "" → Waiting → Accepted → Done or Failed; or Denied, Expired, Cancelled.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal, get_args

RequestPhase = Literal[
    "", "Waiting", "Accepted", "Denied", "Refused", "Expired", "Cancelled", "Done", "Failed"
]
"""Of a request. ``Waiting``: the consumer has asked, the provider was asked. ``Accepted``: the
provider has, the consumer has not finished. The others are ends."""
PHASES: Final[tuple[RequestPhase, ...]] = get_args(RequestPhase)
RequestEvent = Literal[
    "asked", "accepted", "denied", "refused", "expired", "cancelled", "done", "failed"
]
"""``accepted``, ``denied``: decided at the provider, heard at the consumer. ``refused``: heard by
the consumer, without a time to come again. ``expired``: by the own clock, or heard. ``cancelled``,
``done``, ``failed``: at the consumer, or reported by it."""

_CONSUMER: Final[dict[tuple[RequestPhase, RequestEvent], RequestPhase]] = {
    ("", "asked"): "Waiting",
    ("", "cancelled"): "Cancelled",
    ("", "expired"): "Expired",
    ("Waiting", "accepted"): "Accepted",
    ("Waiting", "denied"): "Denied",
    ("Waiting", "refused"): "Refused",
    ("Waiting", "expired"): "Expired",
    ("Waiting", "cancelled"): "Cancelled",
    ("Accepted", "cancelled"): "Cancelled",
    ("Accepted", "expired"): "Expired",
    ("Accepted", "done"): "Done",
    ("Accepted", "failed"): "Failed",
}
_PROVIDER: Final[dict[tuple[RequestPhase, RequestEvent], RequestPhase]] = {
    ("", "asked"): "Waiting",
    ("", "cancelled"): "Cancelled",
    ("Waiting", "accepted"): "Accepted",
    ("Waiting", "denied"): "Denied",
    ("Waiting", "expired"): "Expired",
    ("Waiting", "cancelled"): "Cancelled",
    ("Accepted", "expired"): "Expired",
    ("Accepted", "cancelled"): "Cancelled",
    ("Accepted", "done"): "Done",
    ("Accepted", "failed"): "Failed",
    ("Denied", "cancelled"): "Cancelled",
    ("Expired", "cancelled"): "Cancelled",
    ("Expired", "done"): "Done",
    ("Expired", "failed"): "Failed",
}
FINAL_PHASES: Final[frozenset[RequestPhase]] = frozenset(
    ("Denied", "Refused", "Expired", "Cancelled", "Done", "Failed")
)
"""After these nothing is accepted any more."""


def count_phases(standings: Iterable[str]) -> Counter[RequestPhase]:
    """How many requests stand how; what nobody writes but by hand is as one that just began."""
    found: Counter[RequestPhase] = Counter(dict.fromkeys(PHASES, 0))
    for each in standings:
        found[each if each in PHASES else ""] += 1
    return found


def next_phase(
    side: Literal["consumer", "provider"], standing: RequestPhase, event: RequestEvent
) -> RequestPhase:
    """The phase of a request after an event: unchanged where that means nothing now."""
    table = _CONSUMER if side == "consumer" else _PROVIDER
    return table.get((standing, event), standing)
