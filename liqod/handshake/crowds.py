"""How many may be connected at once, and who has to go for one more. Pure but for the scopes."""

import ipaddress
from collections import Counter

import trio


class Crowd:
    """So many at once, and so many of one: for one more the oldest of whoever has most goes.

    So a crowd from one place keeps nobody out who comes from another.

    Args:
        most: in all.
        of_one: of one address, or one key.
    """

    def __init__(self, most: int, of_one: int) -> None:
        self._most, self._of_one = most, of_one
        self._members: dict[trio.CancelScope, str] = {}
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._members)

    def enter(self, who: str, scope: trio.CancelScope) -> None:
        """One more; whoever has to go is cancelled."""
        if self._counts[who] >= self._of_one:
            self._evict(who)
        elif len(self._members) >= self._most:
            self._evict(max(self._counts, key=self._counts.__getitem__))
        self._members[scope] = who
        self._counts[who] += 1

    def leave(self, scope: trio.CancelScope) -> None:
        """One has gone, if it was there."""
        who = self._members.pop(scope, None)
        if who is not None:
            self._counts[who] -= 1
            if not self._counts[who]:
                del self._counts[who]

    def _evict(self, who: str) -> None:
        oldest = next(scope for scope, whose in self._members.items() if whose == who)
        self.leave(oldest)
        oldest.cancel()


def network_of(place: str) -> str:
    """The network of a place (:func:`source_of`) in which one may have many."""
    try:
        found = ipaddress.ip_network(place)
    except ValueError:
        return place
    return str(found.supernet(new_prefix=24 if found.version == 4 else 48))


def source_of(address: str) -> str:
    """Whose an address is, as far as can be told: of IPv6, one has a network of 64 bits."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
