"""Peering off the beaten track: from git, with names that meet, against tampering, given up."""

from base64 import b64decode, b64encode
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import NAMESPACES, NODES, ROLE_BINDINGS, SECRETS, Kind
from liqod.apimachinery.labels import KEYS_SECRET
from liqod.cluster.tenancy import ensure_tenant_namespace
from liqod.consumer.identities.clusterkeys import CurrentKeys, cluster_keys
from liqod.identity import keys
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.queue import KeyedQueue
from liqod.kube.selection import Selection
from liqod.plugins import loader
from liqod.procedures import peeringusers, unpeering
from liqod.provider.tenants.nonces import new_nonce
from liqod.resources import (
    FOREIGN_CLUSTERS,
    IDENTITIES,
    NAMESPACE_MAPS,
    QUOTAS,
    RESOURCE_SLICES,
    TENANTS,
)
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually, offload
from tests.simulated.members import AT_MILAN, AT_ROME, USER, members, verdicts
from tests.simulated.shops import SHOP, THERE, is_ready, opened, pods_of

RBAC = "rbac.authorization.k8s.io"


def tenant_namespace(peer):
    labels = {"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": peer}
    return {"metadata": {"name": f"liqo-tenant-{peer}", "labels": labels}}


def a_slice(name="milan", **resources):
    labels = {
        "liqo.io/replication": "true",
        "liqo.io/remoteID": "milan",
        "liqo.io/remote-cluster-id": "milan",
    }
    annotations = {"liqo.io/create-virtual-node": "true"}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"class": "default", "resources": resources},
    }


@pytest.mark.long
async def test_manifests_from_git_do_as_well():
    plugins = loader.load(sources=loader.built_in())
    async with members("rome", "milan", nodes=1, plugins=plugins) as [rome, milan]:
        before = rome.everything(), milan.everything()
        await milan.admin.create(NAMESPACES, tenant_namespace("rome"))
        await milan.admin.create(
            TENANTS,
            {
                "metadata": {"name": "rome"},
                "spec": {"clusterID": "rome", "authzPolicy": "TolerateNoHandshake"},
            },
            AT_MILAN,
        )
        await milan.admin.create(
            ROLE_BINDINGS,
            {
                "metadata": {"name": "by-hand"},
                "roleRef": {
                    "apiGroup": RBAC,
                    "kind": "ClusterRole",
                    "name": "liqo-remote-controlplane",
                },
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "rome"}],
            },
            AT_MILAN,
        )
        await rome.admin.create(NAMESPACES, tenant_namespace("milan"))
        config = milan.cluster.kubeconfig_for("rome", ("liqo.io",))
        await rome.admin.create(
            SECRETS,
            {
                "metadata": {
                    "name": "my-way-to-milan",
                    "labels": {
                        "liqo.io/identity-type": "ControlPlane",
                        "liqo.io/remote-cluster-id": "milan",
                    },
                    "annotations": {"liqo.io/remote-tenant-namespace": AT_MILAN},
                },
                "stringData": {"kubeconfig": config},
            },
            AT_ROME,
        )
        await rome.admin.create(RESOURCE_SLICES, a_slice(cpu="1", pods="10"), AT_ROME)
        node = await rome.until(NODES, "milan", None, is_ready)
        assert node["status"]["allocatable"]["pods"] == "10"
        await rome.until(
            FOREIGN_CLUSTERS,
            "milan",
            None,
            lambda fc: fc.get("status", {}).get("role") == "Provider",
        )
        assert await milan.admin.find(QUOTAS, USER, AT_MILAN) is not None
        await opened(rome, 2)
        assert len(await pods_of(milan, THERE)) == 2
        await rome.admin.delete(NAMESPACES, SHOP)
        await rome.gone(NAMESPACES, SHOP)
        await milan.gone(NAMESPACES, THERE)
        assert (await rome.unpeer(milan)).complete
        assert (await milan.unpeer(rome)).complete
        assert (rome.everything(), milan.everything()) == before


