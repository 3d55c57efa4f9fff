"""One fixture, ``api``: the simulator or a real control plane, and a namespace in it."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from liqod.kube.client import Client
from liqod.kube.credentials import from_kubeconfig
from liqod.kube.kinds import NAMESPACES, SERVICE_ACCOUNTS
from liqod.simulator import EmbeddedCluster
from tests.contract.api import Api, eventually


@asynccontextmanager
async def _api(kubeconfig: str, real: bool) -> AsyncIterator[Api]:
    async with Client(from_kubeconfig(kubeconfig)) as client:
        name = f"contract-{secrets.token_hex(4)}"
        await client.create(NAMESPACES, {"metadata": {"name": name}})
        api = Api(client, kubeconfig, name, real)
        await eventually(lambda: client.find(SERVICE_ACCOUNTS, "default", name))
        try:
            yield api
        finally:
            await client.delete(NAMESPACES, name)


@pytest.fixture(params=["simulator", pytest.param("real", marks=pytest.mark.cluster)])
async def api(request):
    """An API server to hold to the contract."""
    if request.param == "real":
        plane = request.getfixturevalue("control_plane")
        async with _api(plane.kubeconfig.read_text(), real=True) as found:
            yield found
    else:
        async with (
            EmbeddedCluster("contract") as cluster,
            _api(cluster.kubeconfig, real=False) as found,
        ):
            yield found
