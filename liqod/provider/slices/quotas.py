"""Books the resources that each consumer's pods use, and admits pods by its grants.

One :class:`Ledger` per consumer, kept in memory and rebuilt from the stores at start: pods that
exist are booked first, regardless of the bounds, then the others. The controller that makes the
pods calls it; there is no admission webhook, and nothing is written anywhere. Every call costs a
few dictionary look-ups, however many pods there are: sums are kept, not computed, and the pods that
wait are kept by their demand, so that freed capacity is offered once per kind of request.

A pod that was made and that no node has room for is booked, and gives way: a smaller pod that has
no room in the grant beside it goes first, and it waits then. So pods that fit nowhere do not hold
the grant, and what runs never exceeds it. Only smaller ones go first, so that no two of
them take each other's place by turns.

A ShadowPod is booked on the user that its label names, which the API server has checked
(:mod:`liqod.provider.policies.admission`), and in all on its consumer. One without a user that is
known is booked on all slices of its consumer that are not cordoned, and held to the strictest
limits that any of them enforces: a label that is absent or wrong gets a consumer no more than a
right one.
"""

from collections.abc import Collection, Iterator, Mapping
from heapq import nlargest
from typing import Final

from liqod.model.peering.quotadecision import (
    ADMITTED,
    CORDONED,
    LIMITS_NOT_SET,
    NOTHING_GRANTED,
    OVER_QUOTA,
    UNKNOWN_USER,
    QuotaDecision,
    fits,
)
from liqod.provider.slices.demands import Amounts, Demand, Key, Offer, UserGrant, add, beyond
from liqod.resources.offloading import ENFORCE_HARD, ENFORCE_NONE, ENFORCE_SOFT

MOST_DISPLACED: Final = 64
"""Pods that give way to one other at most."""
MOST_JUDGED: Final = 500
"""Demands that one :meth:`Ledger.ready` judges."""
MOST_TRIES: Final = 16
"""Demands for which it looks for pods that give way: that costs as much as many judgements."""


