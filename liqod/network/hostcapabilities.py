"""Finds the capabilities of this machine for the networks of peers, when the daemon asks.

They come from the configuration of the program that runs the machine's side, from its kernel, and
from its surroundings as the daemon has them.
"""

import logging
import socket
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from liqod.errors import LiqodError
from liqod.model.network import rangechecks
from liqod.model.network.apiaddress import place_of
from liqod.network.backends import Backend, LoadedBackend, is_allowed, listening
from liqod.network.connectproxy import ConnectProxy, ProxyTimings
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import PeerNames
from liqod.network.gatewayhost import GatewayHost, PeerProxy
from liqod.network.machine.orderchecks import ReservedAddresses
from liqod.network.orders.tunnels import DISABLED, MachineFacts, Surroundings
from liqod.network.ownaddresses import own_addresses
from liqod.network.probing.conncheck import Prober
from liqod.network.probing.pathprobe import KernelPathProbe
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.plugins.providers import TunnelServices
from liqod.runtime.connectionlimit import ConnectionLimiter
from liqod.runtime.gather import gather
from liqod.runtime.log import Seldom

FOLDER: Final = "/run/liqod-network"
"""Where backends keep what must last until the machine starts anew."""
UNASKED: Final = "no daemon has asked for its capabilities yet"
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


class HostSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a machine for the networks of peers.

    Attributes:
        enabled: whether networks are joined at all.
        advertise: addresses at which peers reach it; empty means the one by which it is a node.
        backends: names of those that may be used; empty means those that encrypt.
        idle: seconds after which a connection by the proxy is closed.
    """

    enabled: bool = True
    advertise: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    idle: float = 3600.0


class HostCapabilities:
    """The capabilities of one machine.

    Args:
        cluster: this cluster's id.
        settings: the configuration.
        backends: those that were loaded, in the order of preference.
        places: of callers at the proxy.
        folder: where backends keep what must last until the machine starts anew.
        node: name of the node's network namespace; None for the one that this process is in.

    Attributes:
        process: reads what strangers send; None while networks cannot be joined here.
        lacks: the reason why they cannot be, as found last.
        reserved: the addresses of this machine's own API server, among others.
    """

    def __init__(
        self,
        cluster: str,
        settings: HostSettings,
        backends: Sequence[LoadedBackend],
        places: ConnectionLimiter,
        folder: str = FOLDER,
        node: str | None = None,
    ) -> None:
        self._cluster, self._settings, self._backends = cluster, settings, backends
        self._places, self._folder = places, folder
        self._kernel, self._node = KernelDatapath(cluster, node), node or ""
        self._seldom = Seldom()
        self._answers: dict[str, str | None] = {}
        """The last answer of each backend: its lack, or None for none."""
        self.reserved = ReservedAddresses()
        self.process: MachineProcess | None = None
        self.lacks = UNASKED

    async def look(self, around: Surroundings) -> GatewayHost:
        """This machine's capabilities as they are now.

        Args:
            around: the machine's surroundings, which can be so (:mod:`.machine.orderchecks`).
        """
        if not self._settings.enabled:
            self.lacks = DISABLED.problem
            return GatewayHost(facts=DISABLED)
        lacks = await self._kernel.problem()
        if lacks:
            self.process, self.lacks = None, lacks
            self._warn(f"the networks of peers cannot be joined: {lacks}")
            return lacking(lacks)
        return await self.equipped(around)

    async def equipped(self, around: Surroundings) -> GatewayHost:
        """The capabilities of a machine whose kernel can have data paths."""
        self.process = process = MachineProcess(self._kernel, Path(self._folder), self._node)
        tunnels, undecided, why = await self._usable()
        usable = [each.provider for each in self._backends if each.provider.name in tunnels]
        facts = MachineFacts(
            problem="" if tunnels else why,
            unknown=bool(undecided) and not tunnels,
            addresses=self._settings.advertise or own_addresses(around.address),
            backends={each.name: listening(each) for each in usable},
            stands_by=frozenset(each.name for each in usable if each.stands_by),
            undecided=undecided,
        )
        return GatewayHost(
            facts=facts,
            providers=tuple(each.provider for each in self._backends),
            tunnels=tunnels,
            datapath=self._kernel,
            prober=partial(Prober, process),
            path_probe=KernelPathProbe(self._kernel, process),
            watch=process.watch,
            proxy=self._proxy(around, process),
        )

    async def _usable(self) -> tuple[dict[str, Backend], dict[str, str], str]:
        """The backends that may be used and work here.

        Returns:
            Also why some could not be asked, of which the answer of before counts, and why the
            last one that is left out does not work.
        """
        services = TunnelServices(cluster_id=self._cluster, host=self._kernel, folder=self._folder)
        why = "there is no backend for tunnels"
        named = self._settings.backends
        allowed = [each for each in self._backends if is_allowed(each.provider, named)]
        builds = {each.provider.name: each.tunnels(services, self._node) for each in allowed}
        # Side by side: one that does not answer is waited for, and the others with it only once.
        answers = await gather(*(partial(lacks_of, build) for build in builds.values()))
        undecided = dict[str, str]()
        for name, (problem, answered) in zip(tuple(builds), answers, strict=True):
            if answered:
                self._answers[name] = problem
            else:
                undecided[name] = problem or ""
            if problem is not None:
                self._warn(why := f"tunnels by {name}: {problem}")
            if self._answers.get(name, problem) is not None:
                del builds[name]
        return builds, undecided, why

    def _proxy(self, around: Surroundings, process: MachineProcess) -> PeerProxy | None:
        if not (around.server and around.reached):
            return None

        async def reach() -> trio.SocketStream:
            return await to_server(around.reached, self.reserved.api_servers)

        known = (around.server, reach, process, self._kernel, self._places)
        return ConnectProxy(*known, ProxyTimings(idle=self._settings.idle)).run

    def _warn(self, problem: str) -> None:
        if self._seldom.allows(problem):
            log.warning("%s", problem)


def lacking(problem: str) -> GatewayHost:
    """The capabilities of a machine that can join no networks, for a reason."""
    return GatewayHost(facts=MachineFacts(problem=problem))


async def to_server(reached: str, own: Collection[str] = ()) -> trio.SocketStream:
    """A connection to this cluster's API server, at the URL by which this machine reaches it.

    That URL is the daemon's word, and peers are led there: to no service of this machine's own or
    of its cloud's, unless its own API server is there.

    Args:
        reached: the URL.
        own: addresses at which this machine reaches its API server by its own configuration.

    Raises:
        OSError: there is none.
    """
    host, port = place_of(reached)
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    refused = OSError(f"{host} has no address")
    for address in dict.fromkeys(str(each[4][0]) for each in found):
        if address not in own and (why := rangechecks.refuse_lent(address)):
            refused = OSError(why)
            continue
        try:
            made = await trio.open_tcp_stream(address, port)
        except OSError as error:
            refused = error
            continue
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEPT_ALIVE:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
        return made
    raise refused


async def lacks_of(build: Backend) -> tuple[str | None, bool]:
    """Why a backend cannot be used on this machine, None where it can; and whether it says so."""
    try:
        return await build(NOBODY).problem(), True
    except LiqodError as error:
        return str(error), False
