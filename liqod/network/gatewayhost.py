"""Capabilities of this machine for the networks of peers; the same for all of them.

The data path, the probes and the tunnels' backends are handed on from here, so that a peer's
network can be run with others in their place.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from liqod.errors import LiqodError
from liqod.network.backends import Backend
from liqod.network.connectproxy import ConnectProxy
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import PeerNames
from liqod.network.failover.role import Role
from liqod.network.gateway.gatewayplan import Listening
from liqod.network.overlay.ways import NodeReachability
from liqod.network.probing.conncheck import Prober
from liqod.network.probing.pathprobe import KernelPathProbe
from liqod.network.timings import ORDINARY, NetworkTimings
from liqod.plugins.providers import TunnelProvider


class GatewayHost(msgspec.Struct, frozen=True, kw_only=True):
    """This machine.

    Attributes:
        problem: what it lacks, by name, a clause; empty where networks can be joined.
        addresses: where peers reach it, the preferred one first.
        providers: the backends that were loaded.
        tunnels: of each backend that may be used and works here, how one of its tunnels is had.
        listening: how the servers of a backend listen, where it is not the usual.
        stands_by: the backends whose tunnels can be quiet on a standby.
        datapath: the kernel's part of peers' networks.
        prober: probes the other side of a tunnel, and answers its probes.
        gauge: measures the networks; None where nothing does.
        proxy: leads peers to whom it was granted to this cluster's API server.
        role: whether it is the gateway.
        node_reachability: how the other nodes reach it.
        folder: where its programs find each other; None where no networks can be joined.
        timings: how often networks are measured, and how soon an unknown one is removed.
    """

    problem: str = ""
    addresses: tuple[str, ...] = ()
    providers: tuple[TunnelProvider, ...] = ()
    tunnels: Mapping[str, Backend] = {}
    listening: Mapping[str, Listening] = {}
    stands_by: Collection[str] = ()
    datapath: KernelDatapath | None = None
    prober: type[Prober] | None = None
    gauge: KernelPathProbe | None = None
    proxy: ConnectProxy | None = None
    role: Role = msgspec.field(default_factory=Role)
    node_reachability: NodeReachability = msgspec.field(default_factory=NodeReachability)
    folder: Path | None = None
    timings: NetworkTimings = ORDINARY


NOWHERE = GatewayHost(problem="this daemon joins no networks")
"""The host of a daemon that is not configured as a gateway."""


async def take_down(machine: GatewayHost, names: PeerNames) -> None:
    """Have nothing of a peer's on this machine, by its names alone.

    Raises:
        LiqodError: something does not go; what did is gone.
    """
    failed: list[LiqodError] = []
    for build in machine.tunnels.values():
        try:
            await build(names).down()
        except LiqodError as error:  # no tunnel prevents the removal of the rest
            failed.append(error)
    if machine.datapath is not None:
        await machine.datapath.remove(names)
    if failed:
        raise failed[0]
