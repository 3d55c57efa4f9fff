"""Those who ask without being friends: floods, ids and keys of others, and decisions for ever."""

import dataclasses
from functools import partial
from typing import Any

import msgspec
import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, ROLE_BINDINGS
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import ensure_tenant_namespace, users_of
from liqod.config import parse
from liqod.handshake.protocol.encoding import pack, unpack
from liqod.handshake.protocol.messages import Accepted, Ask, Cancel, Denied, Done, Failed, Refused
from liqod.handshake.requests import incomingrecord, invitations
from liqod.handshake.requests.incomingcontroller import IncomingController
from liqod.handshake.requests.incomingserver import IncomingServer
from liqod.handshake.timings import ORDINARY, HandshakeTimings
from liqod.kube.client import Client
from liqod.kube.selection import EVERY, Selection
from liqod.model import ids
from liqod.procedures import answering, peeringusers, revoking
from liqod.resources import (
    IDENTITIES,
    INCOMING_PEERINGS,
    INVITATIONS,
    OUTGOING_PEERINGS,
    TENANTS,
    Invitation,
)
from tests.simulated.asking import Answer, ignored, reception, request, somebody
from tests.simulated.borrower import eventually
from tests.simulated.meeting import entries
from tests.simulated.members import Member

AUTO = '[[policies]]\naction = "auto"\n'


async def test_one_address_fills_no_inbox_and_others_are_seen_still():
    async with reception() as (milan, host, nursery):
        told: list[int] = []
        for number in range(16):
            who = somebody(f"edge-{number}")
            nursery.start_soon(host.on_ask, who, "192.0.2.1", request(), told.append)
        await eventually(lambda: _async(len(told) == 16))
        more = await host.on_ask(somebody("edge-16"), "192.0.2.1", request(), ignored)
        assert isinstance(more, Refused)
        assert more.code == "busy"
        nursery.start_soon(host.on_ask, somebody("rome"), "192.0.2.2", request(), told.append)
        await eventually(lambda: _async(len(told) == 17))
        assert len(await entries(milan)) == 17


async def test_what_was_taken_back_leaves_its_place():
    async with reception() as (milan, host, nursery):
        for number in range(16):
            who, ask = somebody(f"edge-{number}"), request()
            async with trio.open_nursery() as asking:
                asking.start_soon(host.on_ask, who, "192.0.2.1", ask, ignored)
                await eventually(partial(_is_waiting, milan, ask))
                await host.on_report(who, Cancel(request=ask.request))
        assert await entries(milan) == []
        told: list[int] = []
        nursery.start_soon(host.on_ask, somebody("rome"), "192.0.2.1", request(), told.append)
        await eventually(lambda: _async(len(told) == 1))


async def _is_waiting(milan: Member, ask: Ask) -> bool:
    found = [each.status for each in await entries(milan) if each.spec.request == ask.request]
    return [each.phase for each in found] == ["Waiting"]


AT_ONCE = HandshakeTimings(cached=0.0)
"""Timings by which a cache is believed at once."""


