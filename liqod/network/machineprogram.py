"""The machine's side of joined networks as a part of the program `liqod node`, at its socket.

Backends, their settings, the addresses of this machine and all limits come from the configuration
of that program. Of third parties' backends those alone are loaded that ``[network] backends``
names.
"""

import logging
import os
import pwd
from pathlib import Path
from typing import NoReturn

import trio

from liqod.config import Config
from liqod.configsections import NetworkSettings
from liqod.errors import ConfigError, LiqodError, NetworkError
from liqod.network.dataplane.kernel import capabilities, container
from liqod.network.gatewayhost import Look
from liqod.network.hostcapabilities import HostCapabilities, HostSettings
from liqod.network.loadedbackends import loaded_backends
from liqod.network.machine.machineside import MachineSide
from liqod.network.machine.machinesocket import DaemonAccount, MachineSocket
from liqod.network.orders.tunnels import BackendTrouble
from liqod.plugins import loader
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins
from liqod.runtime.account import PROXY, Account
from liqod.runtime.backoff import Backoff
from liqod.runtime.log import Seldom
from liqod.runtime.supervise import explain

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
        self.side = MachineSide(self._equip, troubles=self._troubles, node=node)

    async def run(self) -> NoReturn:
        """Keep what is ordered until cancelled, which ends nothing.

        Raises:
            ConfigError: settings of a backend make no sense.
        """
        lacks = await self._lacks()
        if lacks is not None:
            log.info("this machine cannot be a gateway: %s", lacks)
            await trio.sleep_forever()
        self._plugins = _plugins(self._config)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.side.run)
            nursery.start_soon(self._listen)
        raise AssertionError("the machine's side ends by cancellation only")

    async def _lacks(self) -> str | None:
        if not self._settings.enabled:
            return "[network] enabled is false"
        try:
            await container.unlock()
        except NetworkError as error:
            return str(error)
        return await capabilities.problem()

    def _equip(self, cluster: str) -> Look:
        """Finds the capabilities of this machine, for a cluster's id."""
        config = self._config
        settings = HostSettings(
            enabled=config.network.enabled,
            advertise=config.network.advertise,
            backends=config.network.backends,
            idle=config.handshake.stream_idle,
        )
        known = (cluster, settings, loaded_backends(self._plugins), self._callers[PROXY])
        return HostCapabilities(*known, node=self._node).look

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
        while True:
            try:
                account = account_of(self._settings)
                await MachineSocket(folder, account, self.side.serve).run()
            except* (LiqodError, OSError) as group:
                if seldom.allows(why := explain(group)):
                    log.warning("no daemon can order this machine: %s", why)
            failures += 1
            await trio.sleep(RETRIES.delay(failures))


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
    found = loader.load_backends(named, blocked=tables.blocked, settings=tables.settings)
    loader.log_loaded(found)
    return PluginHost(found)
