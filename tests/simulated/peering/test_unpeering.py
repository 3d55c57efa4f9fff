"""The end of a peering between embedded clusters: by either side, and beside one that is dead."""

from pathlib import Path

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, NODES
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.procedures import otherhalf, unpeering
from liqod.resources import (
    FOREIGN_CLUSTERS,
    IDENTITIES,
    RENEWS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
)
from simulator.controllers.garbage import Garbage
from tests.simulated.members import AT_MILAN, AT_ROME, Member, members, verdicts
from tests.simulated.prepared import quiet
from tests.simulated.processes import command


async def end_both(member: Member, remote: Client, peer: str) -> unpeering.Departed:
    """Ends both halves of a peering in time, with a client of the peer."""
    other = await otherhalf.find(member.admin, remote, peer)
    with trio.fail_after(60):
        return await unpeering.unpeer(member.admin, peer, other=other, progress=quiet)


@pytest.mark.long
async def test_unpeering_waits_for_no_garbage_collector(monkeypatch: pytest.MonkeyPatch):
    # That of a cluster in which liqod was just installed knows none of its kinds for half a minute.
    monkeypatch.setattr(Garbage, "reconcile", lambda self, key: None)
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await rome.until(RENEWS, "controlplane-milan", AT_ROME, bool)
        assert (await rome.unpeer(milan)).complete


@pytest.mark.long
async def test_what_the_other_side_keeps_is_named_and_goes_with_the_rights():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        # A peer without a known Lease of a daemon may run Liqo.
        forget = {"metadata": {"annotations": {labels.PEER_DAEMON: None}}}
        await rome.admin.patch(FOREIGN_CLUSTERS, "milan", forget)
        told = (await unpeering.half(rome.admin, "milan")).summary("milan")
        assert told.startswith("milan keeps its Tenant rome until `liqod unpeer rome` (where it")
        assert "`liqoctl force unpeer rome`" in told
        # With a peering user's rights the provider cannot end what a consumer borrows.
        async with Client(from_kubeconfig(await rome.peering_user(milan))) as user:
            other = await otherhalf.find(milan.admin, user, "rome")
            assert not await other.end_borrowing(quiet)
        end = await end_both(milan, rome.admin, "rome")
        assert end.complete
        said = end.summary("rome")
        assert said.startswith("unpeered from rome; cleared there: VirtualNode milan, ")
        assert said.endswith(f", Namespace {AT_ROME}")
        await rome.gone(NAMESPACES, AT_ROME)
        await milan.gone(NAMESPACES, AT_MILAN)
        for kind in (VIRTUAL_NODES, RESOURCE_SLICES, IDENTITIES):
            assert await rome.admin.list(kind) == []
        await rome.gone(NODES, "milan")


@pytest.mark.long
async def test_the_command_names_what_the_other_side_keeps_before_and_after(tmp_path: Path):
    async with members("rome", "milan", leads=True) as [rome, milan]:
        await rome.peer(milan)
        forget = {"metadata": {"annotations": {labels.PEER_DAEMON: None}}}
        await rome.admin.patch(FOREIGN_CLUSTERS, "milan", forget)
        kubeconfig = tmp_path / "rome.kubeconfig"
        kubeconfig.write_text(rome.cluster.kubeconfig)
        words = ("unpeer", "milan", "--kubeconfig", str(kubeconfig))
        refused = await command(*words)
        assert refused.status != 0
        assert "milan keeps its Tenant rome until `liqod unpeer rome` (where it" in refused.err
        assert await rome.admin.find(NODES, "milan") is not None
        done = await command(*words, "--yes")
        assert done.status == 0
        assert "milan keeps its Tenant rome until" in done.err
        assert done.out.startswith("unpeered from milan; milan keeps its Tenant rome until")
        assert "`liqoctl force unpeer rome`" in done.out


