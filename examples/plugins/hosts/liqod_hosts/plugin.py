"""Sees the clusters that a TOML file names, each with the addresses of its daemon."""

from collections.abc import Callable
from typing import NoReturn

import msgspec
import trio

from liqod.errors import ConfigError
from liqod.plugins.providers import DiscoveryProvider, Services, Sighting

NAME = "hosts"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[plugins.settings.hosts]``; the file has lines such as ``milan = ["…:6446"]``."""

    file: str = "/etc/liqod/hosts.toml"
    every: float = 10.0


class Hosts:
    """Reads the file again and again; what it names no more ends by itself."""

    def __init__(self, settings: Settings, services: Services) -> None:
        self._file, self._every = trio.Path(settings.file), settings.every

    async def run(
        self,
        sighted: Callable[[Sighting], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Reports sightings until it is cancelled."""
        task_status.started()
        while True:
            for cluster, addresses in (await self._read()).items():
                lasts = 3 * self._every
                sighted(Sighting(cluster_id=cluster, plugin=NAME, addresses=addresses, ttl=lasts))
            await trio.sleep(self._every)

    async def _read(self) -> dict[str, tuple[str, ...]]:
        try:
            text = await self._file.read_bytes()
            return msgspec.toml.decode(text, type=dict[str, tuple[str, ...]])
        except (OSError, ValueError) as error:  # the daemon shows it, and tries again
            raise ConfigError(f"{self._file}: {error}") from error


DISCOVERY = DiscoveryProvider(name=NAME, config_type=Settings, build=Hosts)
