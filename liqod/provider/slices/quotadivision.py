"""The division of a consumer's bounds on objects among its namespaces. Pure.

No API server counts over several namespaces. So each has a ResourceQuota with a share of the
consumer's total, and shares move to where they are used. The API server admits by what the
quota controller has taken over from a quota (``status.hard``), so a share that was lowered is free
for others only when that has followed: until then the namespace may still use all of it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from liqod.model.objects.quantities import NANO, Amounts

_MI: Final = NANO * 1024**2
_MILLI: Final = NANO // 1000


class NamespaceQuota(msgspec.Struct, frozen=True):
    """The quota of one namespace, in billionths by resource.

    Attributes:
        hard: its own amounts.
        used: the amounts that the API server has counted.
        held: the most that the namespace may have: its own amounts, those still admitted,
            and what is used already.
    """

    hard: Amounts = {}
    used: Amounts = {}
    held: Amounts = {}


class QuotaChanges(NamedTuple):
    """The changes of quotas to write now.

    Attributes:
        hard: the new amounts, by namespace and resource; raised by no more than is free.
        again: whether the free amount goes on to other namespaces after a while.
    """

    hard: dict[str, Amounts]
    again: bool


def namespace_quota(
    spec: Amounts, admitted: Amounts, used: Amounts, written: Amounts
) -> NamespaceQuota:
    """The effective quota of a namespace.

    Args:
        spec: its ``spec.hard``, as far as this daemon has seen.
        admitted: its ``status.hard``.
        used: its ``status.used``.
        written: this daemon's last write, if it has not seen it yet.
    """
    hard = {**spec, **written}
    held = {
        key: max(each.get(key, 0) for each in (spec, admitted, used, written))
        for key in {*spec, *admitted, *written}
    }
    return NamespaceQuota(hard, used, held)


def divide(
    total: int, used: Mapping[str, int], turn: int = 0, *, unit: int = 1, whole: bool = False
) -> dict[str, int]:
    """The share of each namespace: what it uses, and a part of what is free.

    Half of what is free goes to those that use something, in proportion; the other half, or all
    where none uses anything, to all alike. The remainder goes by one unit each: of the
    first half in the order of use, of the second in the order of names; each turn begins where the
    one before ended, and the odd unit goes to either half in turn. So a namespace without any has
    its turn however few are free. The sum is ``total``, or what is used where that is more.

    Args:
        total: for all namespaces.
        used: by namespace.
        turn: a number that grows with time.
        unit: what shares are multiples of, beyond what is used.
        whole: one object may need much at once: then half of the second half goes to one namespace,
            which changes by turn.
    """
    if not used:
        return {}
    names = sorted(used)
    users = sorted((name for name in names if used[name] > 0), key=lambda name: (-used[name], name))
    free = max(0, total - sum(used.values())) // unit
    busy = (free + 1 - turn % 2) // 2 if users else 0
    alike = free - busy
    found = dict.fromkeys(names, 0)
    if whole:
        found[names[turn % len(names)]] += alike // 2
        alike -= alike // 2
    weights = sum(used[name] for name in users)
    for name in users:
        found[name] += busy * used[name] // weights
    left = busy - sum(busy * used[name] // weights for name in users)
    for name in _next(users, left, turn // 2):
        found[name] += 1
    each, left = divmod(alike, len(names))
    for name in names:
        found[name] += each
    for name in _next(names, left, turn // 2):
        found[name] += 1
    return {name: used[name] + units * unit for name, units in found.items()}


def quota_changes(
    total: Amounts, quotas: Mapping[str, NamespaceQuota], turn: int = 0
) -> QuotaChanges:
    """The changes of quotas by which no moment has more than ``total``, or than is used.

    A namespace gets more when half of its quota is used and it has less than half as much free as
    its share would leave, or as any share would. Then others give that up, those first that have
    most beyond their shares; the rest stays as it is.

    Args:
        total: for all namespaces; a resource that a quota does not name is not bounded there.
        quotas: by namespace.
        turn: as :func:`divide`.
    """
    found: dict[str, Amounts] = {}
    again = False
    for key, most in total.items():
        written, more = _moves(key, most, quotas, turn)
        again |= more
        for name, amount in written.items():
            found.setdefault(name, {})[key] = amount
    return QuotaChanges(found, again)


def first_amount(key: str, total: int, quotas: Mapping[str, NamespaceQuota]) -> int:
    """The share of a namespace whose quota is yet to be made: of the free amount."""
    free_amount = total - sum(each.held.get(key, 0) for each in quotas.values())
    unit, _ = _kind(key)
    alike = total if not quotas else total // (len(quotas) + 1) // unit * unit
    return max(0, min(free_amount, alike))


def _moves(
    key: str, total: int, quotas: Mapping[str, NamespaceQuota], turn: int
) -> tuple[dict[str, int], bool]:
    taking = {name: each for name, each in quotas.items() if key in each.hard}
    hard = {name: each.hard[key] for name, each in taking.items()}
    used = {name: each.used.get(key, 0) for name, each in taking.items()}
    held = {name: each.held[key] for name, each in taking.items()}
    elsewhere = sum(
        max(each.used.get(key, 0), each.held.get(key, 0))
        for name, each in quotas.items()
        if name not in taking
    )
    unit, whole = _kind(key)
    target = divide(total - elsewhere, used, turn, unit=unit, whole=whole)
    least = min((target[name] - used[name] for name in taking), default=0)

    def is_short(name: str) -> bool:
        free, aim = hard[name] - used[name], target[name] - used[name]
        in_use = whole or 2 * used[name] >= hard[name]
        return free < 0 or 2 * free < least or (in_use and 2 * free < aim)

    wants = [name for name in taking if is_short(name)]
    wants.sort(key=lambda name: (-used[name], name))
    free_amount = total - elsewhere - sum(held.values())
    found: dict[str, int] = {}
    # Part of what was given up before is still admitted, and free soon.
    pending = sum(held[name] - max(hard[name], used[name]) for name in taking)
    need = sum(max(0, target[name] - held[name]) for name in wants) - free_amount - pending
    beyond = {name: hard[name] - target[name] for name in taking if name not in wants}
    for name in sorted(beyond, key=lambda name: (-beyond[name], name)):
        if need <= 0 or beyond[name] <= 0:
            break
        found[name] = hard[name] - min(beyond[name], need)
        need -= min(beyond[name], need)
    for name in wants:
        given = min(target[name], held[name] + max(0, free_amount))
        if given > hard[name]:
            found[name] = given
            free_amount -= max(0, given - held[name])
    free = sum(target.values()) > sum(used.values())
    scarce = whole or any(target[name] == used[name] for name in taking)
    return found, free and scarce and len(taking) > 1


def _kind(key: str) -> tuple[int, bool]:
    """The unit of a resource, in billionths, and whether one object may need much of it."""
    if key.startswith("count/") or key.endswith("/persistentvolumeclaims"):
        return NANO, False
    if "storage" in key or "memory" in key:
        return _MI, True
    return (_MILLI, True) if "cpu" in key else (NANO, False)


def _next(names: list[str], number: int, turn: int) -> list[str]:
    """So many of the names; each turn goes on where the one before ended."""
    if not names or not number:
        return []
    begin = turn * number % len(names)
    return [*names[begin:], *names[:begin]][:number]
