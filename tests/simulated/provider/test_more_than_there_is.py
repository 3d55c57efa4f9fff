"""A provider that has granted more than its nodes have, and a pod that finds no place there."""

import json
from pathlib import Path

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, PODS
from liqod.kube.selection import EVERY
from liqod.plugins import loader
from liqod.resources import RESOURCE_SLICES
from tests.simulated.borrower import eventually, offload
from tests.simulated.meeting import ask, entries, lead, meeting
from tests.simulated.members import Member, members
from tests.simulated.processes import Ended, command

MUCH = {"cpu": "1000", "memory": "4Gi", "pods": "20"}


async def run(member: Member, folder: Path, *words: str) -> Ended:
    """A command of a cluster's administrator."""
    path = folder / f"{member.id}.kubeconfig"
    path.write_text(member.cluster.kubeconfig)
    return await command(*words, "--kubeconfig", str(path))


@pytest.mark.long
async def test_a_pod_without_a_place_at_the_peer_is_a_problem(
    tmp_path: Path,
) -> None:
    plugins = loader.load(sources=loader.built_in())
    async with members("rome", "milan", plugins=plugins, nodes=1) as [rome, milan]:
        await rome.peer(milan, resources=MUCH)
        await offload(rome.admin, "shop")
        containers = [{"name": "web", "image": "web", "resources": {"requests": {"cpu": "900"}}}]
        tolerated = [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}]
        spec = {"nodeName": "milan", "containers": containers, "tolerations": tolerated}
        await rome.admin.create(PODS, {"metadata": {"name": "web"}, "spec": spec}, "shop")
        said = "no node of milan has a place for the pod shop/web: 0/1 nodes are available"

        async def told() -> Ended | None:
            ended = await run(rome, tmp_path, "status")
            return ended if said in ended.out else None

        assert (await eventually(told, seconds=60)).status == 1
        doctor = await run(rome, tmp_path, "doctor")
        assert said in doctor.out
        assert doctor.status == 1
        shown = json.loads((await run(milan, tmp_path, "status", "-o", "json")).out)
        [over] = [each for each in shown["problems"] if "granted" in each["what"]]
        assert over["what"].startswith("consumers are granted cpu 1k, and the nodes here have cpu ")


@pytest.mark.long
async def test_who_grants_more_than_there_is_is_told(tmp_path: Path) -> None:
    async with meeting("rome", "milan", nodes=1) as [rome, milan]:
        little = await run(milan, tmp_path, "invite", "--cpu", "1")
        assert "granted" not in little.err
        much = await run(milan, tmp_path, "invite", "--cpu", "1000")
        assert much.out.startswith("liqod://")
        said = "consumers are granted cpu 1k, and the nodes here have cpu"
        assert f"once it is used, {said}" in much.err
        borrow = await run(milan, tmp_path, "invite", "--borrow", "--cpu", "1000")
        assert "granted" not in borrow.err
        await ask(rome, milan, resources={"cpu": "1000"})

        async def waiting() -> bool:
            return any(each.status.phase == "Waiting" for each in await entries(milan))

        await eventually(waiting)
        accepted = await run(milan, tmp_path, "inbox", "accept", "rome")
        assert said in accepted.err
        assert accepted.status == 0


@pytest.mark.long
async def test_who_borrows_more_than_there_is_is_warned_and_no_longer_when_there_is_more(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    said = "more cpu is granted than the nodes there have in all"
    async with meeting("rome", "milan", nodes=1) as [rome, milan]:
        await nursery.start(lead, rome)
        line = (await run(milan, tmp_path, "invite", "--cpu", "1000")).out.strip()
        peered = await run(rome, tmp_path, "peer", line, "--cpu", "1000")
        assert (peered.status, peered.out) == (0, "peered: milan is the node milan here\n")
        assert f"warning: {said}: what does not fit waits there for a place" in peered.err
        for member in (rome, milan):
            [found] = await member.admin.list(RESOURCE_SLICES, EVERY)
            assert found["metadata"]["annotations"][labels.BEYOND_NODES] == "cpu"
        shown = json.loads((await run(rome, tmp_path, "status", "-o", "json")).out)
        [beyond] = [each for each in shown["problems"] if said in each["what"]]
        assert (beyond["peer"], beyond["what"].partition(":")[0]) == ("milan", "slice milan")
        assert f"· [milan] slice milan: {said}" in (await run(rome, tmp_path, "status")).out
        ladders = json.loads((await run(rome, tmp_path, "doctor", "-o", "json")).out)["ladders"]
        rows = [row for each in ladders for row in each["checks"] if row["layer"] == "granted"]
        assert [row["verdict"] for row in rows] == ["ok"]
        assert f"slice milan: {said}" in rows[0]["evidence"]

        [node] = await milan.admin.list(NODES, EVERY)
        more = {"status": {"allocatable": {"cpu": "1k"}}}
        name = node["metadata"]["name"]
        await milan.admin.patch(NODES, name, more, subresource="status")

        async def taken_back() -> bool:
            [found] = await rome.admin.list(RESOURCE_SLICES, EVERY)
            return labels.BEYOND_NODES not in found["metadata"]["annotations"]

        await eventually(taken_back)
        assert said not in (await run(rome, tmp_path, "status")).out
        assert "warning" not in (await run(rome, tmp_path, "peer", line, "--cpu", "1000")).err
