"""A tunnel for liqod: packets in datagrams, as they are."""

from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.providers import TunnelProvider

from .plugin import TUNNEL


@hookimpl
def liqod_network() -> list[TunnelProvider]:
    """The tunnels of this package."""
    return [TUNNEL]