@pytest.mark.long
async def test_slices_of_one_name_in_both_directions_do_not_touch_each_other():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await milan.peer(rome)
        await rome.stop()
        await milan.stop()
        other = a_slice("big", cpu="2")
        for key in ("liqo.io/remoteID", "liqo.io/remote-cluster-id"):
            other["metadata"]["labels"][key] = "rome"
        await rome.admin.create(RESOURCE_SLICES, a_slice("big", cpu="1"), AT_ROME)
        await milan.admin.create(RESOURCE_SLICES, other, AT_MILAN)
        await rome.start()
        await milan.start()
        for one, namespace in ((rome, AT_ROME), (milan, AT_MILAN)):
            found = await one.until(
                RESOURCE_SLICES,
                "big",
                namespace,
                lambda found: verdicts(found).get("Authentication") == "Denied",
            )
            assert found["status"]["conditions"][0]["reason"] == "ReplicaNameTaken"
        await milan.admin.delete(RESOURCE_SLICES, "big", AT_MILAN)
        with trio.fail_after(15):
            while True:
                found = await rome.admin.get(RESOURCE_SLICES, "big", AT_ROME)
                if verdicts(found).get("Resources") == "Accepted":
                    break
                await trio.sleep(0.1)


async def test_replicas_that_make_racing_keys_agree():
    async with EmbeddedCluster("rome") as cluster:
        found = []
        async with Client(from_kubeconfig(cluster.kubeconfig)) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "liqo"}})

            async def make():
                found.append(await cluster_keys(client))

            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(make)
        assert len({each.private for each in found}) == 1
        assert keys.same_public(found[0].public, keys.public_pem(found[0].private))


