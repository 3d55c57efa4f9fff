"""Attacks of a hostile consumer on a provider, with every right it has there."""

from base64 import b64decode, b64encode

import pytest

from liqod.apimachinery.kinds import EVENTS, NAMESPACES, SECRETS
from liqod.apimachinery.labels import CORDON
from liqod.errors import ConfigError
from liqod.identity import certificaterequests, certificates, keys
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.model.ids import slice_user
from liqod.resources import (
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    QUOTAS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
)
from tests.simulated.borrower import eventually, offload
from tests.simulated.members import keyed, members

AT_MILAN = "liqo-tenant-rome"
AT_ROME = "liqo-tenant-milan"
BOUNDED = """
[webhook]
enabled = false
[guests]
max_slices = 2
max_namespaces = 2
max_resources = {cpu = "3"}
namespaces = ["*-{peer}"]
"""


def verdict(found, kind):
    """Status and message of a verdict on a slice."""
    conditions = (found or {}).get("status", {}).get("conditions", [])
    return next(((c["status"], c["message"]) for c in conditions if c["type"] == kind), ("", ""))


@pytest.mark.long
async def test_slices_end_where_one_consumer_may_have_no_more():
    async with members("rome", "milan", settings=BOUNDED) as [rome, milan]:
        await rome.peer(milan)  # with 2 CPUs
        spec = (await rome.admin.get(RESOURCE_SLICES, "milan", AT_ROME))["spec"]
        labels = {"liqo.io/remoteID": "milan", "liqo.io/replication": "true"}
        labels["liqo.io/remote-cluster-id"] = "milan"
        for name, kind, why in (
            ("second", "Resources", "one consumer may have cpu 3 in all its slices"),
            ("third", "Authentication", "one consumer may have 2 slices here"),
        ):
            asked = {"class": spec["class"], "resources": {"cpu": "2"}}
            made = {"metadata": {"name": name, "labels": labels}, "spec": asked}
            await rome.admin.create(RESOURCE_SLICES, made, AT_ROME)

            async def denied(name=name, kind=kind):
                found = verdict(await rome.admin.get(RESOURCE_SLICES, name, AT_ROME), kind)
                return found[1] if found[0] == "Denied" else None

            assert why in await eventually(denied)
        smaller = {"spec": {"resources": {"cpu": "1"}}}
        await rome.admin.patch(RESOURCE_SLICES, "second", smaller, AT_ROME)
        await eventually(lambda: milan.admin.find(QUOTAS, slice_user("second", "rome"), AT_MILAN))
        assert await milan.admin.find(QUOTAS, slice_user("third", "rome"), AT_MILAN) is None


@pytest.mark.long
async def test_who_asks_for_too_much_keeps_what_it_has():
    async with members("rome", "milan", settings=BOUNDED) as [rome, milan]:
        await rome.peer(milan)  # with 2 CPUs
        for asked, told in (
            ("100", "one consumer may have cpu 3"),
            ("-1", "negative quantities: cpu"),
        ):
            more = {"spec": {"resources": {"cpu": asked}}}
            await rome.admin.patch(RESOURCE_SLICES, "milan", more, AT_ROME)

            def denied(found, told=told):
                return told in verdict(found, "Resources")[1]

            found = await rome.until(RESOURCE_SLICES, "milan", AT_ROME, denied)
            assert verdict(found, "Resources")[0] == "Accepted"
            assert found["status"]["resources"]["cpu"] == "2"
            quota = await milan.admin.get(QUOTAS, slice_user("milan", "rome"), AT_MILAN)
            assert not quota["spec"].get("cordoned")
            assert quota["spec"]["resources"]["cpu"] == "2"
        node = await rome.admin.get(VIRTUAL_NODES, "milan", AT_ROME)
        assert node["spec"]["resourceQuota"]["hard"]["cpu"] == "2"
        for asked in ("50", "40", "40"):
            with pytest.raises(ConfigError, match=f"growth to the slice milan: .* cpu {asked} is"):
                await rome.peer(milan, resources={"cpu": asked})


