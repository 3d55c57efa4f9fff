"""Clients for the clusters that a command line names."""

from pathlib import Path

from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.kube.credentials.kubeconfig import OwnFileOnly

AGENT = "liqod-cli"
"""By this name an API server's audit log knows the command line."""


async def connect(kubeconfig: Path | None, context: str = "") -> Client:
    """A client for the cluster that the options name; the caller closes it.

    Raises:
        ConfigError: no kubeconfig, or nonsense in it.
    """
    found = await credentials.load(kubeconfig, context or None)
    return Client(found, user_agent=AGENT)


def connect_there(path: Path, context: str = "", *, own: bool = False) -> Client:
    """A client for the other side's cluster; the caller closes it.

    Args:
        path: a kubeconfig, as a rule one that the other side has made.
        context: a context in it.
        own: it is the operator's own, which may name programs and files.

    Raises:
        ConfigError: it cannot be used, and why.
    """
    if own:
        found = credentials.from_files((path,), context or None)
        return Client(found, user_agent=AGENT)
    try:
        found = credentials.from_other_side(path, context or None)
    except OwnFileOnly as error:
        remedy = "--own-remote-kubeconfig allows it in a file of your own"
        raise ConfigError(f"{error}; {remedy}") from error
    return Client(found, user_agent=AGENT)
