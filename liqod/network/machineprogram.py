"""The machine's side of joined networks as a part of the program `liqod node`, at its socket.

Backends, their settings, the addresses of this machine and all limits come from the configuration
of that program. Of third parties' backends those alone are loaded that ``[network] backends``
names.
"""

import logging
import os
import pwd
from functools import partial
from pathlib import Path
from typing import NoReturn

import trio

from liqod.config import Config
from liqod.configsections import NetworkSettings
from liqod.errors import ConfigError, LiqodError
from liqod.network.cleaning import end_tunnels
from liqod.network.dataplane.kernel import capabilities
from liqod.network.gatewayhost import GatewayHost, Look
from liqod.network.hostcapabilities import (
    UNASKED,
    HostCapabilities,
    HostSettings,
    lacking,
)
from liqod.network.loadedbackends import load_backends, loaded_backends
from liqod.network.machine import callrelay
from liqod.network.machine.machineside import MachineSide
from liqod.network.machine.machinesocket import DaemonAccount, MachineSocket, deny
from liqod.network.machine.orderchecks import ReservedAddresses
from liqod.network.machinesocketdial import calls_socket
from liqod.network.orders.greeting import SOCKET
from liqod.network.orders.tunnels import BackendTrouble, Surroundings
from liqod.plugins import loader
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins
from liqod.runtime.account import PROXY, Account
from liqod.runtime.backoff import Backoff
from liqod.runtime.log import Seldom
from liqod.runtime.supervise import explain
from liqod.sharedport import SHARED
from liqod.warystream import WaryStream

RETRIES = Backoff(first=1.0, last=30.0)
"""Seconds until the socket is tried again."""

log = logging.getLogger(__name__)


class MachineProgram:
    """The machine's side, and the socket at which its daemon connects.

    Args:
        config: the configuration, of which it goes by ``[network]``, ``[plugins]`` and
            ``[handshake] stream_idle``.
        callers: the budget for the callers of this process.
        node: name of the node's network namespace; None for the one that this process is in.

    Attributes:
        side: the machine's side.
    """

    def __init__(self, config: Config, callers: Account, *, node: str | None = None) -> None:
        self._config, self._callers, self._node = config, callers, node
        self._settings = config.network
        self._plugins = PluginHost(Plugins())
        self._capabilities: HostCapabilities | None = None
        self.side = MachineSide(self._equip, troubles=self._troubles, node=node)
        self.reserve()

    async def run(self) -> NoReturn:
        """Keep what is ordered until cancelled, which ends nothing.

        A daemon is told about anything that this machine lacks, each time that it asks.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.side.run)
            nursery.start_soon(self._listen)
        raise AssertionError("the machine's side ends by cancellation only")

    def reserve(self, api_servers: tuple[str, ...] = (), own: tuple[str, ...] = ()) -> None:
        """Have no tunnel take these addresses, nor those that the configuration reserves.

        Args:
            api_servers: at which this machine reaches its API server.
            own: from which it does.
        """
        ranges = self._settings.reserved
        self._reserved = ReservedAddresses(api_servers=api_servers, own=own, ranges=ranges)
        self.side.reserve(self._reserved)
        if self._capabilities is not None:
            self._capabilities.reserved = self._reserved

    @property
    def ordered(self) -> bool:
        """True if a daemon has ordered something of this program."""
        return self.side.ordered

    def see_gateway(self, elsewhere: bool) -> None:
        """Take note whether the gateway surely is another node, by the cluster's objects."""
        self.side.see_gateway(elsewhere)

    async def end_left(self, cluster: str) -> list[str]:
        """End what an earlier program left of a cluster's tunnels here; the removed parts.

        Raises:
            LiqodError: something does not go; what did is gone.
        """
        backends = loaded_backends(_plugins(self._config))
        return await end_tunnels(cluster, backends, self._node)

    def _equip(self, cluster: str) -> Look:
        """Finds the capabilities of this machine, for a cluster's id."""
        config = self._config
        try:
            self._plugins = _plugins(config)
        except ConfigError as error:
            log.error("%s", error)
            return partial(_look_in_vain, f"the configuration of liqod node: {error}")
        settings = HostSettings(
            enabled=config.network.enabled,
            advertise=config.network.advertise,
            backends=config.network.backends,
            idle=config.handshake.stream_idle,
        )
        known = (cluster, settings, loaded_backends(self._plugins), self._callers[PROXY])
        self._capabilities = made = HostCapabilities(*known, node=self._node)
        made.reserved = self._reserved
        return made.look

    def _troubles(self) -> dict[str, BackendTrouble]:
        found = {}
        for each in self._plugins.loaded.network:
            gauge = self._plugins.gauge("network", each.name)
            if trouble := gauge.trouble:
                found[each.name] = BackendTrouble(trouble, gauge.rests)
        return found

    async def _listen(self) -> NoReturn:
        """Listen for the daemon, as often as it takes; what is ordered goes on meanwhile."""
        seldom, failures = Seldom(), 0
        folder = Path(self._settings.machine)
        faces = {SOCKET: self.side.serve}
        # Ports of this configuration, not of the daemon's choice: it may be an attacker's.
        for port in {SHARED, self._config.handshake.port} - {0}:
            faces[calls_socket(port)] = partial(self._hand_calls, port)
        while True:
            try:
                await MachineSocket(folder, account_of(self._settings), faces).run()
            except* (LiqodError, OSError) as group:
                if seldom.allows(why := explain(group)):
                    await _log_silence(why)
            failures += 1
            await trio.sleep(RETRIES.delay(failures))

    async def _hand_calls(self, port: int, daemon: WaryStream) -> None:
        """Hand the daemon what calls it at a port, once there can be tunnels."""
        found = self._capabilities
        if found is not None and found.process is not None:
            await callrelay.serve(found.process, daemon, port, self.side.cluster)
        else:
            lacks = UNASKED if found is None else found.lacks
            await deny(daemon, f"no networks can be joined on this machine: {lacks}")


async def _log_silence(why: str) -> None:
    """Log why no daemon can order this machine: where it can be no gateway, none is to."""
    try:
        lacks = await capabilities.problem()
    except LiqodError:
        lacks = None
    if lacks is None:
        log.warning("no daemon can order this machine: %s", why)
    else:
        log.info("this machine cannot be a gateway: %s", lacks)


async def _look_in_vain(problem: str, around: Surroundings) -> GatewayHost:
    """As :data:`.gatewayhost.Look`, of a machine that cannot be a gateway."""
    return lacking(problem)


def account_of(settings: NetworkSettings) -> DaemonAccount:
    """The account of the daemon on this machine, as configured.

    Raises:
        ConfigError: there is no such user.
    """
    if not settings.daemon:
        # A program that is not root's serves its own user.
        return DaemonAccount(os.geteuid(), os.getegid())
    if settings.daemon.isdecimal():
        # In a pod, whose user has no name here: its group has the same number.
        return DaemonAccount(int(settings.daemon), int(settings.daemon))
    try:
        found = pwd.getpwnam(settings.daemon)
    except KeyError:
        raise ConfigError(f"[network] daemon: there is no user {settings.daemon}") from None
    return DaemonAccount(found.pw_uid, found.pw_gid)


def _plugins(config: Config) -> PluginHost:
    tables, named = config.plugins, config.network.backends
    found = load_backends(named, blocked=tables.blocked, settings=tables.settings)
    loader.log_loaded(found)
    return PluginHost(found)
