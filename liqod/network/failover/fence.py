"""Takes this machine's tunnels off the wire, also where no daemon lives any more to do it.

A tunnel's packets carry a mark. While there is company, only a mark that is in a set passes, and
the set's elements expire after some seconds: the kernel fences a gateway whose daemon is dead
before a standby takes its place. A gateway that is alone has no such table.
"""

from functools import partial
from hashlib import sha256
from math import inf
from typing import Final

from liqod.network.dataplane.kernel import namespaces, nft
from liqod.network.failover.election import KERNEL, RENEW

TABLES: Final = "inet liqod_fence_"
"""How the names of their tables of nftables begin."""
DEADLINE: Final = 10.0
"""Seconds for a run of ``nft``."""


class Fence:
    """The fence of one cluster's tunnels on one machine.

    Args:
        cluster_id: whose tunnels.
        node: name of the node's network namespace; None for this process's own.

    Attributes:
        mark: firewall mark of the tunnels' packets on the nodes' network; 1 to 255, clear of the
            bits that kube-proxy, Calico and Cilium use.
        table: of nftables.
    """

    def __init__(self, cluster_id: str, node: str | None = None) -> None:
        digest = sha256(cluster_id.encode()).digest()
        self.mark = 1 + digest[0] % 255
        self.table = f"{TABLES}{digest.hex()[:8]}"
        self._node = node
        self._exists = True
        """True while the table may exist: one of an earlier process may."""

    async def hold(self, seconds: float | None) -> None:
        """Let tunnels' packets pass for so long; None for no end, 0 for not at all. At once.

        Raises:
            NetworkError: the kernel refuses.
        """
        if seconds is None and not self._exists:
            return
        write = partial(nft.run, self.text(seconds), "a fence", deadline=DEADLINE)
        await namespaces.inside(self._node, write)
        self._exists = seconds is not None

    async def remove(self) -> list[str]:
        """Have none; what was removed.

        Raises:
            NetworkError: it does not go.
        """
        if self.table not in await namespaces.inside(self._node, nft.marks):
            return []
        await self.hold(None)
        return [f"table {self.table} deleted"]

    def text(self, seconds: float | None) -> str:
        """The input for ``nft``: one transaction, so that no packet sees half of it."""
        gone = f"table {self.table}\ndelete table {self.table}\n"
        if seconds is None:
            return gone
        held = f"elements = {{ {self.mark} timeout {round(seconds * 1000)}ms }}"
        # A timeout of 0 would be none at all.
        return (
            f"{gone}table {self.table} {{\n"
            f"set held {{ type mark; flags timeout; {held if seconds >= 0.001 else ''} }}\n"
            "counter fenced { }\n"
            "chain out { type filter hook output priority filter; policy accept\n"
            f"meta mark {self.mark} meta mark != @held counter name fenced drop\n"
            "}\n}\n"
        )


async def remove_fences() -> list[str]:
    """Have no fence of any cluster on this machine; what was removed.

    Raises:
        NetworkError: one does not go.
    """
    tables = [each for each in await namespaces.inside(None, nft.marks) if each.startswith(TABLES)]
    for table in tables:
        await namespaces.inside(None, partial(nft.delete, table))
    return [f"table {table} deleted" for table in tables]


LEFT: Final = KERNEL - RENEW
"""Seconds that the kernel has left at the least, where it may have them."""
WORTH: Final = 0.5
"""Seconds that a later deadline has to add to be written."""
JITTER: Final = 0.05
"""Seconds that make no difference."""
AGAIN: Final = 1.0
"""Seconds until another try, where the kernel refused."""


class FenceDeadline:
    """The deadline until which the kernel keeps this machine's tunnels open, as last written."""

    def __init__(self) -> None:
        self._until: float | None = None
        """None where nothing was written yet, ``inf`` for no end, the past for fenced."""
        self._again = -inf

    def confirm(self, held: float | None, at: float) -> None:
        """The kernel has it: ``held`` seconds from ``at`` on; None for no end, 0 for fenced."""
        self._until = inf if held is None else at + held

    def refused(self, at: float) -> None:
        """The kernel refused it; the deadline there is unknown."""
        self._until, self._again = None, at + AGAIN

    def is_due(self, held: float | None, at: float) -> bool:
        """True if a deadline ``held`` seconds from now is to be written.

        At once where it is earlier than the written one, or has no end; a later one shortly before
        the written one.
        """
        if self._until is None:
            return at >= self._again
        if held == 0.0:
            return at < self._until
        until = inf if held is None else at + held
        if until == self._until or abs(until - self._until) < JITTER:
            return False
        if until < self._until:
            return True
        return until == inf or (until - self._until >= WORTH and self._until - at <= LEFT)

    def is_shut(self, at: float) -> bool:
        """True if the kernel has confirmed that it lets nothing pass."""
        return self._until is not None and self._until <= at

    def due(self, at: float) -> float:
        """When to ask again, if nothing happens before; ``inf`` where nothing is to come."""
        due = self._again if self._until is None else self._until - LEFT
        return due if due > at else inf
