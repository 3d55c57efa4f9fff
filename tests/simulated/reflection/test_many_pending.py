"""Many pods that stay Pending at a peer: why is asked at a pace, and nothing waits for that."""

from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import NODES, PODS
from liqod.reflection.view import AT_ONCE, PATIENT
from liqod.resources import QUOTAS
from tests.simulated.lendingpods import LENDER, lending
from tests.simulated.reflecting import SHOP, THERE

MANY = 60


@pytest.mark.long
async def test_why_many_pods_stay_pending_is_asked_at_a_pace():
    async with lending() as (both, _):
        for node in await both.there.list(NODES):
            cordoned = {"spec": {"unschedulable": True}}
            await both.there.patch(NODES, node["metadata"]["name"], cordoned)
        room = {"spec": {"resources": {"pods": "100", "cpu": "100", "memory": "100Gi"}}}
        await both.there.patch(QUOTAS, "milan-rome", room, LENDER)
        before, began = both.requests(), trio.current_time()
        for number in range(MANY):
            await both.pod(f"web-{number}")
        last = f"web-{MANY - 1}"
        note = {"metadata": {"labels": {"later": "yes"}}}
        await both.here.patch(PODS, last, note, SHOP)

        def followed(found: dict[str, Any]) -> bool:
            return bool(found["metadata"]["labels"].get("later") == "yes")

        await both.comes(PODS, last, followed)
        read = both.since(before).count(("get", "pods"))
        passed = trio.current_time() - began
        assert read <= AT_ONCE + PATIENT * passed + 1
        # One that has not had its turn is deleted at once all the same.
        await both.here.delete(PODS, last, SHOP)
        await both.goes(PODS, last, namespace=THERE)

        def told(found: dict[str, Any]) -> bool:
            return bool(found["status"].get("reason") == "Unschedulable")

        for number in range(MANY - 1):
            await both.comes(PODS, f"web-{number}", told, client=both.here, namespace=SHOP)
