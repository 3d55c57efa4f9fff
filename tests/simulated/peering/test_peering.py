"""Peering between embedded clusters: both daemons' components run in this process."""

import msgspec
import pytest
import trio

from liqod import config
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CLUSTER_ROLE_BINDINGS,
    NAMESPACES,
    NODES,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    SECRETS,
)
from liqod.errors import ConfigError, Forbidden
from liqod.identity import certificates
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.procedures import peeringusers, tenantstate
from liqod.provider.policies import guestkeys
from liqod.resources import (
    FOREIGN_CLUSTERS,
    IDENTITIES,
    NAMESPACE_MAPS,
    QUOTAS,
    RENEWS,
    RESOURCE_SLICES,
    TENANTS,
)
from tests.simulated.borrower import eventually, offload
from tests.simulated.members import AT_MILAN, AT_ROME, USER, keyed, members, verdicts
from tests.simulated.shops import is_ready


@pytest.mark.long
async def test_a_handshake_ends_with_a_ready_node_and_unpeering_leaves_nothing():
    async with members("rome", "milan") as [rome, milan]:
        before = rome.everything(), milan.everything()
        await rome.peer(milan)

        found = await rome.admin.get(RESOURCE_SLICES, "milan", AT_ROME)
        assert verdicts(found) == {"Authentication": "Accepted", "Resources": "Accepted"}
        assert found["status"]["resources"]["cpu"] == "2"
        assert found["status"]["resources"]["ephemeral-storage"] == "20Gi"
        replica = await milan.admin.get(RESOURCE_SLICES, "milan", AT_MILAN)
        assert replica["spec"] == found["spec"]
        for each in (found, replica):
            assert each["metadata"]["generation"] == 1  # asked with its request, in one write
        assert replica["metadata"]["labels"] == {
            "liqo.io/originID": "rome",
            "liqo.io/remoteID": "milan",
            "liqo.io/remote-cluster-id": "rome",
            "liqo.io/replicated": "true",
            "liqo.io/replication": "false",
        }
        quota = await milan.admin.get(QUOTAS, USER, AT_MILAN)
        assert quota["spec"]["user"] == USER
        assert quota["spec"]["resources"] == found["status"]["resources"]
        await eventually(lambda: milan.admin.find(RENEWS, "controlplane-milan", AT_MILAN))

        await rome.until(
            FOREIGN_CLUSTERS,
            "milan",
            None,
            lambda fc: fc.get("status", {}).get("role") == "Provider",
        )
        await milan.until(
            FOREIGN_CLUSTERS,
            "rome",
            None,
            lambda fc: fc.get("status", {}).get("role") == "Consumer",
        )

        assert (await rome.unpeer(milan)).complete
        await rome.gone(NODES, "milan")
        assert await milan.admin.list(RESOURCE_SLICES, Selection(AT_MILAN)) == []
        assert await milan.admin.list(RENEWS, Selection(AT_MILAN)) == []
        assert (await milan.unpeer(rome)).complete
        await peeringusers.delete(milan.admin, "rome")
        assert rome.everything() - before[0] == set()
        assert milan.everything() - before[1] == set()


@pytest.mark.long
async def test_peering_again_changes_nothing():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        uid = (await rome.admin.get(NODES, "milan"))["metadata"]["uid"]
        tenant = await milan.admin.get(TENANTS, "rome", AT_MILAN)
        await rome.peer(milan)
        assert (await rome.admin.get(NODES, "milan"))["metadata"]["uid"] == uid
        again = await milan.admin.get(TENANTS, "rome", AT_MILAN)
        assert again["metadata"]["uid"] == tenant["metadata"]["uid"]
        assert again["status"] == tenant["status"]


@pytest.mark.long
async def test_both_borrow_from_each_other():
    async with members("rome", "milan") as [rome, milan]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rome.peer, milan)
            nursery.start_soon(milan.peer, rome)
        for one, other in ((rome, "milan"), (milan, "rome")):
            await one.until(
                FOREIGN_CLUSTERS,
                other,
                None,
                lambda fc: fc.get("status", {}).get("role") == "ConsumerAndProvider",
            )
            assert is_ready(await one.admin.get(NODES, other))
        assert (await rome.unpeer(milan)).complete
        assert await rome.admin.find(NODES, "milan") is None
        assert (await milan.unpeer(rome)).complete


