"""Takes this machine's tunnels off the wire, also where no daemon lives any more to do it.

A tunnel's packets carry a mark. While there is company, only a mark that is in a set passes, and
the set's elements expire after some seconds: the kernel fences a gateway whose daemon is dead
before a standby takes its place. A gateway that is alone has no such table.
"""

from functools import partial
from hashlib import sha256
from typing import Final

from liqod.network.dataplane.kernel import namespaces, nft

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
        self.table = f"inet liqod_fence_{digest.hex()[:8]}"
        self._node = node
        self._stands = True
        """True while the table may exist: one of an earlier process may."""

    async def hold(self, seconds: float | None) -> None:
        """Let tunnels' packets pass for so long; None for no end, 0 for not at all. At once.

        Raises:
            NetworkError: the kernel refuses.
        """
        if seconds is None and not self._stands:
            return
        write = partial(nft.run, self.text(seconds), "a fence", deadline=DEADLINE)
        await namespaces.inside(self._node, write)
        self._stands = seconds is not None

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
