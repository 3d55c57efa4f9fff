"""Endpoints of a silent consumer, which clients try where no other is ready."""

import pytest

from liqod.apimachinery.kinds import EVENTS
from liqod.kube.selection import Selection
from liqod.resources import SHADOW_ENDPOINT_SLICES
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.lender import SHOP, shadow_slice
from tests.simulated.prepared import installed
from tests.simulated.provider.test_shadowendpointslices import addresses, lending


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("milan", state=await installed("milan")) as embedded:
        yield embedded


async def test_those_that_nothing_gets_through_to_are_used_last_where_their_service_asks_for_it(
    cluster,
):
    async def said(made):
        found = await made.admin.list(EVENTS, Selection(SHOP))
        return [each for each in found if each["reason"] == "EndpointsKept"] or None

    async with lending(cluster) as made:
        told = shadow_slice("web-1", "10.1.0.1")
        wish = {"metadata": {"annotations": {"liqod.io/keep-last-endpoints": "true"}}}
        told["metadata"] |= wish["metadata"]
        await made.admin.create(SHADOW_ENDPOINT_SLICES, told, SHOP)
        found = await addresses(made, "10.1.0.1")
        assert wish["metadata"]["annotations"].keys().isdisjoint(found["metadata"]["annotations"])
        made.link.set(False, "its API server does not answer")
        found = await addresses(made, "10.1.0.1", ready=False)
        assert conditions(found) == [{"ready": False, "serving": True, "terminating": True}]
        [event] = await eventually(lambda: said(made))
        assert event["involvedObject"]["name"] == "web-1"
        assert event["type"] == "Normal"
        silent = "nothing gets through to rome; clients try it where no other endpoint is ready"
        assert event["message"] == f"at milan: {silent}"
        # The wish ends, and is there again.
        for value, wanted in ((None, None), ("true", True)):
            change = {"metadata": {"annotations": {"liqod.io/keep-last-endpoints": value}}}
            await made.admin.patch(SHADOW_ENDPOINT_SLICES, "web-1", change, SHOP)

            async def look(wanted=wanted):
                (now,) = conditions(await addresses(made, "10.1.0.1", ready=False))
                return (now.get("serving"), now.get("terminating")) == (wanted, wanted)

            await eventually(look)
        made.link.set(True, "its API server answers")
        found = await addresses(made, "10.1.0.1")
        assert all(each.get("serving") is None for each in conditions(found))
        assert all(each.get("terminating") is None for each in conditions(found))


def conditions(found):
    return [each["conditions"] for each in found["endpoints"]]
