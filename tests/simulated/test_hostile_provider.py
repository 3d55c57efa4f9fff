"""What a provider that means ill cannot get from its consumer."""

import trio

from liqod.kube.kinds import NAMESPACES, SECRETS
from liqod.resources import NAMESPACE_MAPS
from tests.simulated.reflecting import SHOP, TENANT, THERE, mapped_namespace, pair


async def test_a_provider_gets_no_namespace_that_was_not_offloaded_to_it():
    async with pair() as both, trio.open_nursery() as nursery:
        for name in ("bank", "till"):
            await both.here.create(NAMESPACES, {"metadata": {"name": name}})
            await both.here.create(SECRETS, {"metadata": {"name": "vault"}}, name)
        await both.here.create(SECRETS, {"metadata": {"name": "open"}}, SHOP)
        for name in ("bank-rome", "elsewhere", "till-rome"):
            await both.there.create(NAMESPACES, mapped_namespace(name))
        wanted = {"spec": {"desiredMapping": {"till": "till-rome"}}}
        await both.here.patch(NAMESPACE_MAPS, "milan", wanted, TENANT)
        claimed = {"bank": "bank-rome", "till": "elsewhere"}
        entries = {
            name: {"remoteNamespace": remote, "phase": "Accepted"}
            for name, remote in claimed.items()
        }
        status = {"status": {"currentMapping": entries}}
        await both.here.patch(NAMESPACE_MAPS, "milan", status, TENANT, subresource="status")
        await both.start(nursery)
        await both.comes(SECRETS, "open", namespace=THERE)
        await trio.sleep(0.3)
        for remote in ("bank-rome", "elsewhere", "till-rome"):
            assert await both.there.list(SECRETS, remote) == []
        nursery.cancel_scope.cancel()
