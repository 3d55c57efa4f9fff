"""A provider's work for a consumer that runs Liqo."""

from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import EVENTS, NAMESPACES
from liqod.kube.selection import Selection
from liqod.resources import NAMESPACE_MAPS, TENANTS
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually, offload
from tests.simulated.lender import SHOP
from tests.simulated.members import members
from tests.simulated.prepared import installed
from tests.simulated.provider.shadowed import at_work, lending

AT_MILAN = "liqo-tenant-rome"


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("milan", state=await installed("milan")) as embedded:
        yield embedded


async def test_a_consumer_that_runs_liqo_is_told_by_an_event_about_the_pod_to_be(cluster):
    async with lending(cluster) as made, at_work(made):
        await made.grant(cpu="1")
        await made.ask_for("web-1", cpu="2", annotations={})
        await made.ask_for("web-2", cpu="2")
        for name in ("web-1", "web-2"):
            await made.told(name, "reason", "OverQuota")

        async def told() -> list[dict[str, Any]]:
            found = await made.admin.list(EVENTS, Selection(SHOP))
            return [each for each in found if each["reason"] == "OverQuota"]

        [event] = await eventually(told)
        about = event["involvedObject"]
        assert (about["apiVersion"], about["kind"], about["name"]) == ("v1", "Pod", "web-1")
        assert "cpu: the pod asks for 2" in event["message"]


@pytest.mark.long
@pytest.mark.parametrize("how", ["drain", "unpeer"])
async def test_a_consumers_maps_are_empty_before_its_rights_go(how: str):
    """A Liqo consumer learns by that alone that its pods have ended."""
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await milan.until(NAMESPACE_MAPS, "milan", AT_MILAN, mapped)
        await rome.stop()
        if how == "drain":
            drained = {"spec": {"tenantCondition": "Drained"}}
            await milan.admin.patch(TENANTS, "rome", drained, AT_MILAN)
        else:
            await milan.admin.delete(TENANTS, "rome", AT_MILAN)
        await milan.until(NAMESPACE_MAPS, "milan", AT_MILAN, lambda found: not mapped(found))
        await trio.sleep(1.0)
        assert await milan.admin.find(NAMESPACE_MAPS, "milan", AT_MILAN) is not None
        await milan.gone(NAMESPACE_MAPS, "milan", AT_MILAN)
        await milan.gone(NAMESPACES, "shop-rome")


def mapped(found: dict[str, Any]) -> bool:
    return bool((found.get("status") or {}).get("currentMapping"))
