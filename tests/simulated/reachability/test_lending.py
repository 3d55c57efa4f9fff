"""A provider that nobody reaches lends to a consumer that it dials."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES, NODES, SECRETS
from liqod.errors import ConfigError, Unconnected
from liqod.handshake.protocol.invitationtokens import InvitationToken
from liqod.kube.http import proxies
from liqod.kube.selection import Selection
from liqod.plugins import loader
from liqod.procedures import answering, peeringrequest, revoking, unpeering
from liqod.procedures.peeringrequest import secret_of
from liqod.resources import (
    IDENTITIES,
    INCOMING_PEERINGS,
    INVITATIONS,
    OUTGOING_PEERINGS,
    IncomingPeering,
    Invitation,
    OutgoingPeering,
)
from tests.simulated.borrower import eventually, offload
from tests.simulated.channels import DEAD
from tests.simulated.meeting import by_token, entries, invite, key_of, meeting, outgoing, peered
from tests.simulated.members import Member

ASKED = {"cpu": "2", "memory": "4Gi", "pods": "9"}


@asynccontextmanager
async def behind_nat(*others: str) -> AsyncIterator[list[Member]]:
    """Clusters whose API servers nobody reaches but themselves."""
    plugins = loader.load(sources=loader.built_in())
    async with meeting("rome", "milan", *others, advertise=DEAD, plugins=plugins) as made:
        yield made


async def asks(milan: Member) -> IncomingPeering:
    """Waits for the request in the lender's inbox, and returns it."""

    async def waits() -> IncomingPeering | None:
        return next((e for e in await entries(milan) if e.status.phase == "Waiting"), None)

    found: IncomingPeering = await eventually(waits)
    return found


async def lends(milan: Member, token: InvitationToken, **granted: str) -> None:
    """Lends as `liqod peer` does with a line that wants to borrow, and its operator's yes."""
    await peeringrequest.ensure_request(milan.admin, "liqo", by_token(token, lend=True))
    entry = await asks(milan)
    await answering.decide(milan.admin, "liqo", entry, answering.acceptance(entry, granted))
    await peered(milan, token.id)


async def record_of(milan: Member) -> str:
    """Name of the request at who borrows."""
    return f"milan-{(await key_of(milan))[:8]}"


async def reflects(rome: Member, milan: Member, name: str) -> None:
    """Creates an object in an offloaded namespace of rome's, and waits until it is at milan."""
    await rome.admin.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": {}}, "shop")
    await milan.until(CONFIG_MAPS, name, "shop-rome", bool)


@pytest.mark.long
async def test_who_is_reached_by_nobody_lends_to_whom_it_dials_and_nothing_is_left() -> None:
    async with behind_nat() as [rome, milan]:
        before = rome.everything(), milan.everything()
        token = await invite(rome, borrow=True, resources=ASKED)
        await lends(milan, token)
        done = await peered(rome, await record_of(milan))
        assert done.status.granted["cpu"] == "2"
        assert await rome.admin.find(NODES, "milan") is not None
        identity = await rome.until(IDENTITIES, "controlplane-milan", "liqo-tenant-milan", bool)
        way = identity["spec"]["authParams"]["proxyURL"]
        assert way == proxies.listener_url(await key_of(milan), ())
        [entry] = await entries(milan)
        assert done.status.words == entry.status.words == (await mine(milan, token)).words
        # The secret is kept nowhere: of rome never, of milan until it was used.
        assert await milan.admin.find(SECRETS, secret_of(token.id), "liqo") is None
        await offload(rome.admin, "shop")
        await milan.until(NAMESPACES, "shop-rome", None, bool)
        await reflects(rome, milan, "conf")
        assert rome.handshake is not None
        assert (len(rome.handshake.reverse_connections), len(rome.handshake.channels)) == (1, 0)
        await rome.admin.delete(NAMESPACES, "shop")
        await rome.gone(NAMESPACES, "shop")
        await rome.unpeer(milan)
        lenders = rome.handshake.reverse_connections
        await eventually(lambda: empty(lenders))
        await milan.unpeer(rome)
        assert (rome.everything(), milan.everything()) == before


