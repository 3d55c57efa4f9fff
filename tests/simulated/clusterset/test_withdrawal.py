"""Services of the set are withdrawn where the configuration shares none any more."""

import pytest

from liqod.apimachinery.kinds import ENDPOINT_SLICES, NAMESPACES
from liqod.resources.exchanges import SERVICE_EXCHANGES
from tests.simulated.borrower import eventually
from tests.simulated.clusterset.sets import (
    EXPORTS,
    IMPORTS,
    SHARING,
    conditions,
    export,
    imported,
    services,
    share,
    sharing,
    until_backends,
)

pytestmark = [pytest.mark.long, pytest.mark.clusterset]
OFF = SHARING.replace("enabled = true", "enabled = false")


@pytest.mark.parametrize("off", [0, 1], ids=["consumer", "provider"])
async def test_a_cluster_that_shares_no_more_leaves_nothing_at_either_end(off):
    async with sharing("rome", "milan") as both:
        rome, milan = both
        await rome.peer(milan)
        for who, peer in ((rome, "milan"), (milan, "rome")):
            await share(who, peer)
        await export(rome, "10.71.0.1")
        await export(milan, "10.72.0.1")
        for who in both:
            await imported(who, "milan", "rome")
        leaves, stays = both[off], both[1 - off]
        await leaves.stop()
        leaves.settings = OFF
        await leaves.start()
        await leaves.gone(IMPORTS, "web", "shop")
        await until_backends(leaves, {})
        assert await services(leaves) == ["web"]
        assert await conditions(leaves) == {}
        await leaves.admin.get(EXPORTS, "web", "shop")
        await imported(stays, stays.id)
        address = "10.72.0.1" if stays is milan else "10.71.0.1"
        await until_backends(stays, {stays.id: {address: True}})

        async def is_told_nothing():
            found = await leaves.admin.list(SERVICE_EXCHANGES)
            halves = [each.get("status") or {} for each in found]
            return not any(half.get("exports") or half.get("shared") for half in halves)

        await eventually(is_told_nothing)


async def test_what_another_program_has_made_stays():
    async with sharing("rome") as [rome]:
        await rome.admin.create(NAMESPACES, {"metadata": {"name": "shop"}})
        theirs = {"type": "ClusterSetIP", "ports": [{"port": 81, "protocol": "TCP"}]}
        await rome.admin.create(IMPORTS, {"metadata": {"name": "api"}, "spec": theirs}, "shop")
        await export(rome, "10.71.0.1")
        await imported(rome, "rome")
        await rome.stop()
        rome.settings = OFF
        await rome.start()
        await rome.gone(IMPORTS, "web", "shop")
        await rome.admin.get(IMPORTS, "api", "shop")
        await rome.admin.get(ENDPOINT_SLICES, "web-1", "shop")