@pytest.mark.long
async def test_numbers_of_an_administrator_stay_in_the_quota():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        spec = {"spec": {"resources": {"cpu": "1"}}}
        await milan.admin.patch(QUOTAS, USER, spec, AT_MILAN)
        patch = {"spec": {"tenantCondition": "Cordoned"}}
        await milan.admin.patch(TENANTS, "rome", patch, AT_MILAN)
        found = await milan.until(QUOTAS, USER, AT_MILAN, lambda q: q["spec"].get("cordoned"))
        assert found["spec"]["resources"]["cpu"] == "1"
        # Another grant is another matter.
        await milan.admin.patch(TENANTS, "rome", {"spec": {"tenantCondition": "Active"}}, AT_MILAN)
        more = {"spec": {"resources": {"cpu": "3"}}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", more, AT_ROME)
        found = await milan.until(
            QUOTAS, USER, AT_MILAN, lambda q: q["spec"]["resources"]["cpu"] == "3"
        )
        assert "cordoned" not in found["spec"]


@pytest.mark.long
async def test_a_tenant_that_changes_its_key_proves_it_anew():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        before = await milan.admin.get(TENANTS, "rome", AT_MILAN)
        forged = {"spec": {"publicKey": "Zm9yZ2Vk"}}
        await milan.admin.patch(TENANTS, "rome", forged, AT_MILAN)
        await milan.until(
            RESOURCE_SLICES,
            "milan",
            AT_MILAN,
            lambda found: verdicts(found).get("Authentication") == "Denied",
        )
        after = await milan.admin.get(TENANTS, "rome", AT_MILAN)
        assert after["status"] == before["status"]
        # The same handshake once more repairs it.
        await rome.peer(milan)


@pytest.mark.long
async def test_a_dead_provider_can_be_forgotten():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await milan.until(NAMESPACES, "shop-rome", None, lambda found: True)
        await milan.stop()
        await milan.cluster.stop()
        with trio.fail_after(30):
            await unpeering.forget(rome.admin, "milan", progress=rome.progress)
        assert (await rome.unpeer(milan)).complete
        for kind in (IDENTITIES, NAMESPACE_MAPS):
            assert await rome.admin.list(kind) == []
        assert await rome.admin.find(NODES, "milan") is None


@pytest.mark.long
async def test_a_tenant_namespace_that_is_deleted_takes_all_with_it():
    async with members("rome", "milan") as [rome, milan]:
        before = rome.everything(), milan.everything()
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await milan.until(NAMESPACES, "shop-rome", None, lambda found: True)
        await milan.admin.delete(NAMESPACES, AT_MILAN)
        await rome.admin.delete(NAMESPACES, AT_ROME)
        for member, namespace in ((milan, AT_MILAN), (rome, AT_ROME)):
            await member.gone(NAMESPACES, namespace)
        await milan.gone(NAMESPACES, "shop-rome")
        await rome.gone(FOREIGN_CLUSTERS, "milan")
        await milan.gone(FOREIGN_CLUSTERS, "rome")
        await rome.gone(NODES, "milan")
        await peeringusers.delete(milan.admin, "rome")
        await rome.admin.delete(NAMESPACES, "shop")
        await rome.gone(NAMESPACES, "shop")
        assert rome.everything() == before[0]
        assert milan.everything() == before[1]


async def test_a_nonce_that_another_program_brings_is_signed():
    async with members("rome") as [rome]:
        namespace = await ensure_tenant_namespace(rome.admin, "milan")
        own = await cluster_keys(rome.admin)
        nonce = new_nonce()

        async def bring(name, text):
            await rome.admin.create(
                SECRETS,
                {
                    "metadata": {"name": name, "labels": {"liqo.io/signed-nonce": "true"}},
                    "data": {"nonce": b64encode(text).decode()},
                },
                namespace,
            )

        await bring("no-nonce", b"-----BEGIN CERTIFICATE REQUEST-----")
        await bring("liqo-signed-nonce", nonce)

        def is_signed(found):
            signature = b64decode(found["data"].get("signedNonce", ""))
            return signature and keys.verify(own.public, nonce, signature)

        await rome.until(SECRETS, "liqo-signed-nonce", namespace, is_signed)
        other = await rome.admin.get(SECRETS, "no-nonce", namespace)
        assert set(other["data"]) == {"nonce"}


async def test_a_key_that_was_lost_is_made_anew_and_used():
    async with members("rome") as [rome]:
        before = await cluster_keys(rome.admin)
        own = CurrentKeys(rome.context)
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            await own.watched.open(stack, nursery, rome.context.informers, KeyedQueue())
            await own.watched.synced()
            assert await own.now() == before
            await rome.admin.delete(SECRETS, KEYS_SECRET, "liqo")

            async def another():
                return await own.now() != before

            await eventually(another)
            assert await own.now() == await cluster_keys(rome.admin)


@pytest.mark.long
async def test_peering_users_of_two_consumers_are_apart():
    async with members("rome", "milan") as (rome, milan):
        await milan.peering_user(rome)
        await peeringusers.generate(
            milan.admin, "turin", here="milan", server=milan.cluster.server, ca=b""
        )
        await peeringusers.delete(milan.admin, "turin")
        left = await milan.admin.list(ROLE_BINDINGS, Selection("liqo"))
        users = [each["subjects"][0]["name"] for each in left]
        assert len([each for each in users if "rome" in each]) == 1
        assert not [each for each in users if "turin" in each]


@pytest.mark.long
async def test_what_a_class_of_its_own_wrote_at_the_same_moment_is_not_written_over(
    monkeypatch: pytest.MonkeyPatch,
):
    """A grant that is written between this side's look at the slice and its own write."""
    ordinary = Client.patch
    granted: list[dict[str, Any]] = []

    async def patch(
        self: Client, kind: Kind, name: str, body: Any, namespace: str | None = None, **more: Any
    ) -> Any:
        judged = (
            kind is RESOURCE_SLICES and name == "gold" and "authParams" in body.get("status", {})
        )
        if judged and namespace == "liqo-tenant-rome" and not granted:
            accepted = {"type": "Resources", "status": "Accepted"}
            granted.append({"status": {"resources": {"pods": "7"}, "conditions": [accepted]}})
            await ordinary(self, kind, name, granted[0], namespace, subresource="status")
        return await ordinary(self, kind, name, body, namespace, **more)

    monkeypatch.setattr(Client, "patch", patch)
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        asked = a_slice("gold") | {"spec": {"class": "gold"}}
        await rome.admin.create(RESOURCE_SLICES, asked, "liqo-tenant-milan")

        def both(found: dict[str, Any]) -> bool:
            verdicts = found.get("status", {}).get("conditions", [])
            return {each["type"] for each in verdicts} == {"Authentication", "Resources"}

        found = await rome.until(RESOURCE_SLICES, "gold", "liqo-tenant-milan", both)
        assert found["status"]["resources"] == {"pods": "7"}
