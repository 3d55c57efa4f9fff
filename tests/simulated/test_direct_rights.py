"""Who may write pods in a consumer's namespaces: given where that is taken, and taken back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from liqod import install
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.kinds import NAMESPACES, ROLE_BINDINGS
from liqod.model import ids, labels
from liqod.provider.namespaces import namespacemaps
from liqod.provider.namespaces.namespacemaps import NamespaceMaps
from liqod.resources import NAMESPACE_MAPS, TENANTS
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.lender import CONSUMER, TENANT, Lender, lender

ON = "[provider]\ndirect_pods = true\n"
OFF = "[provider]\ndirect_pods = false\n"
WITHOUT_WEBHOOK = f"{ON}[webhook]\nenabled = false\n"
CHANGED_BY_THE_DAEMON = f"{ON}[guests]\nalways_pull = true\n"
REPLICA = {"liqo.io/replicated": "true", "liqo.io/originID": CONSUMER}
MAPPED = f"shop-{CONSUMER}"
BINDING = ids.direct_binding(TENANT)


@pytest.fixture
async def admin() -> AsyncIterator[tuple[Client, str]]:
    """Milan, with a tenant that has one namespace mapped."""
    async with (
        EmbeddedCluster("milan") as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
    ):
        await install.install(client, install.Options(cluster_id="milan"), lambda _: None)
        yield client, cluster.kubeconfig


@asynccontextmanager
async def lending(admin: Client, kubeconfig: str, text: str) -> AsyncIterator[Lender]:
    """Milan's room for namespaces at work, with these settings."""
    async with lender(admin, kubeconfig, text) as made, trio.open_nursery() as nursery:
        if await admin.find(NAMESPACE_MAPS, "milan", TENANT) is None:
            spec = {"clusterID": CONSUMER, "authzPolicy": "TolerateNoHandshake"}
            await admin.create(TENANTS, {"metadata": {"name": CONSUMER}, "spec": spec}, TENANT)
            status = {"status": {"tenantNamespace": TENANT}}
            await admin.patch(TENANTS, CONSUMER, status, TENANT, subresource="status")
            meta = {"name": "milan", "labels": REPLICA}
            wanted = {"desiredMapping": {"shop": MAPPED}}
            await admin.create(NAMESPACE_MAPS, {"metadata": meta, "spec": wanted}, TENANT)
        made.home.fence.known = True
        await nursery.start(NamespaceMaps(made.peer).run)
        yield made
        nursery.cancel_scope.cancel()


async def is_bound(admin: Client) -> bool:
    return await admin.find(ROLE_BINDINGS, BINDING, MAPPED) is not None


async def noted(admin: Client) -> bool:
    live = await admin.find(NAMESPACES, MAPPED)
    return bool(live and labels.DIRECT_PODS in (live["metadata"].get("annotations") or {}))


async def given(admin: Client) -> bool:
    return await is_bound(admin) and await noted(admin)


async def taken_back(admin: Client) -> bool:
    return not await is_bound(admin) and not await noted(admin)


@pytest.mark.parametrize("text", [OFF, WITHOUT_WEBHOOK, CHANGED_BY_THE_DAEMON])
async def test_it_is_given_and_taken_back_by_the_next_daemon(admin, text):
    client, kubeconfig = admin
    async with lending(client, kubeconfig, ON):
        await eventually(lambda: given(client))
        bound = await client.get(ROLE_BINDINGS, BINDING, MAPPED)
        assert bound["roleRef"]["name"] == labels.DIRECT_ROLE
        assert [each["name"] for each in bound["subjects"]] == [CONSUMER]
    async with lending(client, kubeconfig, text):
        await eventually(lambda: taken_back(client))
        assert await client.find(ROLE_BINDINGS, TENANT, MAPPED) is not None, "the others stay"
    async with lending(client, kubeconfig, ON):
        await eventually(lambda: given(client))


async def test_it_is_taken_back_while_a_policy_is_missing(admin, monkeypatch):
    monkeypatch.setattr(namespacemaps, "UNFENCED", 0.1)
    client, kubeconfig = admin
    async with lending(client, kubeconfig, ON) as made:
        await eventually(lambda: given(client))
        made.home.fence.missing = ("liqod-guest-pods",)

        async def unbound() -> bool:
            return not await is_bound(client)

        await eventually(unbound)
        made.home.fence.missing = ()
        await eventually(lambda: given(client))
