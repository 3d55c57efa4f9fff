"""Revoking what a handshake has agreed, also what others share; and what is still open."""

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, SECRETS
from liqod.errors import ConfigError
from liqod.kube import times
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.plugins import loader
from liqod.procedures import answering, peeringrequest, revokedconsumer, revoking
from liqod.procedures.revocations import Living, Mark
from liqod.procedures.revoking import TUNNEL, Revoked
from liqod.resources import INVITATIONS
from tests.simulated.borrower import eventually
from tests.simulated.channels import DEAD
from tests.simulated.meeting import ask, by_token, entries, invite, key_of, meeting, peered
from tests.simulated.members import Member


async def revoke(member: Member, peer: str) -> Revoked:
    with trio.fail_after(30):
        roles = await revoking.roles_of(member.admin, peer)
        return await revoking.carry_out(member.admin, peer, roles, member.progress)


async def waiting(milan: Member) -> bool:
    return any(each.status.phase == "Waiting" for each in await entries(milan))


@pytest.mark.long
@pytest.mark.handshake
async def test_of_several_who_used_one_invitation_one_is_revoked_and_its_line_ends():
    plugins = loader.load(sources=loader.built_in())
    names = ("rome", "turin", "oslo", "milan")
    async with meeting(*names, advertise=DEAD, plugins=plugins) as [rome, turin, oslo, milan]:
        token = await invite(milan, uses=4, resources={"cpu": "1"})
        its_own = await invite(milan, for_key=await key_of(rome))
        other = await invite(milan)
        for guest in (rome, turin):
            await peeringrequest.ensure_request(guest.admin, "liqo", by_token(token))
            await peered(guest, token.id)

        def channels() -> set[str]:
            assert milan.handshake is not None
            return set(milan.handshake.counters.channels)

        async def kept() -> bool:
            return channels() == {"rome", "turin"}

        await eventually(kept)
        done = await revoke(milan, "rome")
        loss = ", which others could have used (2 more): they need another one"
        assert f"Invitation {token.id}{loss}" in done.removed
        assert f"Invitation {its_own.id}" in done.removed
        left = await milan.admin.list(INVITATIONS, Selection("liqo"))
        assert [each["metadata"]["name"] for each in left] == [other.id]

        async def ended() -> bool:
            return channels() == {"turin"}

        await eventually(ended)
        await peeringrequest.ensure_request(oslo.admin, "liqo", by_token(token))
        with pytest.raises(ConfigError, match="there is no such invitation"):
            await peered(oslo, token.id)
        assert await turin.admin.find(NODES, "milan") is not None
        assert [each.spec.cluster_id for each in await entries(milan)] == ["turin"]


async def test_who_is_never_to_be_let_in_is_not_forgotten_by_that():
    async with meeting("rome", "milan") as [rome, milan]:
        await ask(rome, milan)
        await eventually(lambda: waiting(milan))
        done = await revoke(milan, "rome")
        assert [line.partition(" ")[0] for line in done.removed] == ["IncomingPeering"]
        assert done.lives == (Living(revoking.AGAIN),)

        await ask(rome, milan, resources={"cpu": "3"})
        await eventually(lambda: waiting(milan))
        [entry] = await entries(milan)
        await answering.decide(milan.admin, "liqo", entry, answering.denial(always=True))
        with pytest.raises(ConfigError, match="there is nothing of rome to revoke"):
            await revoke(milan, "rome")
        assert [each.spec.decision for each in await entries(milan)] == ["Deny"]


@pytest.mark.long
@pytest.mark.handshake
async def test_what_is_still_open_is_said_as_long_as_it_is(monkeypatch: pytest.MonkeyPatch):
    async with meeting("rome", "milan") as [rome, milan]:
        await milan.peering_user(rome)
        await milan.stop()
        name = ids.gateway_resource("rome")
        key = {"metadata": {"name": name, "labels": {labels.TUNNEL: labels.TRUE}}}
        await milan.admin.create(SECRETS, key, "liqo")
        user, tunnel = (await revoke(milan, "rome")).lives
        assert tunnel == Living(TUNNEL)
        assert "peering-user-rome" in user.what
        assert 3000 < times.seconds(user.until) - times.seconds(times.now()) <= 3600
        assert (await revoke(milan, "rome")).lives == (user, tunnel)

        later = times.of(times.seconds(times.now()) + 3601)
        monkeypatch.setattr(times, "now", lambda: later)
        await milan.admin.delete(SECRETS, name, "liqo")
        assert (await revoke(milan, "rome")).lives == ()


async def test_what_was_noted_by_one_that_was_interrupted_is_said_by_the_next():
    async with meeting("milan") as [milan]:
        one, other = Living("one"), Living("other")
        first = await revokedconsumer.mark(milan.admin, "default", "example.org/mark", (one,))
        again = await revokedconsumer.mark(milan.admin, "default", "example.org/mark", (other, one))
        assert again == Mark(first.at, (one, other))