class Ledger:
    """The bookings of one consumer.

    Attributes:
        unfinished: the last :meth:`ready` has left demands untried; another call goes on there.
    """

    def __init__(self) -> None:
        self._grants: dict[str, UserGrant] = {}
        self._granted: dict[str, int] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._total: dict[str, int] = {}
        self._booked: dict[Key, Demand] = {}
        self._waiting: dict[Demand, dict[Key, None]] = {}
        self._waiting_requests: dict[Key, Demand] = {}
        self._unplaced: dict[Key, float] = {}
        """Booked pods that no node has room for, with their shares of all grants."""
        self._tried: set[Demand] = set()
        """Demands that have no room, as the calls of an unfinished round have found."""
        self._freed = False
        """True if something was freed since the round began."""
        self.unfinished = False

    def grant(self, grant: UserGrant) -> None:
        """Set what a user may use; pods that are booked stay booked."""
        self._grants[grant.user] = grant
        self._sum_grants()

    def revoke(self, user: str) -> None:
        """The user may use nothing more; pods that are booked stay booked."""
        if self._grants.pop(user, None) is not None:
            self._sum_grants()

    def grant_of(self, user: str) -> UserGrant | None:
        """The user's grant; None without one."""
        return self._grants.get(user)

    def enforcement(self, user: str) -> str:
        """The enforcement of limits for a user's pods; for an unknown user the strictest one."""
        grant = self._grants.get(user)
        modes = {each.enforcement for each in ([grant] if grant else self._grants.values())}
        return next((mode for mode in (ENFORCE_HARD, ENFORCE_SOFT) if mode in modes), ENFORCE_NONE)

    def hold(self, key: Key, demand: Demand) -> bool:
        """Book a pod that exists, regardless of the bounds; True if that leaves more for others."""
        self._stop_waiting(key)
        held = self._booked.get(key)
        if held == demand:
            return False
        if held is not None:
            self._book(held, -1)
        self._booked[key] = demand
        self._book(demand, 1)
        return held is not None and bool(beyond(held.amounts, demand.amounts))

    def grow(self, key: Key, amounts: Amounts, complaint: str = "") -> QuotaDecision:
        """Book the growth of a booked pod, or give the reason that it may not grow.

        It is booked with what it had and with what it is to have, whichever is more, and as before
        where it may not: a pod that shrinks has what it had until it was seen with less.

        Args:
            key: the ShadowPod.
            amounts: the amounts that the pod is to have.
            complaint: why it lacks limits that its user's grant enforces; empty if it has them.
        """
        held = self._booked.get(key)
        if held is None:
            return QuotaDecision(False, NOTHING_GRANTED, "the pod is not booked")
        if complaint:
            return QuotaDecision(False, LIMITS_NOT_SET, f"the slice enforces limits: {complaint}")
        more = beyond(amounts, held.amounts)
        if not more:
            return ADMITTED
        grown = Demand(held.user, tuple(sorted({**dict(held.amounts), **more}.items())))
        self._book(held, -1)
        verdict = self._judge(grown)
        self._book(held, 1)
        if verdict.admitted:
            self.hold(key, grown)
        return verdict

    def book(self, key: Key, demand: Demand, complaint: str = "") -> QuotaDecision:
        """Book a pod that is to be made, or give the reason that it waits.

        An earlier booking under this key does not count against it.

        Args:
            key: the ShadowPod.
            demand: its requested amounts.
            complaint: why it lacks limits that its user's grant enforces; empty if it has them.
        """
        self._unplaced.pop(key, None)  # that was the pod before it
        held = self._booked.get(key)
        if held == demand:
            return ADMITTED
        if held is not None:
            self._book(held, -1)
            del self._booked[key]
        verdict = self._judge(demand)
        if verdict.admitted and complaint:
            verdict = QuotaDecision(
                False, LIMITS_NOT_SET, f"the slice enforces limits: {complaint}"
            )
        if verdict.admitted:
            self.hold(key, demand)
            return verdict
        self._stop_waiting(key)
        self._waiting_requests[key] = demand
        if not complaint:
            self._waiting.setdefault(demand, {})[key] = None
        return verdict

    def release(self, key: Key) -> bool:
        """Take a pod off the books; True if that leaves more for others."""
        self._stop_waiting(key)
        self._unplaced.pop(key, None)
        held = self._booked.pop(key, None)
        if held is None:
            return False
        self._book(held, -1)
        return True

    def mark_unplaced(self, key: Key, *, unplaced: bool) -> bool:
        """Note if no node has room for a booked pod; True if others may have room now for that."""
        held = self._booked.get(key)
        if held is None or not unplaced:
            self._unplaced.pop(key, None)
            return False
        known = key in self._unplaced
        self._unplaced[key] = self._share(held)
        self._freed = self._freed or not known
        return not known

    def displaced(self, key: Key) -> list[Key]:
        """The pods that have to give way to one that waits; none where that is not enough."""
        demand = self._waiting_requests.get(key)
        if demand is None or key not in self._waiting.get(demand, {}):
            return []
        if self._judge(demand, self._used, self._total).reason != OVER_QUOTA:
            return []
        return self._give_way(demand, self._largest_unplaced(), self._used, self._total)

    def holds(self, key: Key) -> bool:
        """True if the pod is booked."""
        return key in self._booked

    def booked_on(self, key: Key) -> str:
        """The user that a pod is booked on; empty where it is on none."""
        held = self._booked.get(key)
        return "" if held is None else held.user

    def waiting(self) -> Iterator[Key]:
        """All pods that wait."""
        return iter(tuple(self._waiting_requests))

    def within(self, namespace: str) -> list[Key]:
        """The pods of a namespace that are booked or wait."""
        return [key for key in (*self._booked, *self._waiting_requests) if key[0] == namespace]

    def ready(self) -> list[Key]:
        """The pods that wait and would be admitted now, as many as fit together; books nothing.

        A round over a great many demands takes several calls.
        """
        again = bool(self._tried)
        self._freed = self._freed and again
        self.unfinished = False
        offer = Offer(self._used, self._total, self._largest_unplaced())
        found: list[Key] = []
        for demand, keys in self._waiting.items():
            if demand in self._tried:
                continue
            if offer.judged == MOST_JUDGED:
                self.unfinished = True
                break
            offer.judged += 1
            found += self._offer(demand, keys, offer)
        if not self.unfinished:
            self._tried.clear()
            self.unfinished = again and self._freed  # the first ones may have room meanwhile
        return found

    def _offer(self, demand: Demand, keys: Collection[Key], offer: Offer) -> Iterator[Key]:
        """The pods of one demand that have room in an offer, as many as fit."""
        for key in keys:
            gone: list[Key] = []
            verdict = self._judge(demand, offer.used, offer.total)
            if not verdict.admitted:
                gone = self._try(demand, offer, over=verdict.reason == OVER_QUOTA)
                if not gone:
                    return
            yield key
            for each in gone:
                self._move(self._booked[each], offer.used, offer.total, -1)
            self._move(demand, offer.used, offer.total, 1)

    def _try(self, demand: Demand, offer: Offer, *, over: bool) -> list[Key]:
        """The pods that give way to one of an offer, while that may look for more of them.

        Args:
            over: whether it is over its quota: none gives way to one that is refused otherwise.
        """
        if over and offer.unplaced and not offer.is_hopeless(demand):
            if offer.tries == MOST_TRIES:
                self.unfinished = True
                return []
            offer.tries += 1
            gone = self._give_way(demand, offer.unplaced, offer.used, offer.total)
            offer.tried(demand, gone)
            if gone:
                return gone
        self._tried.add(demand)
        return []

    def usage(self) -> dict[str, dict[str, int]]:
        """The booked amounts, billionths by user and resource; the empty name for no user."""
        return {user: dict(sums) for user, sums in self._used.items()}

    def _judge(
        self,
        demand: Demand,
        used: Mapping[str, dict[str, int]] | None = None,
        total: Mapping[str, int] | None = None,
    ) -> QuotaDecision:
        used = self._used if used is None else used
        total = self._total if total is None else total
        if not self._grants:
            return QuotaDecision(
                False, NOTHING_GRANTED, "no resource slice was granted to the consumer"
            )
        if demand.user:
            verdict = self._judge_user(demand, used.get(demand.user, {}))
            if not verdict.admitted:
                return verdict
        elif any(grant.cordoned for grant in self._grants.values()):
            verdict = self._judge_open(demand, used, total)
            if not verdict.admitted:
                return verdict
        return fits(demand.amounts, self._granted, total, "the consumer")

    def _judge_open(
        self, demand: Demand, used: Mapping[str, dict[str, int]], total: Mapping[str, int]
    ) -> QuotaDecision:
        """The admission of a pod of no known user, by the grants that are not cordoned.

        The usage is all bookings but those on users whose slices are cordoned.
        """
        granted, taken = dict(self._granted), dict(total)
        for grant in self._grants.values():
            if grant.cordoned:
                add(granted, tuple(grant.amounts.items()), -1)
                add(taken, tuple(used.get(grant.user, {}).items()), -1)
        if all(grant.cordoned for grant in self._grants.values()):
            return QuotaDecision(False, CORDONED, "all slices of the consumer are cordoned")
        whose = "the consumer, without the slices that are cordoned,"
        return fits(demand.amounts, granted, taken, whose)

    def _judge_user(self, demand: Demand, used: Mapping[str, int]) -> QuotaDecision:
        grant = self._grants.get(demand.user)
        if grant is None:
            return QuotaDecision(
                False, UNKNOWN_USER, f"no resource slice was granted to the user {demand.user}"
            )
        if grant.cordoned:
            return QuotaDecision(False, CORDONED, f"the slice of {grant.user} is cordoned")
        return fits(demand.amounts, grant.amounts, used, f"the slice of {grant.user}")

    def _largest_unplaced(self) -> list[Key]:
        return nlargest(MOST_DISPLACED, self._unplaced, key=self._unplaced.__getitem__)

    def _give_way(
        self,
        demand: Demand,
        unplaced: Collection[Key],
        used: Mapping[str, dict[str, int]],
        total: Mapping[str, int],
    ) -> list[Key]:
        """The fewest of the unplaced pods, the largest first, without which a smaller one has room.

        Args:
            demand: of the smaller one, which is over its quota.
            unplaced: the others, by their size.
            used, total: the bookings to go by.
        """
        share = self._share(demand)
        larger = [key for key in unplaced if self._unplaced[key] > share]
        if not larger:
            return []
        mine = {user: dict(sums) for user, sums in used.items()}
        rest, gone = dict(total), list[Key]()
        for key in larger:
            self._move(self._booked[key], mine, rest, -1)
        if not self._judge(demand, mine, rest).admitted:
            return []
        for key in reversed(larger):  # as long as the larger ones are enough
            self._move(self._booked[key], mine, rest, 1)
            if not self._judge(demand, mine, rest).admitted:
                self._move(self._booked[key], mine, rest, -1)
                gone = larger[: larger.index(key) + 1]
                break
        for key in list(gone):  # one that has nothing of what is short stays
            self._move(self._booked[key], mine, rest, 1)
            if self._judge(demand, mine, rest).admitted:
                gone.remove(key)
            else:
                self._move(self._booked[key], mine, rest, -1)
        return gone

    def _share(self, demand: Demand) -> float:
        """The largest part of all that is granted of a resource which a pod requests."""
        bounds = self._granted
        return max((n / bounds[name] for name, n in demand.amounts if bounds.get(name)), default=0)

    @staticmethod
    def _move(
        demand: Demand, used: dict[str, dict[str, int]], total: dict[str, int], sign: int
    ) -> None:
        add(used.setdefault(demand.user, {}), demand.amounts, sign)
        add(total, demand.amounts, sign)

    def _book(self, demand: Demand, sign: int) -> None:
        self._freed = self._freed or sign < 0
        used = self._used.setdefault(demand.user, {})
        add(used, demand.amounts, sign)
        if not used:
            del self._used[demand.user]
        add(self._total, demand.amounts, sign)

    def _stop_waiting(self, key: Key) -> None:
        demand = self._waiting_requests.pop(key, None)
        if demand is None:
            return
        keys = self._waiting.get(demand, {})
        keys.pop(key, None)
        if not keys:
            self._waiting.pop(demand, None)

    def _sum_grants(self) -> None:
        self._freed = True
        self._granted = {}
        for grant in self._grants.values():
            add(self._granted, tuple(grant.amounts.items()), 1)
