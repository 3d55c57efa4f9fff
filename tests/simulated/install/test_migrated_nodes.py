"""The way back to Liqo ends the pods of ``liqod node``, and takes their namespace away."""

from collections.abc import AsyncIterator

import pytest

from liqod import install
from liqod.apimachinery.kinds import (
    ADMISSION_POLICIES,
    CLUSTER_ROLE_BINDINGS,
    DAEMON_SETS,
    NAMESPACES,
)
from liqod.install import migration
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from simulator import EmbeddedCluster
from tests.simulated.install.test_install import quiet
from tests.simulated.install.test_migration import have_liqo
from tests.simulated.install.test_nodes_namespace import PLACE, of_nodes


@pytest.fixture
async def admin() -> AsyncIterator[Client]:
    """The administrator of a cluster that has liqod's definitions, as Liqo has them."""
    async with (
        EmbeddedCluster("rome") as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
    ):
        await install.install(client, install.Options(cluster_id="rome"), quiet)
        yield client


@pytest.mark.install
@pytest.mark.long
@pytest.mark.parametrize("whose", ["ours", "somebody else's"])
async def test_the_way_back_to_liqo_takes_the_namespace_of_liqod_node_where_it_is_ours(
    admin: Client, whose: str
):
    await have_liqo(admin)
    await migration.take_out(admin, "liqo", quiet)
    await install.install(admin, install.Options(in_cluster=True), quiet)
    assert await of_nodes(admin) == [PLACE]
    if whose != "ours":
        await admin.delete(DAEMON_SETS, "liqod-node", PLACE)
        marks = dict.fromkeys(install.MANAGED)
        await admin.patch(NAMESPACES, PLACE, {"metadata": {"labels": marks}})
    assert await migration.give_back(admin, "liqo", quiet) == "rome"
    assert await of_nodes(admin) == []
    assert (await admin.find(NAMESPACES, PLACE) is None) == (whose == "ours")
    assert await admin.find(ADMISSION_POLICIES, "liqod-restricted-pods") is None
    assert await admin.find(CLUSTER_ROLE_BINDINGS, "liqod-node") is None
