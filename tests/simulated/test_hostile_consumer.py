"""What a consumer that means ill cannot get from a provider, with every right it has there."""

from base64 import b64decode, b64encode

from liqod.identity import certificates, keys, requests
from liqod.kube.client import Client
from liqod.kube.credentials import from_kubeconfig
from liqod.kube.kinds import EVENTS, NAMESPACES, SECRETS
from liqod.model.ids import slice_user
from liqod.resources import NAMESPACE_MAPS, QUOTAS, RESOURCE_SLICES, TENANTS
from tests.simulated.borrower import eventually, offload
from tests.simulated.peering import members

AT_MILAN = "liqo-tenant-rome"


async def test_an_accepted_tenant_gets_no_certificate_for_another_name():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        own = await rome.admin.get(SECRETS, "authentication-keys", "liqo")
        private = b64decode(own["data"]["privateKey"])
        user = await milan.peering_user(rome)
        async with Client(from_kubeconfig(user)) as client:
            for key in (keys.generate(), private):
                tenant = await client.get(TENANTS, "rome", AT_MILAN)
                good = tenant["spec"]["csr"]
                evil = requests.make_csr(key, "kubernetes-admin", "kubeadm:cluster-admins")
                tenant["spec"]["csr"] = b64encode(evil).decode()
                await client.update(TENANTS, tenant, AT_MILAN)

                async def refused():
                    events = await milan.admin.list(EVENTS, AT_MILAN)
                    return any("CN=kubernetes-admin" in each["message"] for each in events)

                await eventually(refused)
                tenant = await client.get(TENANTS, "rome", AT_MILAN)
                given = b64decode(tenant["status"]["authParams"]["signedCRT"])
                assert certificates.read(given).common_name == "rome"
                tenant["spec"]["csr"] = good
                await client.update(TENANTS, tenant, AT_MILAN)
        kept = await milan.admin.get(SECRETS, "liqo-remote-certificate", AT_MILAN)
        assert certificates.read(b64decode(kept["data"]["certificate"])).common_name == "rome"


async def test_a_finalizer_keeps_nothing_for_a_consumer_that_is_drained():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.home, "shop")
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
