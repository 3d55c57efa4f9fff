"""A peering that was declared by an OutgoingPeering ends once that is pruned, and only then."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, NODES
from liqod.apimachinery.meta import Partial
from liqod.errors import Unreachable
from liqod.handshake.timings import HandshakeTimings
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.procedures import unpeering
from liqod.resources import (
    IDENTITIES,
    OUTGOING_PEERINGS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
)
from tests.simulated import meeting as meetings
from tests.simulated.borrower import eventually
from tests.simulated.members import AT_MILAN, AT_ROME, Member

pytestmark = [pytest.mark.long, pytest.mark.handshake]

TIMINGS = HandshakeTimings(pruned=1.0)


@asynccontextmanager
async def declared() -> AsyncIterator[tuple[Member, Member]]:
    """Rome borrows from milan by an OutgoingPeering, and its tenant namespace knows of that."""
    async with meetings.meeting("rome", "milan", handshake_timings=TIMINGS) as [rome, milan]:
        token = await meetings.invite(milan, cluster_id="rome")
        request = meetings.by_token(token, cluster_id="milan")
        await meetings.ask(rome, milan, invitation=request.invitation, key=request.key)
        await meetings.peered(rome, "milan")
        # As if it had been written, and not made by a command.
        marks = {"metadata": {"labels": {labels.MANAGED: None}}}
        await rome.admin.patch(OUTGOING_PEERINGS, "milan", marks, "liqo")

        async def is_noted() -> bool:
            found = await rome.admin.find(NAMESPACES, AT_ROME, decode=Partial)
            return found is not None and labels.DECLARED_BY in found.metadata.annotations

        await eventually(is_noted)
        yield rome, milan


async def identity(member: Member) -> str:
    """The uid of the Identity by which milan is reached."""
    name = ids.control_plane_identity("milan")
    return (await member.admin.get(IDENTITIES, name, AT_ROME, decode=Partial)).metadata.uid


async def held(member: Member) -> None:
    """Has the virtual node last, as where a pod may not leave yet."""
    hold = {"metadata": {"finalizers": ["test.example/pod"]}}
    await member.admin.patch(VIRTUAL_NODES, "milan", hold, AT_ROME)


async def released(member: Member) -> None:
    """Takes that back, and waits until this virtual node is not there."""
    found = await member.admin.get(VIRTUAL_NODES, "milan", AT_ROME, decode=Partial)
    rest = [each for each in found.metadata.finalizers if each != "test.example/pod"]
    free = {"metadata": {"finalizers": rest}}
    await member.admin.patch(VIRTUAL_NODES, "milan", free, AT_ROME)

    async def is_gone() -> bool:
        now = await member.admin.find(VIRTUAL_NODES, "milan", AT_ROME, decode=Partial)
        return now is None or now.metadata.uid != found.metadata.uid

    await eventually(is_gone)


async def leaving(member: Member) -> None:
    """Waits until the virtual node is being deleted."""

    async def is_leaving() -> bool:
        found = await member.admin.get(VIRTUAL_NODES, "milan", AT_ROME, decode=Partial)
        return bool(found.metadata.deletion_timestamp)

    await eventually(is_leaving)


def _ignore(step: str) -> None:
    """Nobody waits for the steps."""


async def gone(member: Member, namespace: str) -> None:
    """Waits until a namespace is not there."""

    async def is_gone() -> bool:
        return await member.admin.find(NAMESPACES, namespace) is None

    await eventually(is_gone)


async def test_all_of_it_ends_here_and_at_the_provider():
    async with declared() as (rome, milan):
        await rome.admin.delete(OUTGOING_PEERINGS, "milan", "liqo")
        await gone(rome, AT_ROME)
        assert await rome.admin.find(NODES, "milan") is None

        async def is_given_back() -> bool:
            return not await milan.admin.list(RESOURCE_SLICES, Selection(AT_MILAN))

        await eventually(is_given_back)


async def test_it_ends_also_where_no_daemon_saw_it_go():
    async with declared() as (rome, _):
        await rome.stop()
        await rome.admin.delete(OUTGOING_PEERINGS, "milan", "liqo")
        await rome.start()
        await gone(rome, AT_ROME)


async def test_an_end_that_breaks_off_is_taken_up_again(monkeypatch: pytest.MonkeyPatch):
    end, breaks = unpeering.unpeer, iter((True,))

    async def fails(local: Client, peer: str, **more: Any) -> Any:
        if next(breaks, False):
            await local.delete_selected(TENANTS, Selection(AT_ROME))
            raise Unreachable("cut off")
        return await end(local, peer, **more)

    monkeypatch.setattr(unpeering, "unpeer", fails)
    async with declared() as (rome, _):
        await rome.admin.delete(OUTGOING_PEERINGS, "milan", "liqo")
        await gone(rome, AT_ROME)
    assert next(breaks, None) is None


async def test_one_that_a_command_made_is_a_record():
    async with meetings.meeting("rome", "milan", handshake_timings=TIMINGS) as [rome, milan]:
        token = await meetings.invite(milan, cluster_id="rome")
        request = meetings.by_token(token, cluster_id="milan")
        await meetings.ask(rome, milan, invitation=request.invitation, key=request.key)
        await meetings.peered(rome, "milan")
        await rome.admin.delete(OUTGOING_PEERINGS, "milan", "liqo")
        await trio.sleep(2 * TIMINGS.pruned)
        found = await rome.admin.get(NAMESPACES, AT_ROME, decode=Partial)
        assert {labels.DECLARED_BY, labels.TOMBSTONE}.isdisjoint(found.metadata.annotations)
        assert await rome.admin.list(VIRTUAL_NODES, Selection(AT_ROME))


async def test_one_that_comes_back_ends_nothing():
    async with declared() as (rome, _):
        found = await rome.admin.get(OUTGOING_PEERINGS, "milan", "liqo")
        await rome.admin.delete(OUTGOING_PEERINGS, "milan", "liqo")
        spec = {key: each for key, each in found["spec"].items() if key != "invitationSecret"}
        again = {"metadata": {"name": "again"}, "spec": spec}
        await rome.admin.create(OUTGOING_PEERINGS, again, "liqo")
        await trio.sleep(2 * TIMINGS.pruned)
        assert await rome.admin.find(NODES, "milan") is not None
        found = await rome.admin.get(NAMESPACES, AT_ROME)
        assert labels.TOMBSTONE not in found["metadata"]["annotations"]


@pytest.mark.parametrize("made_by", ["liqod", "git"])
@pytest.mark.parametrize("daemon", ["runs", "was stopped"])
async def test_one_that_comes_back_late_stops_the_end_and_is_a_peering_again(
    made_by: str, daemon: str
):
    async with declared() as (rome, milan):
        if made_by == "git":
            marks = {"metadata": {"labels": {labels.MANAGED_BY_LIQOD: None}}}
            await rome.admin.patch(NAMESPACES, AT_ROME, marks)
        before = await identity(rome)
        await held(rome)
        await rome.admin.delete(OUTGOING_PEERINGS, "milan", "liqo")
        await leaving(rome)
        if daemon == "was stopped":
            await rome.stop()
        token = await meetings.invite(milan, cluster_id="rome")
        request = meetings.by_token(token, cluster_id="milan")
        await meetings.ask(rome, milan, invitation=request.invitation, key=request.key)
        if daemon == "was stopped":
            await rome.start()

        async def is_stopped() -> bool:
            found = await rome.admin.get(NAMESPACES, AT_ROME, decode=Partial)
            seen = (await meetings.outgoing(rome, "milan")).status.phase
            return bool(seen) and labels.TOMBSTONE not in found.metadata.annotations

        await eventually(is_stopped)
        await released(rome)
        await meetings.peered(rome, "milan")
        assert await rome.admin.find(NODES, "milan") is not None
        assert await identity(rome) == before


async def test_one_that_comes_back_takes_back_no_command():
    async with declared() as (rome, milan):
        await held(rome)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(unpeering.unpeer, rome.admin, "milan", progress=_ignore))
            await leaving(rome)
            await meetings.ask(rome, milan, key=await meetings.key_of(milan))
            await trio.sleep(2 * TIMINGS.pruned)
            found = await rome.admin.get(NAMESPACES, AT_ROME, decode=Partial)
            assert labels.TOMBSTONE in found.metadata.annotations
            await released(rome)


async def test_the_peer_s_own_borrowing_and_a_written_namespace_stay():
    async with declared() as (rome, _):
        # As if the peer borrowed from here as well, and the namespace were in git.
        marks = {"metadata": {"labels": {labels.MANAGED_BY_LIQOD: None}}}
        await rome.admin.patch(NAMESPACES, AT_ROME, marks)
        tenant = {"metadata": {"name": "milan"}, "spec": {"clusterID": "milan"}}
        await rome.admin.create(TENANTS, tenant, AT_ROME)
        await rome.admin.delete(OUTGOING_PEERINGS, "milan", "liqo")

        async def is_over() -> bool:
            found = await rome.admin.get(NAMESPACES, AT_ROME, decode=Partial)
            return labels.DECLARED_BY not in found.metadata.annotations

        await eventually(is_over)
        assert not await rome.admin.list(VIRTUAL_NODES, Selection(AT_ROME))
        assert not await rome.admin.list(RESOURCE_SLICES, Selection(AT_ROME))
        found = await rome.admin.get(NAMESPACES, AT_ROME, decode=Partial)
        assert labels.TOMBSTONE not in found.metadata.annotations
        assert await rome.admin.find(TENANTS, "milan", AT_ROME) is not None
