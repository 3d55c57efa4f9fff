"""Measures a peer's network in this machine's kernel: by echoes, and by what it has counted."""

import ipaddress
import socket
import struct
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Literal

from liqod.netlink import NETFILTER, Netlink
from liqod.network.dataplane import transitrules
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.kernel import kernellinks, legacytables, ruleset
from liqod.network.dataplane.names import (
    INSIDE_TABLE,
    TUNNEL_ADDRESSES,
    VETH_PREFIX,
    PeerNames,
    Side,
)
from liqod.network.dataplane.nftables import COUNTERS
from liqod.network.probing import packettap
from liqod.network.probing.icmp import PATIENCE, Echoes, largest_packet, other_end
from liqod.plugins.network import rtnetlink
from liqod.plugins.network.machineprocess import MachineProcess

Unit = Literal["packets", "bytes"]
"""Units in which the kernel counts."""
TRIP_SIZE: Final = 64
"""Bytes of a packet that goes from pod to pod and back."""
TRIP_TRIES: Final = 5
"""Losses after which no answer is expected: of ten thousand rounds on a path that loses a
tenth of all packets each way, two."""
TRIP_PATIENCE: Final = 0.5
"""Seconds for each."""
SLACK: Final = 2.0
"""Times that answers are known to take, for which is waited besides: a queue on a narrow way fills
and empties, and a full packet needs longer than a probe."""


class KernelPathProbe:
    """Measures an existing network, by packets of its own and by the kernel's counters.

    Args:
        kernel: of this machine, or of a namespace in its place.
        process: the tunnels' process.
    """

    def __init__(self, kernel: KernelDatapath, process: MachineProcess) -> None:
        self._kernel, self._process = kernel, process

    async def largest(self, names: PeerNames, side: Side, mtu: int, slow: float) -> int | None:
        """Bytes of the largest packet that passes a tunnel; None where none comes back.

        Less than the MTU is believed only where a packet of that size is lost once more.

        Args:
            names: of the peer.
            side: of this cluster.
            mtu: of the tunnel; nothing larger is tried.
            slow: seconds that answers are known to take, for which is waited besides.

        Raises:
            NetworkError, OSError: it cannot be tried here.
        """
        patience = PATIENCE + SLACK * slow
        found = await largest_packet(self._process, names, side, mtu, patience=patience)
        if found is not None and found < mtu and await self.passes(names, side, mtu, slow):
            return mtu
        return found

    async def passes(self, names: PeerNames, side: Side, size: int, slow: float) -> bool:
        """True if a packet of a size passes a tunnel. Raises as :meth:`largest`."""
        asking = Echoes(self._process, names.namespace, TUNNEL_ADDRESSES[side])
        return await asking.passes(other_end(side), size, PATIENCE + SLACK * slow)

    async def answering(self, pods: Sequence[str]) -> str:
        """This node's own address among its pods' ranges; empty where it has none.

        It is the bridge's, mostly: CNIs give a node one of its own pods' range.

        Raises:
            NetworkError: the kernel cannot be asked.
        """
        ranges = [ipaddress.ip_network(each) for each in pods]

        def look() -> str:
            with Netlink() as netlink:
                for link in rtnetlink.every(netlink):
                    if link.name.startswith(VETH_PREFIX):
                        continue
                    for entry in sorted(kernellinks.addresses(netlink, link)):
                        address = ipaddress.ip_interface(entry.prefix).ip
                        if any(address in each for each in ranges):
                            return str(address)
            return ""

        return await self._kernel.within("", look)

    async def trip(self, source: str, target: str, slow: float) -> float | None:
        """Seconds until an echo from an address of this node is back; None where none came.

        ``slow`` is as that of :meth:`largest`.

        Raises:
            NetworkError, OSError: it cannot be tried here; EADDRNOTAVAIL where the address is gone.
        """
        asking, patience = (
            Echoes(self._process, self._kernel.node, source),
            TRIP_PATIENCE + SLACK * slow,
        )
        return await asking.ping(target, TRIP_SIZE, patience, TRIP_TRIES)

    async def way_to(self, endpoint: str) -> str:
        """The kernel's error for the route to the other gateway, empty for none; nothing is sent.

        Raises:
            NetworkError: it cannot be tried here.
        """
        host, _, port = endpoint.rpartition(":")
        family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET

        def look() -> str:
            with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as made:
                try:
                    made.connect((host.strip("[]"), int(port)))
                except OSError as error:
                    return error.strerror or str(error)
            return ""

        return await self._kernel.within("", look)

    async def arriving(self, endpoint: str, port: int, seconds: float) -> int:
        """Datagrams of the other gateway's that reach this machine within some time, good or not.

        Args:
            endpoint: address of the other gateway; empty for unknown.
            port: UDP port of this side; 0 where it is any.
            seconds: for how long it is listened.

        Returns: their number; 0 where they cannot be counted.

        Raises:
            NetworkError, OSError: nobody may listen here.
        """
        if not packettap.is_ipv4(endpoint) or not (endpoint or port):
            return 0
        made = await self._kernel.within("", partial(packettap.listening, endpoint, port))
        return await packettap.count(made, endpoint, port, seconds)

    async def guards(self) -> list[str]:
        """Chains of this machine's own that drop passing packets, unless a rule accepts them.

        Raises:
            NetworkError: the kernel cannot be asked.
        """

        def look() -> list[str]:
            with Netlink(NETFILTER) as netlink:
                found = ruleset.forward_drops(netlink)
            # Those of another kernel than is known are passed over.
            with suppress(OSError, struct.error):
                found += legacytables.forward_drops()
            return found

        return await self._kernel.within("", look)

    async def dropped(self, names: PeerNames) -> dict[str, int]:
        """Packets that both of a peer's tables have dropped, by :data:`COUNTERS`.

        Raises:
            NetworkError: the kernel cannot be asked.
        """
        inside = await self._kernel.within(
            names.namespace, partial(_counters, INSIDE_TABLE, COUNTERS)
        )
        outside = await self._kernel.within("", partial(_counters, names.nftables, ("strangers",)))
        return dict(Counter(inside) + Counter(outside))

    async def passed(self, names: PeerNames, owners: Sequence[str]) -> dict[tuple[str, Unit], int]:
        """Packets and bytes to and from other peers' endpoints, by these peers' ids.

        Raises:
            NetworkError: the kernel cannot be asked.
        """

        def look() -> dict[tuple[str, Unit], int]:
            with Netlink(NETFILTER) as netlink:
                found = {
                    owner: ruleset.counter(netlink, INSIDE_TABLE, transitrules.name(owner))
                    for owner in owners
                }
            units: tuple[Unit, Unit] = ("packets", "bytes")
            return {
                (owner, unit): number
                for owner, numbers in found.items()
                for unit, number in zip(units, numbers, strict=True)
            }

        return await self._kernel.within(names.namespace, look)


def _counters(table: str, wanted: Sequence[str]) -> dict[str, int]:
    with Netlink(NETFILTER) as netlink:
        return {name: ruleset.counter(netlink, table, name)[0] for name in wanted}
