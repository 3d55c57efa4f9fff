"""Peerings of several clusters and slices, and daemons that are replaced in them."""

from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import NODES
from liqod.errors import Forbidden
from liqod.kube.selection import Selection
from liqod.procedures import peeringusers
from liqod.resources import IDENTITIES, QUOTAS, RESOURCE_SLICES, TENANTS
from tests.simulated.borrower import Json, eventually
from tests.simulated.members import AT_MILAN, AT_ROME, Member, members
from tests.simulated.shops import is_ready

pytestmark = pytest.mark.long


async def node_is_ready(member: Member, name: str) -> bool:
    """True if there is a node of this name, and it is Ready."""
    found = await member.admin.find(NODES, name)
    return found is not None and is_ready(found)


async def test_one_provider_has_two_consumers_and_ends_it_with_one() -> None:
    async with members("rome", "turin", "milan") as [rome, turin, milan]:
        await rome.peer(milan)
        await turin.peer(milan)
        assert await node_is_ready(rome, "milan")
        assert await node_is_ready(turin, "milan")
        tenants = await milan.admin.list(TENANTS)
        assert {each["metadata"]["name"] for each in tenants} == {"rome", "turin"}
        assert (await milan.unpeer(rome)).complete
        await rome.gone(NODES, "milan")
        await trio.sleep(60)  # as long as a virtual node takes to be given up
        assert await node_is_ready(turin, "milan")


async def test_a_peering_user_who_was_revoked_cannot_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with members("rome", "milan") as [rome, milan]:
        ordinary = Member.peering_user

        async def revoked(member: Member, consumer: Member, **more: Any) -> bytes:
            """A user whose rights are taken back before they are used."""
            made = await ordinary(member, consumer, **more)
            assert await peeringusers.delete(member.admin, consumer.id)
            return made

        monkeypatch.setattr(Member, "peering_user", revoked)
        with pytest.raises(Forbidden, match="liqo-peering-user-rome"):
            await rome.peer(milan)
        assert await rome.admin.find(NODES, "milan") is None


async def identities(rome: Member) -> set[str]:
    """The slices for which rome has an identity at milan."""
    found = await rome.admin.list(IDENTITIES, Selection(AT_ROME))
    return {each["metadata"]["name"] for each in found if each["spec"]["type"] == "ResourceSlice"}


async def pods_granted(milan: Member) -> dict[str, str]:
    """The number of pods that milan grants to each of rome's users; each slice has one."""
    found = await milan.admin.list(QUOTAS, Selection(AT_MILAN))
    return {each["spec"]["user"]: each["spec"]["resources"]["pods"] for each in found}


async def test_two_slices_to_one_peer_are_two_nodes() -> None:
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        before, granted = await identities(rome), await pods_granted(milan)
        [first] = await rome.admin.list(RESOURCE_SLICES)
        second: Json = {
            "metadata": {
                "name": "milan-more",
                "labels": first["metadata"]["labels"],
                "annotations": {"liqo.io/create-virtual-node": "true"},
            },
            "spec": {
                "class": "default",
                "providerClusterID": "milan",
                "resources": {"cpu": "1", "memory": "1Gi", "pods": "5"},
            },
        }
        await rome.admin.create(RESOURCE_SLICES, second, AT_ROME)
        node = await rome.until(NODES, "milan-more", None, is_ready)
        assert node["status"]["allocatable"]["pods"] == "5"
        assert len(await identities(rome) - before) == 1
        now = await pods_granted(milan)
        assert now.items() > granted.items()
        assert [now[user] for user in now.keys() - granted.keys()] == ["5"]

        await rome.admin.delete(RESOURCE_SLICES, "milan-more", AT_ROME)
        await rome.gone(NODES, "milan-more")
        await eventually(lambda: pods_granted(milan), lambda found: found == granted)
        await eventually(lambda: identities(rome), lambda found: found == before)
        assert await node_is_ready(rome, "milan")


@pytest.mark.parametrize("killed", ["rome", "milan"])
async def test_a_daemon_that_is_replaced_keeps_the_node(killed: str) -> None:
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        uid = (await rome.admin.get(NODES, "milan"))["metadata"]["uid"]
        member = rome if killed == "rome" else milan
        for _ in range(2):
            await member.stop()
            await member.start()
            await trio.sleep(60)
            found = await rome.admin.get(NODES, "milan")
            assert (found["metadata"]["uid"], is_ready(found)) == (uid, True)
