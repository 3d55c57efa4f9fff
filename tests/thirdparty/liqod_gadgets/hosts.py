"""Sees the clusters that a TOML file names: ``[milan]`` with ``kubeconfig = "…"`` or nothing."""

import tomllib
from collections.abc import Callable
from typing import NoReturn

import msgspec
import trio

from liqod.errors import ConfigError
from liqod.plugins.providers import DiscoveryProvider, Services, Sighting

NAME = "gadget-hosts"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[plugins.settings.gadget-hosts]``."""

    file: str = ""
    every: float = 10.0


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cluster of the file."""

    kubeconfig: str = ""


class Hosts:
    """Reads the file again and again, and says what is new in it and what has gone."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[str, Entry] = {}

    async def run(
        self,
        sighted: Callable[[Sighting], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Report sightings until cancelled."""
        task_status.started()
        while True:
            found = await self._read()
            for name in self._known.keys() - found.keys():
                sighted(Sighting(cluster_id=name, plugin=NAME, gone=True))
            for name, entry in found.items():
                sighted(Sighting(cluster_id=name, plugin=NAME, kubeconfig=entry.kubeconfig))
            self._known = found
            await trio.sleep(self._settings.every)

    async def _read(self) -> dict[str, Entry]:
        if not self._settings.file:
            return {}
        try:
            text = await trio.Path(self._settings.file).read_text()
            return msgspec.convert(tomllib.loads(text), dict[str, Entry])
        except (OSError, ValueError) as error:  # said by the daemon, which tries again
            raise ConfigError(f"{self._settings.file}: {error}") from error


def build(settings: Settings, services: Services) -> Hosts:
    """Made once the daemon leads."""
    return Hosts(settings)


HOSTS = DiscoveryProvider(name=NAME, build=build, config_type=Settings)
