"""A discovery for liqod: it sees the clusters that a file names."""

from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.providers import DiscoveryProvider

from .plugin import DISCOVERY


@hookimpl
def liqod_discovery() -> list[DiscoveryProvider]:
    """The discoveries of this package."""
    return [DISCOVERY]
