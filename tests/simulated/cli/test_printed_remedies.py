"""Each command that is printed as what to do next is run as it is printed, and where it is."""

import json
from pathlib import Path

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES
from liqod.kube.selection import Selection
from liqod.plugins.checks import cluster
from liqod.plugins.diagnosis import ClusterFacts
from liqod.resources import FOREIGN_CLUSTERS, OUTGOING_PEERINGS
from liqod.resources.networking import CONNECTIONS
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.discovery.test_policyrequests import sighting
from tests.simulated.meeting import entries, lead, meeting, outgoing, run
from tests.simulated.members import AT_ROME, Member, members
from tests.simulated.processes import command
from tests.simulated.remedies import taken


async def message(guest: Member, part: str) -> str:
    """Waits until the message of the request to milan has a part, and returns the message."""

    async def said() -> str | None:
        found = (await outgoing(guest, "milan")).status.message
        return found if part in found else None

    return str(await eventually(said))


@pytest.mark.long
async def test_of_two_that_meet(tmp_path: Path, nursery: trio.Nursery):
    async with meeting("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        await nursery.start(lead, milan)
        rome.around += [await sighting(milan)]
        early = await run(rome, tmp_path, "peer", "milan", "--words", "one-two-three-four")
        asks = await run(rome, tmp_path, *taken(early.err, "peer x"), "--timeout", "2")
        assert "the daemon goes on asking milan" in asks.err
        await message(rome, "inbox accept")
        denied = await run(milan, tmp_path, "inbox", "deny", "rome", "--always")
        assert denied.status == 0, denied.err
        closed = await run(milan, tmp_path, "inbox", "accept", "rome")
        lifted = await run(milan, tmp_path, *taken(closed.err, "inbox deny x"))
        assert lifted.status == 0, lifted.err
        assert not any(each.spec.always for each in await entries(milan))
        over = await run(rome, tmp_path, "peer", "milan", "--words", "one-two-three-four")
        await run(rome, tmp_path, *taken(over.err, "peer x"), "--timeout", "2")
        waits = await message(rome, "inbox accept")
        accepted = await run(milan, tmp_path, *taken(waits, "inbox accept x"))
        assert accepted.status == 0, accepted.err
        agrees = await message(rome, "--words")
        words = taken(agrees, "peer x --words x")
        other = await run(rome, tmp_path, *words, "--cpu", "6")
        again = [
            words[-1] if each == "…" else each for each in taken(other.err, "peer x --words …")
        ]
        assert again == words
        ready = await run(rome, tmp_path, *again)
        assert (ready.status, ready.out) == (0, "peered: milan is the node milan here\n"), ready.err

        late = await run(milan, tmp_path, "inbox", "deny", "rome")
        revoked = await run(milan, tmp_path, *taken(late.err, "revoke x"), "--yes")
        assert revoked.status == 0, revoked.err
        assert not await entries(milan)


@pytest.mark.long
async def test_of_a_peer_that_shows_another_key(tmp_path: Path, nursery: trio.Nursery):
    async with meeting("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        rome.around += [await sighting(milan)]
        known = {"phase": "Accepted", "clusterID": "milan", "key": "0" * 64}
        await rome.admin.create(OUTGOING_PEERINGS, {"metadata": {"name": "before"}}, "liqo")
        told = (OUTGOING_PEERINGS, "before", {"status": known}, "liqo")
        await rome.admin.patch(*told, subresource="status")
        await run(rome, tmp_path, "peer", "milan", "--timeout", "2")
        shown = await message(rome, "is known here by another key")
        await run(rome, tmp_path, *taken(shown, "peer x --replace"), "--timeout", "2")
        await message(rome, "inbox accept")


@pytest.mark.long
async def test_of_who_lends_and_who_leaves(tmp_path: Path, nursery: trio.Nursery):
    async with members("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        await nursery.start(lead, milan)
        user = tmp_path / "user"
        named = ("--consumer-cluster-id", "rome", "--output", str(user))
        made = await run(milan, tmp_path, "generate", "peering-user", *named)
        printed = made.err.partition("next, at rome: liqod ")[2].split()
        peered = await run(rome, tmp_path, *printed)
        assert peered.status == 0, peered.err

        drained = await run(milan, tmp_path, "drain", "tenant", "rome", "--yes")
        active = await run(milan, tmp_path, *taken(drained.out, "activate tenant x"))
        assert active.status == 0, active.err

        await rome.admin.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await run(rome, tmp_path, "offload", "namespace", "shop")
        how = ("--namespace-mapping-strategy", "EnforceSameName")
        fixed = await run(rome, tmp_path, "offload", "namespace", "shop", *how)
        context = await run(rome, tmp_path, *taken(fixed.err, "unoffload namespace x"), "--yes")
        assert context.status == 0, context.err

        marks = {labels.REMOTE_CLUSTER_ID: "milan"}
        broken = {
            "metadata": {"name": "milan", "labels": marks},
            "spec": {"type": "Server", "gatewayRef": {}},
        }
        await rome.admin.create(CONNECTIONS, broken, AT_ROME)
        told = {"status": {"value": "Error"}}
        await rome.admin.patch(CONNECTIONS, "milan", told, AT_ROME, subresource="status")
        shown = (await run(rome, tmp_path, "status")).out
        parts = await run(rome, tmp_path, *taken(shown, "network status x"))
        assert (parts.status, "there is no Configuration" in parts.out) == (0, True), parts

        refused = await run(rome, tmp_path, "uninstall", "--yes")
        assert refused.status == 1
        left = await run(rome, tmp_path, *taken(refused.err, "unpeer x"), "--yes")
        assert left.status == 0, left.err
        there = await run(milan, tmp_path, *taken(left.out, "unpeer x"), "--yes")
        assert there.status == 0, there.err


@pytest.mark.long
async def test_of_a_peer_that_has_gone(tmp_path: Path, nursery: trio.Nursery):
    async with members("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        await rome.peer(milan)
        await milan.cluster.stop()

        async def seen() -> str | None:
            said = (await run(rome, tmp_path, "status")).out
            return said if "virtual node milan: " in said else None

        shown = await eventually(seen)
        words = taken(shown, "doctor x")

        async def named() -> bool:
            """The virtual node's condition is written a moment before the peer's."""
            said = await run(rome, tmp_path, *words)
            return said.status == 1 and "milan: its API server fails" in said.out

        await eventually(named)
        left = await run(rome, tmp_path, "unpeer", "milan", "--yes")
        given_up = await run(rome, tmp_path, *taken(left.out, "unpeer x --forget"), "--yes")
        assert given_up.status == 0, given_up.err
        assert await rome.admin.list(FOREIGN_CLUSTERS, Selection()) == []


@pytest.mark.long
async def test_of_a_provider_that_refuses_this_cluster(tmp_path: Path, nursery: trio.Nursery):
    async with members("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        await nursery.start(lead, milan)
        await rome.peer(milan)
        revoked = await run(milan, tmp_path, "revoke", "rome", "--yes")
        assert revoked.status == 0, revoked.err

        async def seen() -> str | None:
            said = (await run(rome, tmp_path, "status")).out
            return said if "peer --remote-kubeconfig" in said else None

        shown = await eventually(seen)
        user = tmp_path / "user"
        user.write_bytes(await milan.peering_user(rome))
        words = taken(shown, "peer --remote-kubeconfig FILE", FILE=str(user))
        again = await run(rome, tmp_path, *words)
        assert again.status == 0, again.err


@pytest.mark.long
async def test_of_an_installation(tmp_path: Path):
    async with EmbeddedCluster("oslo") as embedded:
        path = tmp_path / "oslo.kubeconfig"
        path.write_text(embedded.kubeconfig)
        here = ("--kubeconfig", str(path))
        bare = await command("doctor", *here)
        words = taken(bare.out, "install --cluster-id NAME", NAME="oslo")
        assert (await command(*words, *here)).status == 0
        told = await command("install", "-o", "json", *here)
        assert json.loads(told.out) == {"clusterID": "oslo"}
        old = cluster.credentials(ClusterFacts(now=0.0, certificate=-60.0)).remedy
        written = tmp_path / "daemon.kubeconfig"
        words = taken(old, "install --write-kubeconfig FILE", FILE=str(written))
        assert (await command(*words, *here)).status == 0
        assert written.exists()


async def test_of_an_id_that_was_changed(tmp_path: Path, nursery: trio.Nursery):
    async with members("rome") as [rome]:
        await nursery.start(lead, rome)
        await rome.until(CONFIG_MAPS, "liqo-clusterid-configmap", "liqo", lambda found: found)
        other = {"data": {"CLUSTER_ID": "paris"}}
        await rome.admin.patch(CONFIG_MAPS, "liqo-clusterid-configmap", other, "liqo")
        shown = (await run(rome, tmp_path, "status")).out
        back = await run(rome, tmp_path, *taken(shown, "install --cluster-id x"))
        assert back.status == 0, back.err
        assert "set liqo/" not in (await run(rome, tmp_path, "status")).out
