"""Capabilities of this machine for the networks of peers; the same for all of them.

The data path, the probes and the tunnels' backends are handed on from here, so that a peer's
network can be run with others in their place.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from math import inf
from typing import NoReturn, Protocol

import msgspec

from liqod.errors import LiqodError
from liqod.model.network.ranges import ClusterCidrs
from liqod.network.dataplane.names import Names, Side
from liqod.network.dataplane.peerplan import PeerPlan
from liqod.network.dataplane.values import KernelChange
from liqod.network.failover.role import Role
from liqod.network.gateway.gatewayplan import Listening
from liqod.network.overlay.ways import NodeReachability
from liqod.plugins.providers import Tunnel, TunnelProvider


class Datapath(Protocol):
    """The kernel's part of peers' networks. Every call may come again, and after a crash."""

    async def begin(self, names: Names) -> None:
        """Have a peer's network namespace, in which its tunnel is to be.

        Raises:
            NetworkError: it cannot be had.
        """
        ...

    async def apply(self, plan: PeerPlan) -> list[KernelChange]:
        """Have a peer's links, routes, rules and filters be as planned; what was changed.

        Raises:
            NetworkError: the kernel refuses.
        """
        ...

    async def wait_disturbed(self, names: Names) -> None:
        """Wait until somebody else changed something of a peer's, which then is to be applied."""
        ...

    async def remove(self, names: Names) -> list[str]:
        """Have nothing of a peer's on this machine any more; what was removed.

        Raises:
            NetworkError: something does not go.
        """
        ...


class PeerHello(msgspec.Struct, frozen=True):
    """The facts that one side's gateway reports to the other's.

    Attributes:
        pod_address: an address among its pods at which it answers echoes; empty where it has none.
        seen_as: the aliases under which it sees the other side's ranges, in the order of
            :class:`liqod.model.network.ranges.ClusterCidrs`: pods' first.
        own: its cluster's own ranges; none where it has not said so.
        websocket: whether it takes the tunnel in a websocket, too; None where it has not said so.
    """

    pod_address: str = ""
    seen_as: tuple[str, ...] = ()
    own: ClusterCidrs = ClusterCidrs()
    websocket: bool | None = None


class ProbeResult(msgspec.Struct, frozen=True):
    """The findings of probes through a tunnel.

    Attributes:
        alive: whether the other side answers.
        latency: seconds of a round trip, smoothed; None where none was answered.
        lost: part of the last probes that was not answered.
        why: why it is not alive, a sentence.
        asked: when the other side's own probes were last here, by Trio's clock; ``-inf`` for never.
        told: what the other side says of itself; nothing where it runs Liqo.
    """

    alive: bool
    latency: float | None = None
    lost: float = 0.0
    why: str = ""
    asked: float = -inf
    told: PeerHello = PeerHello()


class Probes(Protocol):
    """Asks the other side through the tunnel whether it is there, and answers when asked."""

    async def __call__(
        self,
        names: Names,
        side: Side,
        heard: Callable[[ProbeResult], None],
        tells: Callable[[], PeerHello],
        /,
    ) -> NoReturn:
        """Probe until cancelled; ``heard`` is called when something notable has changed.

        ``tells`` gives the facts to report to the other side.
        """
        ...


class PathProbe(Protocol):
    """Measures an existing network, by packets of its own and by the kernel's counters."""

    async def largest(self, names: Names, side: Side, mtu: int, slow: float) -> int | None:
        """Bytes of the largest packet that passes a tunnel; None where none comes back.

        Args:
            names: of the peer.
            side: of this cluster.
            mtu: of the tunnel; nothing larger is tried.
            slow: seconds that answers are known to take, for which is waited besides.

        Raises:
            NetworkError, OSError: it cannot be tried here.
        """
        ...

    async def passes(self, names: Names, side: Side, size: int, slow: float) -> bool:
        """True if a packet of a size passes a tunnel. Raises as :meth:`largest`."""
        ...

    async def answering(self, pods: Sequence[str]) -> str:
        """This node's own address among its pods' ranges; empty where it has none.

        Raises:
            NetworkError: the kernel cannot be asked.
        """
        ...

    async def trip(self, source: str, target: str, slow: float) -> float | None:
        """Seconds until an echo from an address of this node is back; None where none came.

        ``slow`` is as that of :meth:`largest`.

        Raises:
            NetworkError, OSError: it cannot be tried here; EADDRNOTAVAIL where the address is gone.
        """
        ...

    async def way_to(self, endpoint: str) -> str:
        """Why packets to the other gateway do not leave this machine; empty where they do.

        Raises:
            NetworkError: it cannot be tried here.
        """
        ...

    async def arriving(self, endpoint: str, port: int, seconds: float) -> int:
        """Datagrams of the other gateway's that reach this machine within some time, good or not.

        Args:
            endpoint: where the other gateway is; empty where that is not known.
            port: UDP port of this side; 0 where it is any.
            seconds: for how long it is listened.

        Raises:
            NetworkError, OSError: nobody may listen here.
        """
        ...

    async def guards(self) -> list[str]:
        """Chains of this machine's own that drop what passes through it, unless a rule lets it.

        Raises:
            NetworkError: the kernel cannot be asked.
        """
        ...

    async def dropped(self, names: Names) -> dict[str, int]:
        """Dropped packets of a peer, by :data:`liqod.network.dataplane.nftables.COUNTERS`.

        Raises:
            NetworkError: the kernel cannot be asked.
        """
        ...


class Proxy(Protocol):
    """Leads peers to whom it was granted to this cluster's API server."""

    async def __call__(self, names: Names, healed: Callable[[], Awaitable[None]], /) -> NoReturn:
        """Serve one peer until cancelled; ``healed`` waits until its links may be others."""
        ...


class GatewayHost(msgspec.Struct, frozen=True, kw_only=True):
    """This machine.

    Attributes:
        problem: what it lacks, by name, a clause; empty where networks can be joined.
        addresses: where peers reach it, the preferred one first.
        providers: the backends that were loaded.
        tunnels: of each backend that may be used and works here, how one of its tunnels is had.
        listening: how the servers of a backend listen, where it is not the usual.
        stands_by: those of the backends whose tunnels can be quiet.
        datapath, probes, proxy: what does the work.
        gauge: what measures it; None where nothing does.
        role: whether it is the gateway.
        ways: how the other nodes reach it.
    """

    problem: str = ""
    addresses: tuple[str, ...] = ()
    providers: tuple[TunnelProvider, ...] = ()
    tunnels: Mapping[str, Callable[[Names], Tunnel]] = {}
    listening: Mapping[str, Listening] = {}
    stands_by: Collection[str] = ()
    datapath: Datapath | None = None
    probes: Probes | None = None
    gauge: PathProbe | None = None
    proxy: Proxy | None = None
    role: Role = msgspec.field(default_factory=Role)
    ways: NodeReachability = msgspec.field(default_factory=NodeReachability)


NOWHERE = GatewayHost(problem="this daemon joins no networks")
"""Of a daemon that was not asked to."""


async def take_down(machine: GatewayHost, names: Names) -> None:
    """Have nothing of a peer's on this machine, by its names alone.

    Raises:
        LiqodError: something does not go; what did is gone.
    """
    failed: list[LiqodError] = []
    for build in machine.tunnels.values():
        try:
            await build(names).down()
        except LiqodError as error:  # nobody's tunnel is in the way of what else is to go
            failed.append(error)
    if machine.datapath is not None:
        await machine.datapath.remove(names)
    if failed:
        raise failed[0]
