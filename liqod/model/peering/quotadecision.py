"""The decision that a quota has room for a pod, or the reason that it has none. Pure.

The reasons are in the status of ShadowPods, so that consumers read them, too.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from liqod.model.objects.quantities import render_all

NOTHING_GRANTED: Final = "NothingGranted"
UNKNOWN_USER: Final = "UnknownUser"
CORDONED: Final = "Cordoned"
NOT_GRANTED: Final = "ResourceNotGranted"
OVER_QUOTA: Final = "OverQuota"
LIMITS_NOT_SET: Final = "LimitsNotSet"


class QuotaDecision(NamedTuple):
    """The decision that a pod may be made, or the reason that it waits.

    Attributes:
        admitted: the pod may be made, and is booked.
        reason: one word for machines.
        message: one sentence for users.
    """

    admitted: bool
    reason: str = ""
    message: str = ""


ADMITTED: Final = QuotaDecision(True)


def fits(
    amounts: Iterable[tuple[str, int]],
    granted: Mapping[str, int],
    used: Mapping[str, int],
    whose: str,
) -> QuotaDecision:
    """The decision by what is granted and what is used of it.

    Args:
        amounts: that a pod asks for, in billionths.
        whose: names the grant in the message.
    """
    for name, amount in amounts:
        bound = granted.get(name)
        if not amount:
            continue
        if bound is None:
            if name == "pods":
                continue
            return QuotaDecision(False, NOT_GRANTED, f"{whose} was granted no {name}")
        left = bound - used.get(name, 0)
        if amount > left:
            return QuotaDecision(
                False,
                OVER_QUOTA,
                f"{name}: the pod asks for {_show(name, amount)}, and {whose} has "
                f"{_show(name, max(left, 0))} of {_show(name, bound)} left",
            )
    return ADMITTED


def _show(name: str, amount: int) -> str:
    return render_all({name: amount})[name]
