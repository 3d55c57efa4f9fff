"""A provider on a real control plane, in which a consumer has a namespace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

import trio

from liqod import install
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials, from_kubeconfig
from tests.cluster.test_lending import bind, quiet
from tests.simulated.lender import Lender, lender
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up, start_all


class Milan(NamedTuple):
    """The credentials of milan's administrator, and its daemon's kubeconfig."""

    admin: Credentials
    daemon: str


def provider(config: str, prepare: Callable[[Lender], Awaitable[None]]) -> Iterator[Milan]:
    """Milan, for as long as a module's tests take: each keeps to objects of its own.

    Args:
        config: of its daemon.
        prepare: does what the tests need, once the consumer has its namespace and its rights.
    """
    try:
        plane = ControlPlane("milan", Settings())
    except Unavailable as reason:
        give_up(reason)
    start_all([plane])
    try:
        yield trio.run(_install, plane, config, prepare)
    finally:
        plane.destroy()


async def _install(
    plane: ControlPlane, config: str, prepare: Callable[[Lender], Awaitable[None]]
) -> Milan:
    admin = from_kubeconfig(plane.kubeconfig.read_text())
    async with Client(admin) as client:
        await install.install(client, install.Options(cluster_id="milan"), quiet)
        daemon = await install.daemon_kubeconfig(client, admin, "liqo", "milan", quiet)
        async with lender(client, daemon.decode(), config) as made:
            await made.map_namespace(**{"pod-security.kubernetes.io/enforce": "baseline"})
            await bind(made)
            await prepare(made)
    return Milan(admin, daemon.decode())