def lagging(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the API server's cache shows no object that is there."""
    whole = Client.list

    async def listed(self: Client, kind: Any, selection: Any = EVERY, **more: Any) -> Any:
        return [] if selection.cached else await whole(self, kind, selection, **more)

    monkeypatch.setattr(Client, "list", listed)


@pytest.mark.parametrize("trusted", [False, True])
async def test_who_was_let_in_just_now_is_known_though_a_cache_does_not_tell_it(
    trusted: bool, monkeypatch: pytest.MonkeyPatch
):
    """`trusted`: the cache lags for longer than it is thought to."""
    lagging(monkeypatch)
    timings = AT_ONCE if trusted else ORDINARY
    async with reception('[[policies]]\naction = "auto"\n', timings) as (_, host, _):
        mine = somebody("rome")
        assert isinstance(await host.on_ask(mine, "192.0.2.1", request(), ignored), Accepted)
        second = await host.on_ask(somebody("rome"), "192.0.2.2", request(), ignored)
        assert isinstance(second, Refused)
        assert second.code == "key-changed"


async def test_a_mark_of_revocation_is_read_though_a_cache_does_not_tell_it(
    monkeypatch: pytest.MonkeyPatch,
):
    async with reception('[[policies]]\naction = "auto"\n', AT_ONCE) as (milan, host, nursery):
        await ensure_tenant_namespace(milan.admin, "rome")
        mark = {"metadata": {"annotations": {labels.REVOKED_TENANT: "2026-01-01T00:00:00Z"}}}
        await milan.admin.patch(NAMESPACES, "liqo-tenant-rome", mark)
        lagging(monkeypatch)
        nursery.start_soon(host.on_ask, somebody("rome"), "192.0.2.1", request(), ignored)
        assert await eventually(lambda: _first(milan))
        [entry] = await entries(milan)
        assert entry.status.phase == "Waiting"


async def test_whom_a_policy_denies_leaves_nothing_in_the_inbox():
    async with reception('[[policies]]\naction = "deny"\n') as (milan, host, _):
        answer = await host.on_ask(somebody("rome"), "192.0.2.1", request(), ignored)
        assert isinstance(answer, Denied)
        assert await entries(milan) == []


async def test_a_decision_for_ever_lets_in_again_and_grants_no_more_than_the_first_time():
    async with reception() as (milan, host, nursery):
        rome, ask = somebody("rome"), request(resources={"cpu": "2"})
        nursery.start_soon(host.on_ask, rome, "192.0.2.1", ask, ignored)
        found = await eventually(lambda: _first(milan))
        decision = {"spec": {"decision": "Accept", "always": True}}
        await milan.admin.patch(INCOMING_PEERINGS, found, decision, "liqo")
        with trio.fail_after(30):
            assert isinstance(await host.on_ask(rome, "192.0.2.1", ask, ignored), Accepted)
        await host.on_report(rome, Done(request=ask.request))
        more = request(resources={"cpu": "64"})
        with trio.fail_after(30):
            again = await host.on_ask(rome, "192.0.2.1", more, ignored)
        assert isinstance(again, Accepted)
        assert again.granted["cpu"] == "2"


async def test_who_was_never_let_in_ends_nothing_of_another_by_the_same_id():
    async with reception() as (milan, host, nursery):
        await peeringusers.generate(milan.admin, "rome", here="milan", server="https://x", ca=b"")
        wanted = invitations.InvitationParameters(
            addresses=("192.0.2.9:6446",), key="0" * 64, lifetime=600, cluster_id="rome"
        )
        await invitations.invite(milan.admin, "liqo", wanted)
        users = Selection(labels=users_of("rome"))
        bound = await milan.admin.list(ROLE_BINDINGS, users, decode=Partial)

        stranger, cancelled = somebody("rome"), request()
        nursery.start_soon(host.on_ask, stranger, "192.0.2.1", cancelled, ignored)
        await eventually(lambda: _first(milan))
        await host.on_report(stranger, Cancel(request=cancelled.request))
        assert await entries(milan) == []
        for report in (Done, Failed):
            over = request(lifetime=1)
            answer = await host.on_ask(stranger, "192.0.2.1", over, ignored)
            assert isinstance(answer, Refused)
            await host.on_report(stranger, report(request=over.request))
            assert [each.status.phase for each in await entries(milan)] == ["Expired"]

        assert await milan.admin.list(ROLE_BINDINGS, users, decode=Partial) == bound
        assert len(await milan.admin.list(INVITATIONS, Selection("liqo"), decode=Partial)) == 1


async def test_who_asks_again_and_again_does_not_undo_that_it_was_revoked():
    async with reception('[[policies]]\naction = "auto"\n') as (milan, host, nursery):
        rome, ask = somebody("rome"), request()
        assert isinstance(await host.on_ask(rome, "192.0.2.1", ask, ignored), Accepted)
        tenant = {"metadata": {"name": "rome"}, "spec": {"clusterID": "rome"}}
        await milan.admin.create(TENANTS, tenant, "liqo-tenant-rome")
        answers: list[Answer] = []

        async def again() -> None:
            answers.append(await host.on_ask(rome, "192.0.2.1", ask, ignored))

        for _ in range(8):
            nursery.start_soon(again)
        await eventually(lambda: _async(bool(answers)))
        done = await revoking.carry_out(milan.admin, "rome", ("consumer",), milan.progress)
        await eventually(lambda: _async(len(answers) == 8))
        assert done.roles == ("consumer",)
        found = await milan.admin.get(NAMESPACES, "liqo-tenant-rome", decode=Partial)
        assert labels.REVOKED_TENANT in found.metadata.annotations
        users = Selection(labels=users_of("rome"))
        assert await milan.admin.list(ROLE_BINDINGS, users, decode=Partial) == []
        nursery.start_soon(host.on_ask, rome, "192.0.2.1", request(), ignored)
        assert await eventually(lambda: _first(milan))


async def test_a_key_that_begins_like_another_s_takes_over_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
):
    """A name holds 32 bits of a key, and somebody can make keys until one fits."""
    monkeypatch.setattr(answering, "name_of", lambda cluster_id, key: f"{cluster_id}-00000000")
    async with reception() as (milan, host, nursery):
        rome, ask = somebody("rome"), request()
        nursery.start_soon(host.on_ask, rome, "192.0.2.1", ask, ignored)
        found = await eventually(lambda: _first(milan))
        decision = {"spec": {"decision": "Accept", "always": True}}
        await milan.admin.patch(INCOMING_PEERINGS, found, decision, "liqo")
        with trio.fail_after(30):
            assert isinstance(await host.on_ask(rome, "192.0.2.1", ask, ignored), Accepted)
        [before] = await entries(milan)
        stranger = somebody("rome")
        for each in ask, request():
            answer = await host.on_ask(stranger, "192.0.2.2", each, ignored)
            assert isinstance(answer, Refused)
        await host.on_report(stranger, Cancel(request=ask.request))
        assert await entries(milan) == [before]