@pytest.mark.long
async def test_the_lender_ends_it_first_and_nothing_is_left_either() -> None:
    async with behind_nat() as [rome, milan]:
        before = rome.everything(), milan.everything()
        token = await invite(rome, borrow=True, resources=ASKED)
        await lends(milan, token)
        await peered(rome, await record_of(milan))
        await milan.unpeer(rome)
        assert milan.everything() == before[1]
        # As of any provider that left first: what it had is not known, and is given up.
        assert not (await rome.unpeer(milan)).complete
        await unpeering.forget(rome.admin, "milan", progress=rome.progress)
        await rome.gone(NAMESPACES, "liqo-tenant-milan")
        await eventually(lambda: same(rome, before[0]))


@pytest.mark.long
@pytest.mark.parametrize("by_lender", [True, False])
async def test_whoever_revokes_the_other_ends_the_connection_and_it_does_not_come_back(
    by_lender: bool,
) -> None:
    async with behind_nat() as [rome, milan]:
        token = await invite(rome, borrow=True, resources=ASKED)
        await lends(milan, token)
        await peered(rome, await record_of(milan))
        here, there = (milan, rome) if by_lender else (rome, milan)
        roles = await revoking.roles_of(here.admin, there.id)
        await revoking.carry_out(here.admin, there.id, roles, here.progress)
        assert rome.handshake is not None
        lenders = rome.handshake.reverse_connections
        await eventually(lambda: empty(lenders))
        with pytest.raises(Unconnected, match="does its daemon run"):
            await lenders.dial(await key_of(milan))


async def same(member: Member, before: set[tuple[str, str, str]]) -> bool:
    """True if a cluster holds the same objects as before."""
    return member.everything() == before


async def empty(kept: Any) -> bool:
    """True if nothing is kept any more."""
    return len(kept) == 0


async def mine(milan: Member, token: InvitationToken) -> Any:
    """Returns the status of the lender's own record."""
    return (await outgoing(milan, token.id)).status


@pytest.mark.long
async def test_after_a_restart_of_either_side_the_lender_dials_again() -> None:
    async with behind_nat() as [rome, milan]:
        token = await invite(rome, borrow=True, resources=ASKED)
        await lends(milan, token)
        await peered(rome, await record_of(milan))
        await offload(rome.admin, "shop")
        await milan.until(NAMESPACES, "shop-rome", None, bool)
        await reflects(rome, milan, "first")
        await milan.stop()
        await milan.start()
        await reflects(rome, milan, "second")
        # The record is no more than that: what is borrowed is what the Identity says.
        assert await rome.admin.delete(OUTGOING_PEERINGS, await record_of(milan), "liqo")
        assert rome.handshake is not None
        rome.settings = rome.settings.replace("port = 0", f"port = {rome.handshake.port}")
        await rome.stop()
        await rome.start()
        await reflects(rome, milan, "third")
        # Nor does the lender cut off its tenant because it is to dial no more.
        assert await milan.admin.delete(OUTGOING_PEERINGS, token.id, "liqo")
        await milan.gone(OUTGOING_PEERINGS, token.id, "liqo")
        await reflects(rome, milan, "fourth")


@pytest.mark.long
async def test_either_side_is_restarted_while_the_lender_s_operator_thinks() -> None:
    async with behind_nat() as [rome, milan]:
        token = await invite(rome, borrow=True, resources=ASKED)
        await peeringrequest.ensure_request(milan.admin, "liqo", by_token(token, lend=True))
        first = await asks(milan)
        assert rome.handshake is not None
        rome.settings = rome.settings.replace("port = 0", f"port = {rome.handshake.port}")
        for member in (milan, rome):
            await member.stop()
            await member.start()

        async def met_anew() -> IncomingPeering | None:
            entry = await asks(milan)
            here = (await outgoing(rome, await record_of(milan))).status
            there = await mine(milan, token)
            anew = entry.status.words != first.status.words
            return entry if anew and entry.status.words == here.words == there.words else None

        entry = await eventually(met_anew)
        assert entry.spec.request == first.spec.request
        await answering.decide(milan.admin, "liqo", entry, answering.acceptance(entry, {}))
        await peered(milan, token.id)
        await peered(rome, await record_of(milan))
        assert await rome.admin.find(NODES, "milan") is not None


