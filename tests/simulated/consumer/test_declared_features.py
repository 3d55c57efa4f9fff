"""Features that a provider's nodes declare: virtual nodes declare those that all of them do."""

import pytest

from liqod.apimachinery.kinds import NODES
from tests.simulated.borrower import Json, eventually
from tests.simulated.consumer.test_node_parts import ask, pools, virtual
from tests.simulated.members import Member

RESTARTS, RESIZE = "RestartAllContainersOnContainerExits", "GuaranteedQoSPodCPUResize"


async def declare(member: Member, node: str, *features: str) -> None:
    """Have a node declare these features, as its kubelet does."""
    status = {"status": {"declaredFeatures": sorted(features) or None}}
    await member.admin.patch(NODES, node, status, subresource="status")


async def come_to(rome: Member, wanted: dict[str, list[str] | None]) -> None:
    """What the virtual nodes of the pools come to declare."""

    async def declared() -> bool:
        found = await virtual(rome)
        return {
            pool: each["status"].get("declaredFeatures") for pool, each in found.items()
        } == wanted

    await eventually(declared, seconds=60)


@pytest.mark.long
async def test_a_virtual_node_declares_what_pods_have_on_all_nodes_that_it_stands_for() -> None:
    async with pools() as (rome, milan, own):
        for name in own[:2]:
            await declare(milan, name, RESTARTS, RESIZE, "ExtendWebSocketsToKubelet")
        await declare(milan, own[2], RESIZE, "CgroupOptions")
        # An API server here that does not know the field would lose it at each write.
        await come_to(rome, {"": None})
        found: list[Json] = await rome.admin.list(NODES)
        here = next(each["metadata"]["name"] for each in found if "milan" not in str(each))
        await declare(rome, here, "AnyFeature")
        await come_to(rome, {"": [RESIZE]})
        await ask(rome, "groups")
        await come_to(rome, {"red": [RESIZE, RESTARTS], "blue": [RESIZE]})
        await declare(milan, own[0], RESTARTS)
        await come_to(rome, {"red": [RESTARTS], "blue": [RESIZE]})
        await declare(rome, here)
        await come_to(rome, {"red": None, "blue": None})
