"""Sees the clusters that a TOML file names, each with the addresses of its daemon."""

from collections.abc import Callable
from typing import NoReturn

import msgspec
import trio

from liqod.errors import ConfigError
from liqod.plugins.providers import DiscoveryProvider, Services, Sighting


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[plugins.settings.gadget-hosts]``; the file has lines such as ``milan = ["…:6446"]``."""

    file: str = "/etc/liqod/hosts.toml"
    every: float = 10.0


class Hosts:
    """Reads the file again and again; what it names no more ends by itself."""

    def __init__(self, settings: Settings, services: Services) -> None:
        self.file, self.every = trio.Path(settings.file), settings.every

    async def run(
        self,
        sighted: Callable[[Sighting], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Report sightings until cancelled."""
        task_status.started()
        while True:
            for name, addresses in (await self._read()).items():
                seen = Sighting(
                    cluster_id=name,
                    plugin="gadget-hosts",
                    addresses=addresses,
                    ttl=3 * self.every,
                )
                sighted(seen)
            await trio.sleep(self.every)

    async def _read(self) -> dict[str, tuple[str, ...]]:
        try:
            text = await self.file.read_bytes()
            return msgspec.toml.decode(text, type=dict[str, tuple[str, ...]])
        except (OSError, ValueError) as error:  # said by the daemon, which tries again
            raise ConfigError(f"{self.file}: {error}") from error


HOSTS = DiscoveryProvider(name="gadget-hosts", config_type=Settings, build=Hosts)
