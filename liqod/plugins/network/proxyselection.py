"""Selects the HTTP proxy for each server of a tunnel. Pure."""

from collections.abc import Iterable, Mapping

from liqod.model.network.environment import NONE, of_environment
from liqod.plugins.network.endpointselection import parted
from liqod.tunnel.wanted import Target


def targets(
    endpoints: Iterable[str], proxy: str, environment: Mapping[str, str]
) -> tuple[Target, ...]:
    """Where to dial, and by which proxy.

    Args:
        endpoints: ``host:port``.
        proxy: URL of one, :data:`NONE`, or empty for that of the environment.
        environment: of the daemon.
    """
    found = []
    for endpoint in endpoints:
        host, port = parted(endpoint)
        by = proxy or of_environment(host, environment)
        found.append(Target(host, port, "" if by == NONE else by))
    return tuple(dict.fromkeys(found))
