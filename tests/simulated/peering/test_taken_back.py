"""Rights that somebody deletes by hand, on either side: what is seen, and the way back."""

from pathlib import Path

import pytest

from liqod.apimachinery.kinds import NAMESPACES, NODES
from liqod.resources import TENANTS
from tests.simulated.borrower import eventually
from tests.simulated.meeting import run
from tests.simulated.members import AT_MILAN, AT_ROME, Member
from tests.simulated.shops import PATIENCE, SHOP, THERE, open_shop, pods_of, ready_pods

pytestmark = pytest.mark.long

SAID = "slice milan denied: the provider has withdrawn its permission"


async def status(rome: Member, folder: Path) -> str:
    """What `liqod status` prints."""
    return " ".join((await run(rome, folder, "status")).out.split())


async def peers_again(rome: Member, milan: Member) -> None:
    """Peer as before, after which the Deployment's pods are Ready again."""
    await rome.peer(milan)
    await eventually(
        lambda: ready_pods(rome, SHOP), lambda found: len(found) == 2, seconds=PATIENCE
    )
    assert len(await pods_of(milan, THERE)) == 2


@pytest.mark.parametrize("what", ["the Tenant", "its namespace"])
async def test_a_consumer_whose_rights_are_deleted_sees_why_and_peers_again(
    what: str, tmp_path: Path
) -> None:
    async with open_shop("milan", leads=True) as [rome, milan]:
        if what == "the Tenant":
            await milan.admin.delete(TENANTS, "rome", AT_MILAN)
        else:
            await milan.admin.delete(NAMESPACES, AT_MILAN)
        await eventually(lambda: status(rome, tmp_path), lambda shown: SAID in shown)
        await milan.gone(NAMESPACES, THERE)
        if what == "its namespace":
            await milan.gone(NAMESPACES, AT_MILAN)
        await peers_again(rome, milan)
        await eventually(lambda: status(rome, tmp_path), lambda shown: SAID not in shown)


async def test_a_consumer_that_deletes_its_tenant_namespace_peers_again() -> None:
    async with open_shop("milan") as [rome, milan]:
        await rome.admin.delete(NAMESPACES, AT_ROME)
        await rome.gone(NAMESPACES, AT_ROME)
        assert await rome.admin.find(NODES, "milan") is None
        await peers_again(rome, milan)