async def test_nobody_takes_the_id_of_a_lender_by_an_invitation():
    async with reception() as (milan, host, _):
        turin = somebody("turin")
        agreed = {"metadata": {"name": "turin"}, "spec": {"clusterID": "turin"}}
        await milan.admin.create(OUTGOING_PEERINGS, agreed, "liqo")
        status = {"status": {"clusterID": "turin", "key": turin.key, "phase": "Done"}}
        await milan.admin.patch(OUTGOING_PEERINGS, "turin", status, "liqo", subresource="status")
        answer = await host.on_ask(somebody("turin"), "192.0.2.1", await invited(milan), ignored)
        assert isinstance(answer, Refused)
        assert answer.code == "key-changed"
        with trio.fail_after(30):
            answer = await host.on_ask(turin, "192.0.2.1", await invited(milan), ignored)
        assert isinstance(answer, Accepted)


async def test_where_the_key_of_a_lender_is_not_known_a_person_is_asked():
    async with reception('[[policies]]\naction = "auto"\n') as (milan, host, nursery):
        namespace = await ensure_tenant_namespace(milan.admin, "turin")
        identity = {
            "metadata": {"name": ids.control_plane_identity("turin")},
            "spec": {"clusterID": "turin", "type": "ControlPlane"},
        }
        await milan.admin.create(IDENTITIES, identity, namespace)
        for ask in request(), await invited(milan):
            nursery.start_soon(host.on_ask, somebody("turin"), "192.0.2.1", ask, ignored)
            await eventually(lambda: _first(milan))
            [entry] = await entries(milan)
            assert "whose key is not known" in entry.status.reason
            await milan.admin.delete(INCOMING_PEERINGS, entry.name, "liqo")
        [left] = await milan.admin.list(INVITATIONS, Selection("liqo"), decode=Invitation)
        assert left.status.used == 0


async def test_who_is_invited_comes_into_an_inbox_that_is_full():
    async with reception(most=2) as (milan, host, nursery):
        for number in range(2):
            where = f"10.0.{number}.1"
            nursery.start_soon(host.on_ask, somebody(f"e-{number}"), where, request(), ignored)

        async def two() -> bool:
            return len(await entries(milan)) == 2

        await eventually(two)
        refused = await host.on_ask(somebody("rome"), "192.0.2.1", request(), ignored)
        assert isinstance(refused, Refused)
        with trio.fail_after(30):
            ask = await invited(milan)
            assert isinstance(
                await host.on_ask(somebody("rome"), "192.0.2.1", ask, ignored), Accepted
            )


@pytest.mark.parametrize("settings", ["", '[[policies]]\naction = "auto"\n'])
async def test_who_was_denied_for_ever_is_let_in_by_no_invitation_and_no_policy(settings: str):
    async with reception() as (milan, host, nursery):
        rome = somebody("rome")
        nursery.start_soon(host.on_ask, rome, "192.0.2.1", request(), ignored)
        found = await eventually(lambda: _first(milan))
        decision = {"spec": {"decision": "Deny", "always": True}}
        await milan.admin.patch(INCOMING_PEERINGS, found, decision, "liqo")
        await answering.taken_up(milan.admin, "liqo", found, within=30)
        if settings:
            config = parse(milan.settings + settings)
            host = IncomingServer(
                IncomingController(dataclasses.replace(milan.context, config=config))
            )
        for ask in (await invited(milan), request()):
            with trio.fail_after(30):
                answer = await host.on_ask(rome, "192.0.2.1", ask, ignored)
            assert isinstance(answer, Denied)
            assert "for ever" in answer.reason
        [left] = await milan.admin.list(INVITATIONS, Selection("liqo"), decode=Invitation)
        assert left.status.used == 0


