"""Fixtures: ``api`` is the simulator or a real control plane with a namespace in it."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from liqod.apimachinery.kinds import NAMESPACES, NODES, SERVICE_ACCOUNTS
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from simulator import EmbeddedCluster
from simulator.nodes.agent import run_nodes
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


REAL = pytest.param("real", marks=[pytest.mark.cluster, pytest.mark.kubernetes])


@pytest.fixture(params=["simulator", REAL])
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


@pytest.fixture
async def nodes(api, nursery):
    """Two fake nodes that only this test's pods select."""
    mark = f"n{secrets.token_hex(4)}"
    names = [f"{mark}-1", f"{mark}-2"]
    small = {"cpu": "2", "memory": "4Gi", "pods": "10"}

    async def serve(*, task_status=trio.TASK_STATUS_IGNORED):
        await run_nodes(
            api.client,
            names,
            pod_cidr="10.77.0.0/16",
            capacity=small,
            labels={"set": mark},
            task_status=task_status,
        )

    await nursery.start(serve)

    async def untainted():
        found = [await api.client.get(NODES, name) for name in names]
        return not any(each["spec"].get("taints") for each in found)

    await eventually(untainted)
    yield names
    nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True):
        for name in names:
            await api.client.delete(NODES, name)
