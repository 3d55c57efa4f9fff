"""Ranges and addresses that are given away: which are taken, and the first that is free. Pure.

Nothing of this is kept: what was given is in the status of ``Network`` and ``IP`` resources,
and a new daemon takes it all from there before it gives anything. So what is free again is what no
resource names.
"""

import ipaddress
from bisect import insort
from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

from liqod.errors import ConfigError
from liqod.model.crossing.addresses import IPNetwork, overlap, within

O = TypeVar("O", bound=Hashable)  # noqa: E741  # an owner

POOLS: Final = (
    "10.64.0.0/10",
    "10.128.0.0/9",
    "172.16.0.0/12",
    "10.0.0.0/10",
    "192.168.0.0/16",
    "fd18:6c71:8000::/33",
)
"""The ranges aliases are taken from by default, in this order: the rare ones come first."""


class Prefixes(Generic[O]):
    """Ranges that do not overlap, each with its owner.

    Args:
        pools: where free ones are looked for, in this order.
    """

    def __init__(self, pools: Iterable[str] = POOLS) -> None:
        self._pools = tuple(ipaddress.ip_network(pool) for pool in pools)
        self._taken: dict[O, tuple[IPNetwork, ...]] = {}

    def take(self, owner: O, *prefixes: str) -> None:
        """These are the owner's, and no others; whether they overlap another's is not checked."""
        if prefixes:
            self._taken[owner] = tuple(ipaddress.ip_network(prefix) for prefix in prefixes)
        else:
            self._taken.pop(owner, None)

    def conflict(self, prefix: str, owner: O | None = None) -> tuple[O, str] | None:
        """Another owner with a range of its that overlaps a range; None for none."""
        wanted = ipaddress.ip_network(prefix)
        for other, prefixes in self._taken.items():
            if other == owner:
                continue
            for taken in prefixes:
                if overlap(wanted, taken):
                    return other, str(taken)
        return None

    def pooled(self, prefix: str) -> bool:
        """True if a range lies in one of the pools."""
        wanted = ipaddress.ip_network(prefix)
        return any(within(wanted, pool) for pool in self._pools)

    def allocate(self, owner: O, wanted: str) -> str:
        """Give an owner a range in place of its former one.

        It is the one that it wants where that is free and in a pool, else the first as large.

        Raises:
            ConfigError: nothing that large is free.
        """
        if self.pooled(wanted) and self.conflict(wanted, owner) is None:
            found = ipaddress.ip_network(wanted)
        else:
            found = self._first(owner, ipaddress.ip_network(wanted))
        self._taken[owner] = (found,)
        return str(found)

    def _first(self, owner: O, wanted: IPNetwork) -> IPNetwork:
        taken: list[tuple[int, int]] = []
        for other, prefixes in self._taken.items():
            for each in prefixes:
                if other != owner and each.version == wanted.version:
                    insort(taken, _ends(each))
        size = wanted.num_addresses
        for pool in self._pools:
            if pool.version != wanted.version or pool.prefixlen > wanted.prefixlen:
                continue
            at, last = _ends(pool)
            for first, end in taken:
                if first > at + size - 1:
                    break
                if end >= at:
                    # The next multiple of the size behind the range that is taken.
                    at = (end // size + 1) * size
            if at + size - 1 <= last:
                return type(wanted)((at, wanted.prefixlen))
        named = ", ".join(str(pool) for pool in self._pools if pool.version == wanted.version)
        raise ConfigError(
            f"no range as large as {wanted} is free in {named or 'any pool of its family'}:"
            " name more in [network] pools"
        )


class Addresses(Generic[O]):
    """Single addresses of one range, each with its owner.

    Args:
        prefix: the range.
        reserved: addresses at its start that are never given.
    """

    def __init__(self, prefix: str, reserved: int = 0) -> None:
        self.prefix = prefix
        self._network = ipaddress.ip_network(prefix)
        self._reserved = reserved
        self._owners: dict[int, O] = {}
        self._taken: dict[O, int] = {}
        # No address below it is free.
        self._low = reserved

    def take(self, owner: O, address: str) -> O | None:
        """Give the owner this address, and no other; or return the one that has it already.

        Raises:
            ValueError: it is no address of the range that may be given.
        """
        place = int(ipaddress.ip_address(address)) - int(self._network.network_address)
        same = ipaddress.ip_address(address) in self._network
        if not same or place < self._reserved:
            raise ValueError(f"{address} is none that {self.prefix} has to give")
        other = self._owners.get(place)
        if other is not None and other != owner:
            return other
        self.free(owner)
        self._owners[place] = owner
        self._taken[owner] = place
        return None

    def free(self, owner: O) -> None:
        """The owner has none any more."""
        place = self._taken.pop(owner, None)
        if place is not None:
            del self._owners[place]
            self._low = min(self._low, place)

    def allocate(self, owner: O) -> str:
        """The owner's address; the first that is free if it has none.

        Raises:
            ConfigError: none is free.
        """
        place = self._taken.get(owner)
        if place is None:
            while self._low in self._owners:
                self._low += 1
            # The last one of IPv4 is a broadcast to hosts with the range on an interface.
            if self._low >= self._network.num_addresses - (self._network.version == 4):
                raise ConfigError(f"no address of {self.prefix} is free")
            place = self._low
            self._owners[place] = owner
            self._taken[owner] = place
        return str(self._network[place])


def _ends(prefix: IPNetwork) -> tuple[int, int]:
    first = int(prefix.network_address)
    return first, first + prefix.num_addresses - 1
