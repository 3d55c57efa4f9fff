"""The program of the chart's Job: it leaves every peer, ends in time, and names what is left."""

from pathlib import Path

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CUSTOM_RESOURCES, NAMESPACES, NODES, SECRETS
from liqod.install.departure import depart
from liqod.resources import FOREIGN_CLUSTERS, NAMESPACE_OFFLOADINGS, TENANTS, VIRTUAL_NODES
from tests.simulated.meeting import run
from tests.simulated.members import Member, members
from tests.simulated.prepared import quiet
from tests.simulated.remedies import taken

RECORD = {
    "metadata": {
        "name": "sh.helm.release.v1.liqod.v1",
        "labels": {"owner": "helm", "status": "uninstalling"},
    }
}


async def departed(member: Member, within: float = 30.0) -> list[str]:
    """What is left after the Job of this cluster, which ends in time."""
    await member.admin.create(SECRETS, RECORD, "liqo")
    with trio.fail_after(within + 10):
        return await depart(member.admin, "liqo", within=within, progress=quiet)


async def offload(member: Member, namespace: str) -> None:
    await member.admin.create(NAMESPACES, {"metadata": {"name": namespace}})
    wanted = {"metadata": {"name": "offloading"}, "spec": {}}
    await member.admin.create(NAMESPACE_OFFLOADINGS, wanted, namespace)


@pytest.mark.long
async def test_every_peer_is_left_and_namespaces_come_back():
    async with members("rome", "milan", "genoa", leads=True) as [rome, milan, genoa]:
        await rome.peer(milan)
        await genoa.peer(rome)
        await offload(rome, "shop")
        left = await departed(rome)
        assert len(left) == 2
        assert any(line.startswith("milan keeps its Tenant rome until") for line in left)
        assert any(line.startswith("genoa keeps its virtual nodes and slices") for line in left)
        for kind in (VIRTUAL_NODES, TENANTS, NAMESPACE_OFFLOADINGS, FOREIGN_CLUSTERS):
            assert await rome.admin.list(kind) == [], kind


@pytest.mark.install
@pytest.mark.long
async def test_a_dead_peer_is_left_and_named_and_given_up_on_request(tmp_path: Path):
    async with members("rome", "milan", leads=True) as [rome, milan]:
        await rome.peer(milan)
        await milan.stop()
        await milan.cluster.stop()
        [line] = await departed(rome)
        assert line.startswith("milan does not answer: ")
        assert "`liqod uninstall --forget`" in line
        await rome.gone(NODES, "milan")
        await rome.stop()
        left = await run(rome, tmp_path, "uninstall", "--yes")
        assert left.status == 1
        gone = await run(rome, tmp_path, *taken(left.err, "uninstall --forget"), "--yes")
        assert gone.status == 0, gone.err
        assert await rome.admin.list(FOREIGN_CLUSTERS) == []


@pytest.mark.install
@pytest.mark.long
async def test_without_a_daemon_nothing_is_begun():
    async with members("rome", "milan", leads=True) as [rome, milan]:
        await rome.peer(milan)
        await rome.stop()
        assert await departed(rome) == ["no daemon works here: milan stays as it is"]
        assert await rome.admin.find(FOREIGN_CLUSTERS, "milan") is not None
        node = await rome.admin.get(VIRTUAL_NODES, "milan", "liqo-tenant-milan")
        assert "deletionTimestamp" not in node["metadata"]


@pytest.mark.install
@pytest.mark.long
async def test_what_does_not_end_is_named_in_time():
    async with members("rome", "milan", leads=True) as [rome, milan]:
        await rome.peer(milan)
        held = {"metadata": {"finalizers": ["example.com/nobody"]}}
        await rome.admin.patch(VIRTUAL_NODES, "milan", held, "liqo-tenant-milan")
        assert await departed(rome, within=2.0) == ["the peering with milan has not ended in time"]


@pytest.mark.install
@pytest.mark.long
async def test_what_is_not_defined_any_more_is_not_missed():
    async with members("rome") as [rome]:
        for each in await rome.admin.list(CUSTOM_RESOURCES):
            await rome.admin.delete(CUSTOM_RESOURCES, each["metadata"]["name"])
        assert await departed(rome) == []


@pytest.mark.install
@pytest.mark.long
async def test_peers_whose_objects_went_with_their_definitions_are_named(tmp_path: Path):
    async with members("rome", "milan", leads=True) as [rome, milan]:
        await rome.peer(milan)
        await rome.stop()
        for each in await rome.admin.list(CUSTOM_RESOURCES):
            await rome.admin.delete(CUSTOM_RESOURCES, each["metadata"]["name"])
        [line] = await departed(rome)
        assert "` at milan ends what is there of this cluster" in line
        ended = await run(milan, tmp_path, *taken(line, "unpeer x"), "--yes")
        assert ended.status == 0, ended.err


@pytest.mark.install
@pytest.mark.long
async def test_it_does_nothing_while_helm_does_not_uninstall():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        left = await depart(rome.admin, "liqo", progress=quiet)
        assert left == ["Helm uninstalls no release here: every peer stays"]
        found = await rome.admin.get(NODES, "milan")
        assert labels.TYPE in found["metadata"]["labels"]
