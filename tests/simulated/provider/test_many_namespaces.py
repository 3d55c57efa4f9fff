"""Five hundred namespaces of one consumer, asked for at once and taken back at once."""

from typing import Any

import pytest

from liqod import install
from liqod.apimachinery.kinds import NAMESPACES, RESOURCE_QUOTAS, ROLE_BINDINGS
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.provider.namespaces.namespacemaps import NamespaceMaps
from liqod.resources import NAMESPACE_MAPS, TENANTS
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.lender import CONSUMER, TENANT, lender

pytestmark = [pytest.mark.long, pytest.mark.load]

MANY = 500
SETTINGS = f"[guests]\nmax_namespaces = {MANY}\n"
REPLICA = {"liqo.io/replicated": "true", "liqo.io/originID": CONSUMER}


async def become_tenant(admin: Client) -> None:
    spec = {"clusterID": CONSUMER, "authzPolicy": "TolerateNoHandshake"}
    await admin.create(TENANTS, {"metadata": {"name": CONSUMER}, "spec": spec}, TENANT)
    status = {"status": {"tenantNamespace": TENANT}}
    await admin.patch(TENANTS, CONSUMER, status, TENANT, subresource="status")


async def test_many_namespaces_are_made_furnished_and_taken_back(nursery):
    async with (
        EmbeddedCluster("milan") as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
    ):
        await install.install(admin, install.Options(cluster_id="milan"), lambda _: None)
        async with lender(admin, cluster.kubeconfig, SETTINGS) as made:
            await become_tenant(admin)
            await nursery.start(NamespaceMaps(made.peer, GuestPolicies()).run)
            wanted = {f"shop-{number}": f"shop-{number}-{CONSUMER}" for number in range(MANY)}
            spec: dict[str, Any] = {"desiredMapping": wanted}
            metadata = {"name": "milan", "labels": REPLICA}
            await admin.create(NAMESPACE_MAPS, {"metadata": metadata, "spec": spec}, TENANT)

            async def mapped() -> dict[str, Any] | None:
                found = await admin.get(NAMESPACE_MAPS, "milan", TENANT)
                current = found.get("status", {}).get("currentMapping", {})
                accepted = {key for key, one in current.items() if one["phase"] == "Accepted"}
                return current if accepted == wanted.keys() else None

            current = await eventually(mapped, seconds=240)
            assert {key: one["remoteNamespace"] for key, one in current.items()} == wanted
            for name in (wanted["shop-0"], wanted[f"shop-{MANY - 1}"]):
                assert await admin.list(ROLE_BINDINGS, Selection(name))
                assert await admin.list(RESOURCE_QUOTAS, Selection(name))
            asked = made.context.client.stats.requests
            assert asked["create", "namespaces"] == MANY
            assert asked["patch", "namespacemaps/status"] <= MANY / 50, "one write for many"

            one_left = {"desiredMapping": {**dict.fromkeys(wanted), "shop-7": wanted["shop-7"]}}
            await admin.patch(NAMESPACE_MAPS, "milan", {"spec": one_left}, TENANT)

            async def left() -> bool:
                found = await admin.list(
                    NAMESPACES, Selection(labels=f"liqo.io/remote-cluster-id={CONSUMER}")
                )
                names = {each["metadata"]["name"] for each in found}
                return names == {TENANT, wanted["shop-7"]}

            await eventually(left, seconds=240)