@pytest.mark.long
async def test_a_slice_that_changes_its_class_has_nothing_and_gains_nothing():
    async with members("rome", "milan", settings=BOUNDED) as [rome, milan]:
        await rome.peer(milan)  # with 2 CPUs
        labels = {"liqo.io/remoteID": "milan", "liqo.io/replication": "true"}
        labels["liqo.io/remote-cluster-id"] = "milan"

        async def quota(name, cpu):
            async def look():
                found = await milan.admin.find(QUOTAS, slice_user(name, "rome"), AT_MILAN)
                return (found or {}).get("spec", {}).get("resources", {}).get("cpu", "") == cpu

            return await eventually(look)

        async def lent(cpu):
            found = await milan.admin.list(QUOTAS, Selection(AT_MILAN))
            assert [q["spec"]["resources"]["cpu"] for q in found] == [cpu]

        await quota("milan", "2")
        changed = {"spec": {"class": "gold"}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", changed, AT_ROME)
        await quota("milan", "")
        found = await milan.admin.get(RESOURCE_SLICES, "milan", AT_MILAN)
        assert verdict(found, "Resources") == ("", "")
        assert "resources" not in found["status"]
        assert verdict(found, "Authentication")[0] == "Accepted"

        theirs = {"type": "Resources", "status": "Accepted", "reason": "Gold", "message": ""}
        given = {"resources": {"cpu": "2"}, "conditions": [*found["status"]["conditions"], theirs]}
        await milan.admin.patch(
            RESOURCE_SLICES, "milan", {"status": given}, AT_MILAN, subresource="status"
        )
        await quota("milan", "2")
        spec = {"class": "default", "resources": {"cpu": "2"}}
        made = {"metadata": {"name": "more", "labels": labels}, "spec": spec}
        await rome.admin.create(RESOURCE_SLICES, made, AT_ROME)

        def denied(found):
            return "one consumer may have cpu 3" in verdict(found, "Resources")[1]

        await rome.until(RESOURCE_SLICES, "more", AT_ROME, denied)
        await lent("2")

        back = {"spec": {"class": "default", "resources": {"cpu": "3"}}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", back, AT_ROME)
        await quota("milan", "3")
        await lent("3")


@pytest.mark.long
async def test_a_crowd_of_slices_hides_none_that_has_something():
    """Eight are considered here, by their names; the one that has 2 CPUs comes behind."""
    async with members("rome", "milan", settings=BOUNDED) as [rome, milan]:
        await rome.peer(milan)  # with 2 CPUs
        labels = {"liqo.io/remoteID": "milan", "liqo.io/replication": "true"}
        labels["liqo.io/remote-cluster-id"] = "milan"
        for number in range(9):
            spec = {"class": "default", "resources": {"cpu": "2"}}
            made = {"metadata": {"name": f"a{number}", "labels": labels}, "spec": spec}
            await rome.admin.create(RESOURCE_SLICES, made, AT_ROME)

        def denied(found):
            return {verdict(found, each)[0] for each in ("Resources", "Authentication")} & {
                "Denied"
            }

        for number in range(8):
            await rome.until(RESOURCE_SLICES, f"a{number}", AT_ROME, denied)
        found = await milan.admin.list(QUOTAS, Selection(AT_MILAN))
        assert [(each["metadata"]["name"], each["spec"]["resources"]["cpu"]) for each in found] == [
            (slice_user("milan", "rome"), "2")
        ]


@pytest.mark.long
async def test_namespaces_end_where_one_consumer_may_have_no_more():
    async with members("rome", "milan", settings=BOUNDED) as [rome, milan]:
        await rome.peer(milan)
        for name in ("a", "b"):
            await offload(rome.admin, name)
        for name in ("a-rome", "b-rome"):
            await milan.until(NAMESPACES, name, None, bool)
        await offload(rome.admin, "c")
        await offload(rome.admin, "d", namespaceMappingStrategy="EnforceSameName")

        wanted = dict.fromkeys("ab", "Accepted") | dict.fromkeys("cd", "CreationLoopBackOff")

        def told(found):
            current = found.get("status", {}).get("currentMapping", {})
            return {name: each.get("phase") for name, each in current.items()} == wanted

        await rome.until(NAMESPACE_MAPS, "milan", AT_ROME, told)
        for name in ("c-rome", "d"):
            assert await milan.admin.find(NAMESPACES, name) is None
        for name, why in (("c", "may have 2 namespaces here"), ("d", "the name d is not for")):

            def says(found, why=why):
                return why in str(found.get("status", {}))

            await rome.until(NAMESPACE_OFFLOADINGS, "offloading", name, says)


@pytest.mark.long
async def test_a_cordon_is_not_shed_with_the_slice():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        user = slice_user("milan", "rome")
        cordoned = {"metadata": {"annotations": {CORDON: "true"}}}
        await milan.admin.patch(RESOURCE_SLICES, "milan", cordoned, AT_MILAN)
        quota = await milan.until(QUOTAS, user, AT_MILAN, lambda q: q["spec"].get("cordoned"))
        await rome.admin.delete(RESOURCE_SLICES, "milan", AT_ROME)
        await milan.gone(QUOTAS, user, AT_MILAN)
        await milan.gone(RESOURCE_SLICES, "milan", AT_MILAN)
        await rome.peer(milan)
        again = await milan.until(QUOTAS, user, AT_MILAN, lambda q: q["spec"].get("cordoned"))
        assert again["metadata"]["uid"] != quota["metadata"]["uid"]
        found = await milan.admin.get(RESOURCE_SLICES, "milan", AT_MILAN)
        assert found["metadata"]["annotations"][CORDON] == "true"
        released = {"metadata": {"annotations": {CORDON: None}}}
        await milan.admin.patch(RESOURCE_SLICES, "milan", released, AT_MILAN)
        await milan.until(QUOTAS, user, AT_MILAN, lambda q: not q["spec"].get("cordoned"))


@pytest.mark.long
async def test_an_accepted_tenant_gets_no_certificate_for_another_name():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        own = await rome.admin.get(SECRETS, "authentication-keys", "liqo")
        private, mine = b64decode(own["data"]["privateKey"]), await keyed(rome)
        client = milan.admin  # a peering user may not even ask
        for key in (keys.generate(), private):
            tenant = await client.get(TENANTS, "rome", AT_MILAN)
            good = tenant["spec"]["csr"]
            evil = certificaterequests.make_csr(key, "kubernetes-admin", "kubeadm:cluster-admins")
            tenant["spec"]["csr"] = b64encode(evil).decode()
            await client.update(TENANTS, tenant, AT_MILAN)

            async def refused():
                events = await milan.admin.list(EVENTS, Selection(AT_MILAN))
                return any("CN=kubernetes-admin" in each["message"] for each in events)

            await eventually(refused)
            tenant = await client.get(TENANTS, "rome", AT_MILAN)
            given = b64decode(tenant["status"]["authParams"]["signedCRT"])
            assert certificates.read(given).common_name == mine
            tenant["spec"]["csr"] = good
            await client.update(TENANTS, tenant, AT_MILAN)
        kept = await milan.admin.get(SECRETS, "liqo-remote-certificate", AT_MILAN)
        assert certificates.read(b64decode(kept["data"]["certificate"])).common_name == mine


@pytest.mark.long
async def test_a_finalizer_keeps_nothing_for_a_consumer_that_is_drained():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await eventually(lambda: milan.admin.find(NAMESPACES, "shop-rome"))
        stay = {"metadata": {"finalizers": ["rome.example/stay"]}}
        for kind in (RESOURCE_SLICES, NAMESPACE_MAPS):
            await milan.admin.patch(kind, "milan", stay, AT_MILAN)
        drained = {"spec": {"tenantCondition": "Drained"}}
        await milan.admin.patch(TENANTS, "rome", drained, AT_MILAN)
        await milan.gone(NAMESPACES, "shop-rome")
        await milan.gone(QUOTAS, slice_user("milan", "rome"), AT_MILAN)
        for kind in (RESOURCE_SLICES, NAMESPACE_MAPS):
            assert await milan.admin.find(kind, "milan", AT_MILAN) is not None


@pytest.mark.long
async def test_a_nonce_of_ones_own_choice_is_replaced():
    """Or a signature that was given for another cluster's nonce would serve here."""
    chosen = b64encode(b"signed long ago" * 4).decode()
    async with members("rome", "milan") as [rome, milan]:
        user = await milan.peering_user(rome)
        secret = {
            "metadata": {"name": "liqo-nonce", "labels": {"liqo.io/nonce": "true"}},
            "data": {"nonce": b64encode(chosen.encode()).decode()},
        }
        async with Client(from_kubeconfig(user)) as client:
            await client.create(SECRETS, secret, AT_MILAN)
            found = await milan.until(
                SECRETS, "liqo-nonce", AT_MILAN, lambda s: s["data"] != secret["data"]
            )
            # It stays what it is now, no matter who looks again.
            await milan.stop()
            await milan.start()
            await rome.peer(milan)
        assert (await milan.admin.get(SECRETS, "liqo-nonce", AT_MILAN))["data"] == found["data"]
