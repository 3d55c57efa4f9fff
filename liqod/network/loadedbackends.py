"""The tunnel backends among plugins: loads them alone, and gives those that are loaded."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from liqod.network.backends import LoadedBackend
from liqod.plugins import loader
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import BUILT_IN, Plugins
from liqod.plugins.providers import TunnelProvider

_OWN: Final = frozenset(
    name for name, module in BUILT_IN if module.startswith("liqod.plugins.network.")
)


def load_backends(
    named: Sequence[str],
    *,
    blocked: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> Plugins:
    """Load tunnel backends alone: the built-in ones, and those of the installed that are named.

    Args:
        named: names of entry points.
        blocked, settings: as of :func:`liqod.plugins.loader.load`; tables of other plugins count
            for nothing.

    Raises:
        ConfigError: a table does not fit its backend.
    """
    found = [each for each in loader.built_in() if each.name in _OWN]
    found += [each for each in loader.installed() if each.name in named]
    names = {each.name for each in found}
    tables = {name: table for name, table in (settings or {}).items() if name in names}
    return loader.load(blocked=blocked, settings=tables, sources=found)


def loaded_backends(plugins: PluginHost) -> tuple[LoadedBackend, ...]:
    """The backends among plugins, those to prefer first."""
    return tuple(
        LoadedBackend(each, _settings(plugins, each), plugins.gauge("network", each.name))
        for each in sorted(plugins.loaded.network, key=lambda each: each.order)
    )


def _settings(plugins: PluginHost, provider: TunnelProvider) -> Any:
    found = plugins.settings("network", provider.name)
    return msgspec.convert({}, provider.config_type) if found is None else found