@pytest.mark.long
async def test_an_administrators_kubeconfig_clears_the_provider_with_the_key_that_it_accepted():
    async with members("rome", "milan") as [rome, milan]:
        before = rome.everything(), milan.everything()
        await rome.peer(milan)
        tenant = await milan.admin.get(NAMESPACES, AT_MILAN)
        assert labels.ACCEPTED_KEY in tenant["metadata"]["annotations"]
        end = await end_both(rome, milan.admin, "milan")
        said = end.summary("milan")
        assert said.startswith("unpeered from milan; cleared there: ")
        assert "Tenant rome" in said
        assert said.endswith(f", Namespace {AT_MILAN}")
        for side, had in zip((rome, milan), before, strict=True):
            left = {each for each in side.everything() - had if "liqo" in each[2]}
            assert not left


@pytest.mark.long
async def test_a_peering_user_clears_what_it_may_and_the_rest_is_named():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        async with Client(from_kubeconfig(await milan.peering_user(rome))) as user:
            end = await end_both(rome, user, "milan")
        assert end.summary("milan").startswith(
            "unpeered from milan; cleared there: Tenant rome; milan keeps the namespace "
            f"{AT_MILAN} with the key that it has accepted until `liqod unpeer rome`"
        )
        await milan.gone(TENANTS, "rome", AT_MILAN)
        assert await milan.admin.find(NAMESPACES, AT_MILAN) is not None
        # Afterwards it is cleared from here, too, by an administrator's.
        end = await end_both(rome, milan.admin, "milan")
        assert f"Namespace {AT_MILAN}" in end.cleared
        await milan.gone(NAMESPACES, AT_MILAN)


@pytest.mark.long
async def test_a_lender_whose_daemon_does_not_run_is_cleared_all_the_same():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await milan.stop()
        end = await end_both(rome, milan.admin, "milan")
        assert not end.keeps.namespace
        assert f"Namespace {AT_MILAN}" in end.cleared
        await milan.gone(NAMESPACES, AT_MILAN)


@pytest.mark.long
async def test_a_borrower_whose_daemon_does_not_run_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(otherhalf, "WITHIN", 2.0)
    async with members("rome", "milan") as [rome, milan]:
        await milan.peer(rome)
        await milan.stop()
        end = await end_both(rome, milan.admin, "milan")
        await rome.gone(FOREIGN_CLUSTERS, "milan")
        said = end.summary("milan")
        # Only its daemon may take its virtual node away.
        assert "milan keeps its virtual nodes and slices" in said
        assert f"the namespace {AT_MILAN} with the key" in said
        await milan.start()
        await milan.gone(NAMESPACES, AT_MILAN)


@pytest.mark.long
async def test_the_provider_may_end_it():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        end = await milan.unpeer(rome)
        assert end.complete
        assert "rome keeps its virtual nodes and slices until `liqod unpeer milan`" in end.summary(
            "rome"
        )
        await rome.gone(NODES, "milan")
        found = await rome.admin.get(RESOURCE_SLICES, "milan", AT_ROME)
        assert verdicts(found)["Authentication"] == "Denied"
        assert (await rome.unpeer(milan)).complete


@pytest.mark.long
async def test_a_dead_provider_holds_nothing_up():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await milan.stop()
        await milan.cluster.stop()
        await rome.until(
            FOREIGN_CLUSTERS,
            "milan",
            None,
            lambda fc: any(
                c["status"] == "Error" for c in fc.get("status", {}).get("conditions", ())
            ),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rome.unpeer, milan)
            await rome.until(
                FOREIGN_CLUSTERS,
                "milan",
                None,
                lambda fc: "liqod.io/leaving" in fc["metadata"].get("annotations", {}),
            )
            await rome.gone(NODES, "milan")
            await rome.gone(VIRTUAL_NODES, "milan", AT_ROME)
            # It answers again: the rest is done, and the peer is gone.
            await milan.cluster.start()
            await rome.gone(FOREIGN_CLUSTERS, "milan")
        assert await milan.admin.list(RESOURCE_SLICES, Selection(AT_MILAN)) == []
