"""Finds the capabilities of this machine for the networks of peers, when the daemon asks."""

import logging
import socket
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from liqod.cluster.context import ClusterContext
from liqod.errors import LiqodError
from liqod.model.crossing.addresses import parse
from liqod.network.backends import Backend, backend
from liqod.network.connectproxy import ConnectProxy, ProxyTimings, place_of
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import PeerNames
from liqod.network.gatewayhost import GatewayHost
from liqod.network.orders.tunnels import Listening, MachineFacts
from liqod.network.probing.conncheck import Prober
from liqod.network.probing.pathprobe import KernelPathProbe
from liqod.plugins.host import PluginHost
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.plugins.providers import TunnelProvider, TunnelServices
from liqod.runtime.account import PROXY, Account
from liqod.runtime.gather import gather

FOLDER: Final = "/run/liqod-network"
"""Where backends keep what must last until the machine starts anew."""
NOBODY: Final = PeerNames("liqod", "nobody")
"""Interface names by which a backend's requirements are checked; nothing is made."""
KEPT_ALIVE: Final = (
    (socket.TCP_KEEPIDLE, 15),
    (socket.TCP_KEEPINTVL, 5),
    (socket.TCP_KEEPCNT, 3),
)
"""Seconds of silence before a connection to the API server is probed, between probes, and their
number."""

log = logging.getLogger(__name__)


async def look(
    context: ClusterContext, plugins: PluginHost, callers: Account, kernel: KernelDatapath
) -> GatewayHost:
    """This machine's capabilities as they are now.

    Args:
        kernel: its kernel; the same each time.
    """
    if not context.config.network.enabled:
        return lacking("the configuration says so ([network] enabled)")
    lacks = await kernel.problem()
    if lacks is not None:
        log.warning("the networks of peers cannot be joined: %s", lacks)
        return lacking(lacks)
    return await equipped(context, plugins, callers, kernel)


def lacking(problem: str) -> GatewayHost:
    """The capabilities of a machine that can join no networks, for a reason."""
    return GatewayHost(facts=MachineFacts(problem=problem))


async def equipped(
    context: ClusterContext,
    plugins: PluginHost,
    callers: Account,
    kernel: KernelDatapath,
    folder: str = FOLDER,
) -> GatewayHost:
    """The capabilities of a machine whose kernel can have data paths.

    Args:
        kernel: its kernel.
        folder: where backends keep what must last until the machine starts anew.
    """
    settings = context.config.network
    process = MachineProcess(kernel, Path(folder))
    services = TunnelServices(cluster_id=context.cluster_id, host=kernel, folder=folder)
    tunnels: dict[str, Backend] = {}
    quiet: set[str] = set()
    listening: dict[str, Listening] = {}
    why = "there is no backend for tunnels"
    found = sorted(plugins.loaded.network, key=lambda each: each.order)
    allowed = [each for each in found if is_allowed(each, settings.backends)]
    builds = [how(plugins, provider, services) for provider in allowed]
    # Side by side: one that does not answer is waited for, and the others with it only once.
    lacking = await gather(*(partial(lacks_of, build) for build in builds))
    for provider, build, problem in zip(allowed, builds, lacking, strict=True):
        if problem is None:
            tunnels[provider.name] = build
            if provider.stands_by:
                quiet.add(provider.name)
            listening[provider.name] = Listening(
                transport=provider.transport,
                port=provider.port,
                shared=provider.shared_port,
                carried=provider.carried,
            )
        else:
            why = f"tunnels by {provider.name}: {problem}"
            log.warning("%s", why)
    facts = MachineFacts(
        problem="" if tunnels else why,
        addresses=settings.advertise or own_addresses(context.node_address),
        backends=listening,
        stands_by=frozenset(quiet),
        folder=folder if tunnels else "",
    )
    return GatewayHost(
        facts=facts,
        providers=plugins.loaded.network,
        tunnels=tunnels,
        datapath=kernel,
        prober=partial(Prober, process),
        gauge=KernelPathProbe(kernel, process),
        proxy=ConnectProxy(
            *(context.endpoint.server, partial(to_server, context), process, kernel),
            places=callers[PROXY],
            timings=ProxyTimings(idle=context.config.handshake.stream_idle),
        ),
    )


async def to_server(context: ClusterContext) -> trio.SocketStream:
    """A connection to this cluster's API server, on the path that the daemon itself takes.

    Raises:
        OSError: there is none.
    """
    made = await trio.open_tcp_stream(*place_of(context.client.server))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEPT_ALIVE:
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def is_allowed(provider: TunnelProvider, named: tuple[str, ...]) -> bool:
    """True if a backend may be used: those that are named, or else those that need no naming."""
    if named:
        return provider.name in named
    return provider.encrypted and not provider.on_request


def how(plugins: PluginHost, provider: TunnelProvider, services: TunnelServices) -> Backend:
    """How a tunnel of a backend is had, for the names of a peer."""
    settings = plugins.settings("network", provider.name)
    if settings is None:
        settings = msgspec.convert({}, provider.config_type)
    return backend(provider, settings, services, plugins.gauge("network", provider.name))


async def lacks_of(build: Backend) -> str | None:
    """Why a backend cannot be used on this machine; None where it can."""
    try:
        return await build(NOBODY).problem()
    except LiqodError as error:
        return str(error)


def own_addresses(node: str) -> tuple[str, ...]:
    """Where peers reach this machine, unless configured: its address as a node."""
    parsed = parse(node)
    if parsed is None or parsed.is_loopback or parsed.is_unspecified or parsed.is_link_local:
        return ()
    return (node,)