async def test_who_was_denied_for_ever_is_so_by_whichever_id():
    """An id is what somebody calls himself; the key is who he is."""
    async with reception(AUTO) as (milan, host, _):
        rome = somebody("rome")
        refused = {"spec": {"decision": "Deny", "always": True}}
        made = incomingrecord.made(rome, incomingrecord.spec_of(rome, "192.0.2.1", request(), None))
        await milan.admin.create(INCOMING_PEERINGS, made, "liqo")
        name = answering.name_of("rome", rome.key)
        await milan.admin.patch(INCOMING_PEERINGS, name, refused, "liqo")
        other = msgspec.structs.replace(rome, cluster_id="turin")

        async def denied() -> bool:
            return isinstance(await host.on_ask(other, "192.0.2.9", request(), ignored), Denied)

        with trio.fail_after(30):
            await eventually(denied)
            for ask in (await invited(milan), request()):
                assert isinstance(await host.on_ask(other, "192.0.2.9", ask, ignored), Denied)
            for who in (somebody("turin"), somebody("bari")):
                answer = await host.on_ask(who, "192.0.2.9", request(), ignored)
                assert isinstance(answer, Accepted), "nobody else is meant"


async def test_a_key_that_was_revoked_is_left_to_a_person_by_whichever_id():
    async with reception(AUTO) as (milan, host, nursery):
        rome = somebody("rome")
        other = msgspec.structs.replace(rome, cluster_id="turin")
        with trio.fail_after(60):
            assert isinstance(await host.on_ask(rome, "192.0.2.1", request(), ignored), Accepted)
            await revoking.carry_out(milan.admin, "rome", ("consumer",), milan.progress)
            noted = await milan.admin.get(NAMESPACES, "liqo-tenant-rome", decode=Partial)
            assert noted.metadata.annotations[labels.REVOKED_KEYS] == rome.key
            ask = await invited(milan)
            nursery.start_soon(host.on_ask, other, "192.0.2.9", ask, ignored)
            assert await eventually(lambda: _first(milan)) == answering.name_of("turin", rome.key)
            [entry] = await entries(milan)
            assert entry.status.reason == "it was revoked here"
            # The id is let in again with another key: the one that was stolen stays what it is.
            key = somebody("rome").key
            let_in = partial(
                peeringusers.generate,
                *(milan.admin, "rome"),
                here="milan",
                server=milan.context.endpoint.server,
                ca=b"",
                anew=True,
            )
            await let_in(key=key)
            # Nothing comes of that: what is noted stays all the same.
            await peeringusers.delete(milan.admin, "rome")
            await milan.admin.delete(INCOMING_PEERINGS, entry.name, "liqo")
            nursery.start_soon(host.on_ask, other, "192.0.2.9", request(), ignored)
            assert await eventually(lambda: _first(milan))
            # A person may let it in again by its own id: then the other one is what was revoked.
            await revoking.carry_out(milan.admin, "rome", ("consumer",), milan.progress)
            await let_in(key=rome.key)
            left = await milan.admin.get(NAMESPACES, "liqo-tenant-rome", decode=Partial)
            assert left.metadata.annotations[labels.REVOKED_KEYS] == key


async def test_an_invitation_answers_no_more_for_what_was_taken_out_again():
    async with reception() as (milan, host, _):
        rome, ask = somebody("rome"), await invited(milan)
        with trio.fail_after(30):
            assert isinstance(await host.on_ask(rome, "192.0.2.1", ask, ignored), Accepted)
        [entry] = await entries(milan)
        await milan.admin.delete(INCOMING_PEERINGS, entry.name, "liqo")
        with trio.fail_after(30):
            answer = await host.on_ask(rome, "192.0.2.1", ask, ignored)
        assert isinstance(answer, Refused)
        assert answer.code == "invitation-used"


async def test_who_was_interrupted_before_it_was_written_down_has_used_its_invitation():
    async with reception() as (milan, host, _):
        rome, ask = somebody("rome"), await invited(milan)
        assert ask.invitation is not None
        bearer = invitations.Bearer(
            name=ask.invitation.id,
            secret=unpack(ask.invitation.secret),
            cluster_id="rome",
            key=rome.key,
            request=ask.request,
        )
        await invitations.redeem(milan.admin, "liqo", bearer)
        with trio.fail_after(30):
            assert isinstance(await host.on_ask(rome, "192.0.2.1", ask, ignored), Accepted)


async def invited(milan: Member) -> Ask:
    """A request that brings an invitation."""
    wanted = invitations.InvitationParameters(
        addresses=("192.0.2.9:6446",), key="0" * 64, lifetime=600
    )
    token, _ = await invitations.invite(milan.admin, "liqo", wanted)
    return request(invitation={"id": token.id, "secret": pack(token.secret)})


async def _first(milan: Member) -> str | None:
    found = await entries(milan)
    return found[0].name if found and found[0].status.phase == "Waiting" else None


async def _async(value: bool) -> bool:
    return value
