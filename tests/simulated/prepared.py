"""Contents with which an embedded cluster starts: liqod's definitions, or a whole installation.

Each is made once for each name in a process, by the same code as ever, and kept as a backup of that
cluster: later ones of that name continue from there, and have its authority. Tests of installing
start from nothing.
"""

from collections.abc import Awaitable, Callable

from liqod import install
from liqod.install import daemonkubeconfig
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from simulator import EmbeddedCluster
from simulator.cluster import State
from tests.simulated.borrower import define

_KEPT: dict[tuple[str, str], State] = {}


async def defined(name: str) -> State:
    """A cluster with the custom resources and liqod's namespace."""

    async def prepare(cluster: EmbeddedCluster, admin: Client) -> None:
        await define(admin)

    return await _kept("defined", name, prepare)


async def installed(name: str, *, services: bool = False) -> State:
    """A cluster with liqod installed, whose id is its name, and a token for the daemon."""

    async def prepare(cluster: EmbeddedCluster, admin: Client) -> None:
        await install.install(admin, install.Options(cluster_id=name, services=services), quiet)
        credentials = from_kubeconfig(cluster.kubeconfig)
        await daemonkubeconfig.daemon_kubeconfig(admin, credentials, "liqo", name, quiet)

    return await _kept(f"installed{services:d}", name, prepare)


async def _kept(
    what: str, name: str, prepare: Callable[[EmbeddedCluster, Client], Awaitable[None]]
) -> State:
    if (what, name) not in _KEPT:
        async with (
            EmbeddedCluster(name) as cluster,
            Client(from_kubeconfig(cluster.kubeconfig)) as admin,
        ):
            await prepare(cluster, admin)
            _KEPT[what, name] = cluster.save()
    return _KEPT[what, name]


def quiet(_: str) -> None:
    """No progress."""
