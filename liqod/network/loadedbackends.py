"""The tunnel backends among the plugins that a program has loaded."""

from typing import Any

import msgspec

from liqod.network.backends import LoadedBackend
from liqod.plugins.host import PluginHost
from liqod.plugins.providers import TunnelProvider


def loaded_backends(plugins: PluginHost) -> tuple[LoadedBackend, ...]:
    """The backends among plugins, those to prefer first."""
    return tuple(
        LoadedBackend(each, _settings(plugins, each), plugins.gauge("network", each.name))
        for each in sorted(plugins.loaded.network, key=lambda each: each.order)
    )


def _settings(plugins: PluginHost, provider: TunnelProvider) -> Any:
    found = plugins.settings("network", provider.name)
    return msgspec.convert({}, provider.config_type) if found is None else found