@pytest.mark.long
async def test_the_lender_s_operator_lends_less_or_nothing_whatever_is_asked() -> None:
    async with behind_nat() as [rome, milan]:
        token = await invite(rome, borrow=True, resources={"cpu": "64"}, uses=2)
        await peeringrequest.ensure_request(milan.admin, "liqo", by_token(token, lend=True))
        entry = await asks(milan)
        assert await rome.admin.find(NODES, "milan") is None
        await answering.decide(milan.admin, "liqo", entry, answering.denial())
        with pytest.raises(ConfigError, match=r"nothing is lent to rome \(Denied\): denied here"):
            await peered(milan, token.id)
        with pytest.raises(ConfigError, match=r"milan does not agree \(Denied\)"):
            await peered(rome, await record_of(milan))
        another = await invite(rome, borrow=True, resources={"cpu": "64"})
        await lends(milan, another, cpu="1")
        done = await peered(rome, await record_of(milan))
        assert done.status.granted["cpu"] == "1"
        node = await rome.admin.get(NODES, "milan")
        assert node["status"]["allocatable"]["cpu"] == "1"


async def test_an_invitation_to_lend_lets_nobody_borrow_and_the_other_way_round() -> None:
    async with behind_nat() as [rome, milan]:
        wants = await invite(rome, borrow=True, resources=ASKED)
        await peeringrequest.ensure_request(
            milan.admin, "liqo", by_token(wants)
        )  # as if it granted something
        with pytest.raises(ConfigError, match="for who is to lend to this cluster"):
            await peered(milan, wants.id)
        grants = await invite(rome, resources=ASKED)
        await peeringrequest.ensure_request(milan.admin, "liqo", by_token(grants, lend=True))
        with pytest.raises(ConfigError, match="for who is to borrow from this cluster"):
            await peered(milan, grants.id)
        assert await entries(rome) == await entries(milan) == []
        for token in (wants, grants):
            found = await rome.admin.get(INVITATIONS, token.id, "liqo", decode=Invitation)
            assert found.status.used_by == ()


@pytest.mark.long
async def test_one_invitation_to_lend_is_used_by_one_of_two_and_names_who() -> None:
    async with behind_nat("turin") as [rome, milan, turin]:
        token = await invite(rome, borrow=True, resources=ASKED)
        await lends(milan, token)
        await peeringrequest.ensure_request(turin.admin, "liqo", by_token(token, lend=True))
        with pytest.raises(ConfigError, match="the invitation has been used"):
            await peered(turin, token.id)
        here = await rome.admin.list(OUTGOING_PEERINGS, Selection("liqo"), decode=OutgoingPeering)
        assert [each.spec.cluster_id for each in here] == ["milan"]


async def test_who_takes_back_what_was_asked_of_a_lender_is_not_asked_to_borrow_again() -> None:
    async with behind_nat() as [rome, milan]:
        token = await invite(rome, borrow=True, resources=ASKED)
        await peeringrequest.ensure_request(milan.admin, "liqo", by_token(token, lend=True))
        await asks(milan)
        await rome.admin.delete(OUTGOING_PEERINGS, await record_of(milan), "liqo")
        with pytest.raises(ConfigError, match=r"nothing is lent to rome"):
            await peered(milan, token.id)
        found = await milan.admin.list(INCOMING_PEERINGS, Selection("liqo"), decode=IncomingPeering)
        assert [each for each in found if each.status.phase == "Waiting"] == []
        assert await rome.admin.find(NODES, "milan") is None
