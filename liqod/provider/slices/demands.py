"""Requests of pods, grants of users, and offers to pods that wait."""

from collections.abc import Mapping

import msgspec

Key = tuple[str, str]
"""Namespace and name of a ShadowPod."""
Amounts = tuple[tuple[str, int], ...]
"""Billionths by resource name (:mod:`liqod.model.objects.quantities`), sorted."""


class UserGrant(msgspec.Struct, frozen=True):
    """The resources that one user of a consumer may use.

    Attributes:
        user: the user, as its certificate names it.
        amounts: billionths by resource name.
        enforcement: ``None``, ``Soft`` or ``Hard``.
        cordoned: nothing new is admitted.
    """

    user: str
    amounts: Mapping[str, int]
    enforcement: str = "None"
    cordoned: bool = False


class Demand(msgspec.Struct, frozen=True):
    """The resources that one pod requests.

    Attributes:
        user: the user it is booked on, empty where only the consumer is known.
        amounts: the requested amounts.
    """

    user: str
    amounts: Amounts


class Offer:
    """An offer to pods that wait: they are counted as if they were booked.

    Attributes:
        used, total: the sums, with those that were offered something.
        unplaced: pods that may give way, the largest first.
        judged: number of demands that were judged.
        tries: number of those for which pods that give way were looked for.
    """

    def __init__(
        self, used: Mapping[str, dict[str, int]], total: Mapping[str, int], unplaced: list[Key]
    ) -> None:
        self.used = {user: dict(sums) for user, sums in used.items()}
        self.total = dict(total)
        self.unplaced = unplaced
        self.judged = self.tries = 0
        self._failed: list[Demand] = []

    def is_hopeless(self, demand: Demand) -> bool:
        """True if one that requests no more of anything was tried in vain."""
        return any(
            each.user == demand.user and not beyond(each.amounts, demand.amounts)
            for each in self._failed
        )

    def tried(self, demand: Demand, gone: list[Key]) -> None:
        """Note a try, and the pods that give way."""
        if gone:
            self._failed.clear()
            self.unplaced = [each for each in self.unplaced if each not in gone]
        else:
            self._failed.append(demand)


def beyond(amounts: Amounts, others: Amounts) -> dict[str, int]:
    """The amounts that are larger than the others."""
    known = dict(others)
    return {name: amount for name, amount in amounts if amount > known.get(name, 0)}


def add(sums: dict[str, int], amounts: Amounts, sign: int) -> None:
    """Add amounts to sums, or take them off; what comes to nothing has no entry."""
    for name, amount in amounts:
        value = sums.get(name, 0) + sign * amount
        if value:
            sums[name] = value
        else:
            sums.pop(name, None)
