"""`liqod peer --virtual-nodes`: the nodes of a slice, by an invitation and by a kubeconfig."""

from pathlib import Path

import pytest
import trio

from liqod.apimachinery.labels import VIRTUAL_NODES
from liqod.resources import OUTGOING_PEERINGS, RESOURCE_SLICES
from tests.simulated.meeting import lead, meeting, run
from tests.simulated.members import AT_ROME, Member

pytestmark = pytest.mark.long


async def asked(rome: Member) -> str | None:
    """The virtual nodes that the slice asks for."""
    found = await rome.admin.get(RESOURCE_SLICES, "milan", AT_ROME)
    value: str | None = found["metadata"]["annotations"].get(VIRTUAL_NODES)
    return value


async def test_the_nodes_of_a_slice_are_asked_for_by_the_command_line(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    async with meeting("rome", "milan", nodes=1) as [rome, milan]:
        await nursery.start(lead, rome)
        line = (await run(milan, tmp_path, "invite", "--cpu", "1")).out.strip()
        peered = await run(rome, tmp_path, "peer", line, "--cpu", "1", "--virtual-nodes", "groups")
        assert peered.status == 0, peered.err
        assert peered.out.startswith("peered: milan is the node milan here")
        assert await asked(rome) == "groups"

        # Who says nothing of them leaves them as they are.
        user = tmp_path / "user.kubeconfig"
        user.write_bytes(await milan.peering_user(rome))
        by_file = ("peer", "--remote-kubeconfig", str(user), "--cpu", "1", "--networking-disabled")
        peered = await run(rome, tmp_path, *by_file)
        assert peered.status == 0, peered.err
        assert await asked(rome) == "groups"
        peered = await run(rome, tmp_path, *by_file, "--virtual-nodes", "nodes")
        assert peered.status == 0, peered.err
        assert await asked(rome) == "nodes"
        [request] = await rome.admin.list(OUTGOING_PEERINGS)
        assert request["metadata"]["annotations"][VIRTUAL_NODES] == "groups"

        wrong = await run(rome, tmp_path, *by_file, "--virtual-nodes", "racks")
        assert wrong.status == 2