@pytest.mark.long
async def test_a_namespace_is_mapped_and_bounded_and_made_again():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        made = await eventually(lambda: milan.admin.find(NAMESPACES, "shop-rome"))
        assert made["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
        assert made["metadata"]["labels"]["liqo.io/remote-cluster-id"] == "rome"
        assert made["metadata"]["annotations"] == {
            "liqo.io/managed-by-namespace-map": f"{AT_MILAN}/milan",
            "liqo.io/original-name": "shop",
            "liqod.io/local-uid": (await rome.admin.get(NAMESPACES, "shop"))["metadata"]["uid"],
            **guestkeys.notes(config.GuestSettings(), "rome"),
        }
        await rome.until(
            NAMESPACE_MAPS,
            "milan",
            AT_ROME,
            lambda nm: (
                nm.get("status", {}).get("currentMapping")
                == {"shop": {"remoteNamespace": "shop-rome", "phase": "Accepted"}}
            ),
        )
        binding = await milan.admin.get(ROLE_BINDINGS, AT_MILAN, "shop-rome")
        assert binding["subjects"][0]["kind"] == "Group"
        [group] = binding["subjects"]
        assert group["name"] == await keyed(rome)
        bound = await milan.admin.get(RESOURCE_QUOTAS, "liqod-objects", "shop-rome")
        assert bound["spec"]["hard"]["services.nodeports"] == "20"

        await milan.admin.delete(NAMESPACES, "shop-rome")
        await milan.until(
            NAMESPACES,
            "shop-rome",
            None,
            lambda ns: ns["metadata"]["uid"] != made["metadata"]["uid"],
        )


@pytest.mark.long
async def test_a_namespace_that_exists_is_left_alone():
    async with members("rome", "milan") as [rome, milan]:
        await milan.admin.create(NAMESPACES, {"metadata": {"name": "shop-rome"}})
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await rome.until(
            NAMESPACE_MAPS,
            "milan",
            AT_ROME,
            lambda nm: (
                nm.get("status", {}).get("currentMapping", {}).get("shop", {}).get("phase")
                == "CreationLoopBackOff"
            ),
        )
        left = await milan.admin.get(NAMESPACES, "shop-rome")
        assert "annotations" not in left["metadata"]
        assert await milan.admin.list(ROLE_BINDINGS, Selection("shop-rome")) == []
        # Once it is out of the way, the map gets its own.
        await milan.admin.delete(NAMESPACES, "shop-rome")
        await milan.until(NAMESPACES, "shop-rome", None, lambda ns: "annotations" in ns["metadata"])


@pytest.mark.long
async def test_cordon_drain_and_activate():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)

        async def become(condition):
            patch = {"spec": {"tenantCondition": condition}}
            await milan.admin.patch(TENANTS, "rome", patch, AT_MILAN)

        await tenantstate.set_state(milan.admin, "rome", "Cordoned", milan.progress)
        assert (await milan.admin.get(QUOTAS, USER, AT_MILAN))["spec"]["cordoned"]
        replica = await milan.admin.get(RESOURCE_SLICES, "milan", AT_MILAN)
        assert verdicts(replica)["Resources"] == "Accepted"
        slice_of = await rome.admin.get(RESOURCE_SLICES, "milan", AT_ROME)
        second = {
            "metadata": {"name": "more", "labels": slice_of["metadata"]["labels"]},
            "spec": {"class": "default", "resources": {"cpu": "1"}},
        }
        await rome.admin.create(RESOURCE_SLICES, second, AT_ROME)
        await rome.until(
            RESOURCE_SLICES,
            "more",
            AT_ROME,
            lambda rs: verdicts(rs) == {"Authentication": "Accepted", "Resources": "Denied"},
        )
        # Authenticated it has nothing, and keeps nothing by that while the cordon lasts.
        await milan.admin.patch(
            RESOURCE_SLICES, "more", {"metadata": {"annotations": {"look": "again"}}}, AT_MILAN
        )
        used = ids.slice_user("more", "rome")
        assert await milan.admin.find(QUOTAS, used, AT_MILAN) is None
        secret = await milan.admin.get(SECRETS, ids.certificate_secret("more"), AT_MILAN)
        assert labels.BARREN in secret["metadata"]["annotations"]

        await become("Active")
        await milan.until(
            SECRETS,
            ids.certificate_secret("more"),
            AT_MILAN,
            lambda found: labels.BARREN not in found["metadata"]["annotations"],
        )
        await milan.until(QUOTAS, USER, AT_MILAN, lambda q: not q["spec"].get("cordoned"))
        await rome.until(
            RESOURCE_SLICES, "more", AT_ROME, lambda rs: verdicts(rs).get("Resources") == "Accepted"
        )

        await become("Drained")
        await milan.gone(RESOURCE_SLICES, "milan", AT_MILAN)
        assert (
            await milan.admin.find(ROLE_BINDINGS, "liqo-binding-liqo-remote-controlplane", AT_MILAN)
            is None
        )
        await rome.gone(NODES, "milan")

        await become("Active")
        with trio.fail_after(30):
            await rome.until(
                RESOURCE_SLICES,
                "milan",
                AT_ROME,
                lambda rs: verdicts(rs).get("Resources") == "Accepted",
            )


@pytest.mark.long
async def test_a_restarted_daemon_deletes_what_went_meanwhile():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await rome.stop()
        slice_of = await rome.admin.get(RESOURCE_SLICES, "milan", AT_ROME)
        await rome.admin.delete(RESOURCE_SLICES, "milan", AT_ROME)
        assert slice_of["metadata"].get("finalizers") is None
        await rome.start()
        await milan.gone(RESOURCE_SLICES, "milan", AT_MILAN)
        await milan.gone(QUOTAS, USER, AT_MILAN)


