"""A definition that somebody deletes: what was made for its objects is left alone until it is back.

The peering itself, the mapped namespaces and the nodes outlive it, on either side.
"""

import pytest
import trio

from liqod import install
from liqod.apimachinery.kinds import CUSTOM_RESOURCES, NAMESPACES, NODES
from liqod.kube.definitions import name_of
from liqod.kube.selection import Selection
from liqod.provider.timings import ProviderTimings
from liqod.resources import (
    IDENTITIES,
    NAMESPACE_MAPS,
    QUOTAS,
    RENEWS,
    RESOURCE_SLICES,
    VIRTUAL_NODES,
    page,
)
from simulator.storage.storage import Change
from tests.simulated.borrower import eventually, offload
from tests.simulated.members import AT_MILAN, AT_ROME, Member, members
from tests.simulated.prepared import quiet

SOON = ProviderTimings(orphans=0.2)
"""Doubts are looked into soon."""


async def lasting(rome: Member, milan: Member) -> list[str]:
    """The UIDs of the mapped namespace and of the node, neither of which is on its way out."""
    found = [await milan.admin.get(NAMESPACES, "shop-rome"), await rome.admin.get(NODES, "milan")]
    assert not any("deletionTimestamp" in each["metadata"] for each in found)
    return [each["metadata"]["uid"] for each in found]


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "kind"),
    [("milan", NAMESPACE_MAPS), ("rome", VIRTUAL_NODES)],
)
async def test_deleted_and_installed_again(where, kind):
    async with members("rome", "milan", timings=SOON) as (rome, milan):
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await eventually(lambda: milan.admin.find(NAMESPACES, "shop-rome"))
        before = await lasting(rome, milan)
        there = rome if where == "rome" else milan
        await there.admin.delete(CUSTOM_RESOURCES, name_of(kind))
        await there.gone(CUSTOM_RESOURCES, name_of(kind))
        await trio.sleep(1.5)
        assert await lasting(rome, milan) == before

        await install.install(there.admin, install.Options(cluster_id=where), quiet)

        async def back():
            return await there.admin.list(kind)

        await eventually(back, seconds=20)
        await offload(rome.admin, "bank")
        await eventually(lambda: milan.admin.find(NAMESPACES, "bank-rome"), seconds=20)
        assert await lasting(rome, milan) == before


def test_the_page_of_resources_is_made_of_the_definitions():
    assert page.FILE.read_text() == page.render(), "run `python -m liqod.resources`"


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "owners", "made"),
    [
        ("rome", IDENTITIES, RENEWS),
        ("rome", RESOURCE_SLICES, VIRTUAL_NODES),
        ("milan", RESOURCE_SLICES, QUOTAS),
    ],
)
async def test_what_has_lost_its_owner_is_not_made_again_and_again(where, owners, made):
    async with members("rome", "milan", timings=SOON) as (rome, milan):
        await rome.peer(milan)
        there, place = (rome, AT_ROME) if where == "rome" else (milan, AT_MILAN)
        await eventually(lambda: there.admin.list(made, Selection(place)))
        created = 0

        def count(change: Change) -> None:
            nonlocal created
            created += change.before is None

        there.cluster.registry.storage.of(name_of(made)).listeners.append(count)
        await there.admin.delete(CUSTOM_RESOURCES, name_of(owners))
        await there.gone(CUSTOM_RESOURCES, name_of(owners))
        await trio.sleep(3)
        assert created <= 1
