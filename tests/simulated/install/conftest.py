"""An embedded cluster that liqod is installed into, and its administrator."""

import pytest

from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from simulator import EmbeddedCluster


@pytest.fixture
async def cluster():
    """A cluster without liqod."""
    async with EmbeddedCluster("milan") as embedded:
        yield embedded


@pytest.fixture
async def admin(cluster):
    """A client of its administrator."""
    async with Client(from_kubeconfig(cluster.kubeconfig)) as client:
        yield client
