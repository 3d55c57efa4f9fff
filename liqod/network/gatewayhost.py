"""Capabilities of this machine for the networks of peers; the same for all of them.

The data path, the probes and the tunnels' backends are handed on from here, so that a peer's
network can be run with others in their place.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import NoReturn, Protocol

import msgspec

from liqod.errors import LiqodError, PluginParked
from liqod.network.backends import Backend
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import PeerNames, Side
from liqod.network.orders.tunnels import MachineFacts, Surroundings
from liqod.network.probing.pathprobe import KernelPathProbe
from liqod.network.timings import ORDINARY, NetworkTimings
from liqod.plugins.providers import TunnelProvider
from liqod.tunnel.probes.messages import PeerHello, ProbeResult

PeerProxy = Callable[[PeerNames, Callable[[], Awaitable[None]]], Awaitable[NoReturn]]
"""Leads a peer to this cluster's API server, as :meth:`.connectproxy.ConnectProxy.run`."""


class PeerProbes(Protocol):
    """Probes of one tunnel, as :class:`liqod.network.probing.conncheck.Prober`."""

    async def run(self) -> NoReturn:
        """Probe until cancelled."""
        ...

    async def stand_by(self) -> NoReturn:
        """Be ready to, until cancelled."""
        ...


ProbesOf = Callable[
    [PeerNames, Side, Callable[[ProbeResult], None], Callable[[], PeerHello]], PeerProbes
]
"""Gives the probes of a peer's tunnel, as :class:`liqod.network.probing.conncheck.Prober`."""


class GatewayHost(msgspec.Struct, frozen=True, kw_only=True):
    """This machine.

    Attributes:
        facts: as the daemon gets them.
        providers: the backends that were loaded.
        tunnels: of each backend that may be used and works here, how one of its tunnels is had.
        datapath: the kernel's part of peers' networks.
        prober: probes the other side of a tunnel, and answers its probes.
        path_probe: measures the networks; None where nothing does.
        watch: ends what the machine's programs have of peers' networks and that hangs, until
            cancelled; None where there is nothing.
        proxy: leads peers to whom it was granted to this cluster's API server.
        timings: how often networks are measured.
    """

    facts: MachineFacts = MachineFacts()
    providers: tuple[TunnelProvider, ...] = ()
    tunnels: Mapping[str, Backend] = {}
    datapath: KernelDatapath | None = None
    prober: ProbesOf | None = None
    path_probe: KernelPathProbe | None = None
    watch: Callable[[], Awaitable[NoReturn]] | None = None
    proxy: PeerProxy | None = None
    timings: NetworkTimings = ORDINARY


Look = Callable[[Surroundings], Awaitable[GatewayHost]]
"""Finds the present capabilities of this machine."""


async def take_down(machine: GatewayHost, names: PeerNames) -> None:
    """Have nothing of a peer's on this machine, by its names alone.

    A backend that is parked is passed over where the record of the peer's namespace shows that no
    tunnel is its own. Where one is, or may be, an empty namespace keeps that record until it ends.

    Raises:
        LiqodError: something does not go; what did is gone.
    """
    datapath = machine.datapath
    makers = await datapath.makers(names) if datapath is not None else None
    failed: list[LiqodError] = []
    parked: list[str] = []
    for backend, build in machine.tunnels.items():
        try:
            await build(names).down()
        except PluginParked as error:
            if makers is None or backend in makers:
                failed.append(error)
                parked.append(backend)
        except LiqodError as error:  # no tunnel prevents the removal of the rest
            failed.append(error)
    if datapath is not None:
        await datapath.remove(names)
        for backend in parked:
            await datapath.prepare(names, backend)
    if failed:
        raise failed[0]