@pytest.mark.long
async def test_a_peering_user_reads_no_secret_but_the_nonce():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        user = await milan.peering_user(rome)
        async with Client(from_kubeconfig(user)) as client:
            assert await client.find(SECRETS, "liqo-nonce", AT_MILAN) is not None
            for refused in (
                client.find(SECRETS, "liqo-remote-certificate", AT_MILAN),
                client.list(SECRETS, Selection(AT_MILAN)),
                client.list(SECRETS),
                client.find(SECRETS, "authentication-keys", "liqo"),
            ):
                with pytest.raises(Forbidden):
                    await refused
            # A new one revokes the old.
            await milan.peering_user(rome)
            with pytest.raises(Forbidden):
                await client.find(SECRETS, "liqo-nonce", AT_MILAN)


@pytest.mark.long
async def test_an_id_that_means_something_here_is_refused_by_name():
    async with members("rome", "milan") as [rome, milan]:
        await milan.admin.create(
            CLUSTER_ROLE_BINDINGS,
            {
                "metadata": {"name": "the-romans"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "cluster-admin",
                },
                "subjects": [
                    {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "rome"}
                ],
            },
        )
        with pytest.raises(ConfigError, match="the-romans"):
            await rome.peer(milan)
        tenant = await milan.admin.get(TENANTS, "rome", AT_MILAN)
        assert "authParams" not in tenant.get("status", {})


@pytest.mark.long
async def test_certificates_are_renewed_in_place():
    # A certificate of 600 s began a minute ago: with this point it is due 2.6 s after it was made.
    short = "[webhook]\nenabled = false\n[certificates]\nlifetime = 600\nrenew_at = 0.095\n"
    async with members("rome", "milan", settings=short) as [rome, milan]:
        await rome.peer(milan)

        async def ends():
            found = {}
            for name in ("kubeconfig-controlplane-milan", "kubeconfig-resourceslice-milan"):
                secret = await rome.admin.get(SECRETS, name, AT_ROME)
                config = msgspec.convert(secret["data"]["kubeconfig"], bytes)
                found[name] = certificates.read(
                    from_kubeconfig(config).client_cert or b""
                ).not_after
            return found

        first = await ends()

        async def all_later():
            now = await ends()
            return all(now[name] > first[name] for name in first)

        await eventually(all_later, seconds=30)
        assert (await rome.admin.get(IDENTITIES, "controlplane-milan", AT_ROME))["spec"][
            "authParams"
        ]["signedCRT"]


@pytest.mark.long
async def test_a_peering_at_rest_writes_nothing():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await eventually(lambda: milan.admin.find(NAMESPACES, "shop-rome"))
        await trio.sleep(10)

        def writes():
            return {
                (member.id, *what): number
                for member in (rome, milan)
                for what, number in member.context.client.stats.requests.items()
                if what[0] not in ("get", "list", "watch") and what[1] not in ("leases",)
            }

        before = writes()
        # A change that concerns nobody, and one that makes everybody look again.
        for member, namespace in ((rome, AT_ROME), (milan, AT_MILAN)):
            patch = {"metadata": {"labels": {"touched": "true"}}}
            await member.admin.patch(RESOURCE_SLICES, "milan", patch, namespace)
            await member.admin.patch(NAMESPACE_MAPS, "milan", patch, namespace)
        await milan.admin.patch(TENANTS, "rome", patch, AT_MILAN)
        await rome.admin.patch(IDENTITIES, "controlplane-milan", patch, AT_ROME)
        await trio.sleep(1)
        assert writes() == before


@pytest.mark.long
async def test_a_peering_user_of_whom_nothing_came_leaves_nothing():
    async with members("milan", "rome") as [milan, rome]:
        before = milan.everything()
        await milan.peering_user(rome)
        assert milan.everything() > before
        await peeringusers.delete(milan.admin, "rome")
        await milan.gone(NAMESPACES, AT_MILAN)
        assert milan.everything() == before


@pytest.mark.long
async def test_one_consumer_has_two_providers():
    async with members("rome", "milan", "turin") as [rome, milan, turin]:
        before = [each.everything() for each in (rome, milan, turin)]
        await rome.peer(milan)
        await rome.peer(turin)
        assert is_ready(await rome.admin.get(NODES, "turin"))
        assert (await rome.unpeer(turin)).complete
        assert await rome.admin.find(NODES, "turin") is None
        node = await rome.admin.get(NODES, "milan")
        assert is_ready(node)
        assert node["metadata"]["labels"]["liqo.io/remote-cluster-id"] == "milan"
        assert (await rome.unpeer(milan)).complete
        for provider in (milan, turin):
            assert (await provider.unpeer(rome)).complete
        assert [each.everything() for each in (rome, milan, turin)] == before
