"""The state machine of a request over several meetings: phases on each side, and events. Pure.

Each side keeps one word of a request in its custom resource, and changes it by :func:`after`, which
takes what happened. It is written first and said afterwards: whoever is killed in between says it
at the next meeting. An end is for ever, but for what a provider thinks before it knows: what the
consumer says of its own side (it takes the request back, it has made the peering) holds.

Consumer: "" → Waiting → Accepted → Done or Failed; or Denied, Refused, Expired, Cancelled.
Provider: "" → Waiting → Accepted → Done or Failed; or Denied, Expired, Cancelled.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal, get_args

Standing = Literal[
    "", "Waiting", "Accepted", "Denied", "Refused", "Expired", "Cancelled", "Done", "Failed"
]
"""Of a request. ``Waiting``: the consumer has asked, the provider was asked. ``Accepted``: the
provider has, the consumer has not finished. The others are ends."""
STANDINGS: Final[tuple[Standing, ...]] = get_args(Standing)
Event = Literal["asked", "accepted", "denied", "refused", "expired", "cancelled", "done", "failed"]
"""``accepted``, ``denied``: decided at the provider, heard at the consumer. ``refused``: heard by
the consumer, without a time to come again. ``expired``: by the own clock, or heard. ``cancelled``,
``done``, ``failed``: at the consumer, or reported by it."""

_CONSUMER: Final[dict[tuple[Standing, Event], Standing]] = {
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
_PROVIDER: Final[dict[tuple[Standing, Event], Standing]] = {
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
ENDS: Final[frozenset[Standing]] = frozenset(
    ("Denied", "Refused", "Expired", "Cancelled", "Done", "Failed")
)
"""After these nothing is accepted any more."""


def counted(standings: Iterable[str]) -> Counter[Standing]:
    """How many requests stand how; what nobody writes but by hand is as one that just began."""
    found: Counter[Standing] = Counter(dict.fromkeys(STANDINGS, 0))
    for each in standings:
        found[each if each in STANDINGS else ""] += 1
    return found


def after(side: Literal["consumer", "provider"], standing: Standing, event: Event) -> Standing:
    """The phase of a request after an event: unchanged where that means nothing now."""
    table = _CONSUMER if side == "consumer" else _PROVIDER
    return table.get((standing, event), standing)
