"""Those who ask without being friends: floods, another key, the same id, and decisions for ever."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import trio

from liqod.config import parse
from liqod.errors import ConfigError
from liqod.handshake import inbox, incoming, invitations
from liqod.handshake.encoding import pack
from liqod.handshake.inbox import Inbox
from liqod.handshake.messages import Accepted, Ask, Cancel, Denied, Done, Failed, Refused
from liqod.handshake.outputs import Peer
from liqod.handshake.reception import Reception
from liqod.identity import keys
from liqod.kube.client import Client
from liqod.kube.kinds import NAMESPACES, ROLE_BINDINGS
from liqod.kube.meta import Partial
from liqod.kube.selection import EVERY, Selection
from liqod.model import ids, labels
from liqod.procedures import answering, peeringusers, revoking
from liqod.resources import (
    IDENTITIES,
    INCOMING_PEERINGS,
    INVITATIONS,
    OUTGOING_PEERINGS,
    TENANTS,
    Invitation,
)
from liqod.tenancy import ensure_tenant_namespace, users_of
from tests.simulated.borrower import eventually
from tests.simulated.meeting import entries
from tests.simulated.peering import Member, members

Answer = Accepted | Denied | Refused


def somebody(cluster_id: str) -> Peer:
    """A cluster with a key of its own."""
    public = keys.public_pem(keys.generate())
    return Peer(
        cluster_id=cluster_id,
        public_key=public.decode(),
        key=keys.print_of(public),
        words="acorn-actor-adder-agate",
        version=1,
        capabilities=frozenset(),
    )


def request(**more: object) -> Ask:
    """A request that nobody has made before."""
    return msgspec.convert(
        {"type": "ask", "request": str(uuid4()), "lifetime": 600, **more}, Ask, strict=False
    )


@asynccontextmanager
async def reception(settings: str = "") -> AsyncIterator[tuple[Member, Reception, trio.Nursery]]:
    """Where milan answers."""
    async with members("milan") as [milan], trio.open_nursery() as nursery:
        kept = Inbox(milan.home)
        await nursery.start(kept.run)
        if settings:
            config = parse(milan.settings + settings)
            kept.reload(dataclasses.replace(milan.home, config=config))
        yield milan, Reception(kept), nursery
        nursery.cancel_scope.cancel()


def ignored(lifetime: int) -> None:
    """It is told to wait."""


async def test_one_address_fills_no_inbox_and_others_are_seen_still():
    async with reception() as (milan, host, nursery):
        told: list[int] = []
        for number in range(16):
            who = somebody(f"edge-{number}")
            nursery.start_soon(host.asked, who, "192.0.2.1", request(), told.append)
        await eventually(lambda: _async(len(told) == 16))
        more = await host.asked(somebody("edge-16"), "192.0.2.1", request(), ignored)
        assert isinstance(more, Refused)
        assert more.code == "busy"
        nursery.start_soon(host.asked, somebody("rome"), "192.0.2.2", request(), told.append)
        await eventually(lambda: _async(len(told) == 17))
        assert len(await entries(milan)) == 17


async def test_who_is_known_by_another_key_is_refused_and_named_until_the_operator_says_so():
    async with reception('[[policies]]\naction = "auto"\n') as (milan, host, _):
        before = somebody("rome")
        namespace = await ensure_tenant_namespace(milan.admin, "rome")
        mark = {"metadata": {"annotations": {labels.ACCEPTED_KEY: before.key}}}
        await milan.admin.patch(NAMESPACES, namespace, mark)
        now, ask = somebody("rome"), request()
        answer = await host.asked(now, "192.0.2.1", ask, ignored)
        assert isinstance(answer, Refused)
        assert answer.code == "key-changed"
        [entry] = await entries(milan)
        remedy = f"`liqod inbox accept {entry.name} --replace`"
        assert remedy in answer.reason
        plain = answering.acceptance(entry, {})
        with pytest.raises(ConfigError, match="known here by another key") as caught:
            await answering.decide(milan.admin, "liqo", entry, plain)
        assert remedy in str(caught.value)
        # By `kubectl edit` it can be written; then the entry says why it still waits.
        nothing = {"reason": ""}
        names = (INCOMING_PEERINGS, entry.name)
        await milan.admin.patch(*names, {"status": nothing}, "liqo", subresource="status")
        await milan.admin.patch(*names, {"spec": {"decision": "Accept"}}, "liqo")
        await milan.until(*names, "liqo", lambda found: remedy in found["status"]["reason"])
        decision = {"spec": {"decision": "Accept", "replace": True}}
        await milan.admin.patch(INCOMING_PEERINGS, entry.name, decision, "liqo")
        done = await answering.taken_up(milan.admin, "liqo", entry.name, within=30)
        assert "rome is accepted" in answering.outcome(done)
        with trio.fail_after(30):
            assert isinstance(await host.asked(now, "192.0.2.1", ask, ignored), Accepted)
        # The key before is the strange one now.
        refused = await host.attached(before)
        assert refused is not None
        assert refused.code == "unknown"


async def test_of_two_with_one_id_the_second_is_not_let_in_unasked():
    async with reception('[[policies]]\naction = "auto"\n') as (_, host, _):
        first = await host.asked(somebody("rome"), "192.0.2.1", request(), ignored)
        assert isinstance(first, Accepted)
        second = await host.asked(somebody("rome"), "192.0.2.2", request(), ignored)
        assert isinstance(second, Refused)
        assert second.code == "key-changed"


def lagging(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the API server's cache tells nothing of what is there."""
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
    if trusted:
        monkeypatch.setattr(inbox, "RECENT", 0.0)
    async with reception('[[policies]]\naction = "auto"\n') as (_, host, _):
        mine = somebody("rome")
        assert isinstance(await host.asked(mine, "192.0.2.1", request(), ignored), Accepted)
        second = await host.asked(somebody("rome"), "192.0.2.2", request(), ignored)
        assert isinstance(second, Refused)
        assert second.code == "key-changed"


async def test_a_mark_of_revocation_is_read_though_a_cache_does_not_tell_it(
    monkeypatch: pytest.MonkeyPatch,
):
    async with reception('[[policies]]\naction = "auto"\n') as (milan, host, nursery):
        await ensure_tenant_namespace(milan.admin, "rome")
        mark = {"metadata": {"annotations": {labels.REVOKED_TENANT: "2026-01-01T00:00:00Z"}}}
        await milan.admin.patch(NAMESPACES, "liqo-tenant-rome", mark)
        lagging(monkeypatch)
        monkeypatch.setattr(inbox, "RECENT", 0.0)
        nursery.start_soon(host.asked, somebody("rome"), "192.0.2.1", request(), ignored)
        assert await eventually(lambda: _first(milan))
        [entry] = await entries(milan)
        assert entry.status.phase == "Waiting"


async def test_whom_a_policy_denies_leaves_nothing_in_the_inbox():
    async with reception('[[policies]]\naction = "deny"\n') as (milan, host, _):
        answer = await host.asked(somebody("rome"), "192.0.2.1", request(), ignored)
        assert isinstance(answer, Denied)
        assert await entries(milan) == []


async def test_a_decision_for_ever_lets_in_again_and_grants_no_more_than_the_first_time():
    async with reception() as (milan, host, nursery):
        rome, ask = somebody("rome"), request(resources={"cpu": "2"})
        nursery.start_soon(host.asked, rome, "192.0.2.1", ask, ignored)
        found = await eventually(lambda: _first(milan))
        decision = {"spec": {"decision": "Accept", "always": True}}
        await milan.admin.patch(INCOMING_PEERINGS, found, decision, "liqo")
        with trio.fail_after(30):
            assert isinstance(await host.asked(rome, "192.0.2.1", ask, ignored), Accepted)
        await host.reported(rome, Done(request=ask.request))
        more = request(resources={"cpu": "64"})
        with trio.fail_after(30):
            again = await host.asked(rome, "192.0.2.1", more, ignored)
        assert isinstance(again, Accepted)
        assert again.granted["cpu"] == "2"


async def test_who_was_never_let_in_ends_nothing_of_another_by_the_same_id():
    async with reception() as (milan, host, nursery):
        await peeringusers.generate(milan.admin, "rome", here="milan", server="https://x", ca=b"")
        wanted = invitations.Wanted(
            addresses=("192.0.2.9:6446",), key="0" * 64, lifetime=600, cluster_id="rome"
        )
        await invitations.invite(milan.admin, "liqo", wanted)
        users = Selection(labels=users_of("rome"))
        bound = await milan.admin.list(ROLE_BINDINGS, users, decode=Partial)

        stranger, cancelled = somebody("rome"), request()
        nursery.start_soon(host.asked, stranger, "192.0.2.1", cancelled, ignored)
        await eventually(lambda: _first(milan))
        await host.reported(stranger, Cancel(request=cancelled.request))
        assert await entries(milan) == []
        for report in (Done, Failed):
            over = request(lifetime=1)
            answer = await host.asked(stranger, "192.0.2.1", over, ignored)
            assert isinstance(answer, Refused)
            await host.reported(stranger, report(request=over.request))
            assert [each.status.phase for each in await entries(milan)] == ["Expired"]

        assert await milan.admin.list(ROLE_BINDINGS, users, decode=Partial) == bound
        assert len(await milan.admin.list(INVITATIONS, Selection("liqo"), decode=Partial)) == 1


async def test_who_asks_again_and_again_does_not_undo_that_it_was_revoked():
    async with reception('[[policies]]\naction = "auto"\n') as (milan, host, nursery):
        rome, ask = somebody("rome"), request()
        assert isinstance(await host.asked(rome, "192.0.2.1", ask, ignored), Accepted)
        tenant = {"metadata": {"name": "rome"}, "spec": {"clusterID": "rome"}}
        await milan.admin.create(TENANTS, tenant, "liqo-tenant-rome")
        answers: list[Answer] = []

        async def again() -> None:
            answers.append(await host.asked(rome, "192.0.2.1", ask, ignored))

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
        nursery.start_soon(host.asked, rome, "192.0.2.1", request(), ignored)
        assert await eventually(lambda: _first(milan))


async def test_a_key_that_begins_like_another_s_takes_over_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
):
    """A name holds 32 bits of a key, and somebody can make keys until one fits."""
    monkeypatch.setattr(incoming, "name_of", lambda cluster_id, key: f"{cluster_id}-00000000")
    async with reception() as (milan, host, nursery):
        rome, ask = somebody("rome"), request()
        nursery.start_soon(host.asked, rome, "192.0.2.1", ask, ignored)
        found = await eventually(lambda: _first(milan))
        decision = {"spec": {"decision": "Accept", "always": True}}
        await milan.admin.patch(INCOMING_PEERINGS, found, decision, "liqo")
        with trio.fail_after(30):
            assert isinstance(await host.asked(rome, "192.0.2.1", ask, ignored), Accepted)
        [before] = await entries(milan)
        stranger = somebody("rome")
        for each in ask, request():
            answer = await host.asked(stranger, "192.0.2.2", each, ignored)
            assert isinstance(answer, Refused)
        await host.reported(stranger, Cancel(request=ask.request))
        assert await entries(milan) == [before]


async def test_nobody_takes_the_id_of_a_lender_by_an_invitation():
    async with reception() as (milan, host, _):
        turin = somebody("turin")
        agreed = {"metadata": {"name": "turin"}, "spec": {"clusterID": "turin"}}
        await milan.admin.create(OUTGOING_PEERINGS, agreed, "liqo")
        status = {"status": {"clusterID": "turin", "key": turin.key, "phase": "Done"}}
        await milan.admin.patch(OUTGOING_PEERINGS, "turin", status, "liqo", subresource="status")
        answer = await host.asked(somebody("turin"), "192.0.2.1", await invited(milan), ignored)
        assert isinstance(answer, Refused)
        assert answer.code == "key-changed"
        with trio.fail_after(30):
            answer = await host.asked(turin, "192.0.2.1", await invited(milan), ignored)
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
            nursery.start_soon(host.asked, somebody("turin"), "192.0.2.1", ask, ignored)
            await eventually(lambda: _first(milan))
            [entry] = await entries(milan)
            assert "whose key is not known" in entry.status.reason
            await milan.admin.delete(INCOMING_PEERINGS, entry.name, "liqo")
        [left] = await milan.admin.list(INVITATIONS, Selection("liqo"), decode=Invitation)
        assert left.status.used == 0


async def test_who_is_invited_comes_into_an_inbox_that_is_full(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(incoming, "MOST", 2)
    async with reception() as (milan, host, nursery):
        for number in range(2):
            where = f"10.0.{number}.1"
            nursery.start_soon(host.asked, somebody(f"e-{number}"), where, request(), ignored)

        async def two() -> bool:
            return len(await entries(milan)) == 2

        await eventually(two)
        refused = await host.asked(somebody("rome"), "192.0.2.1", request(), ignored)
        assert isinstance(refused, Refused)
        with trio.fail_after(30):
            ask = await invited(milan)
            assert isinstance(
                await host.asked(somebody("rome"), "192.0.2.1", ask, ignored), Accepted
            )


async def test_the_word_that_a_key_replaces_another_is_good_for_one_peering():
    async with reception('[[policies]]\naction = "auto"\n') as (milan, host, _):
        asked = {each: request() for each in "abc"}
        who = {each: somebody("rome") for each in asked}
        with trio.fail_after(60):
            first = await host.asked(who["a"], "192.0.2.1", asked["a"], ignored)
            assert isinstance(first, Accepted)
            await tenant_of(milan, who["a"])
            for each in "bc":
                refused = await host.asked(who[each], "192.0.2.1", asked[each], ignored)
                assert isinstance(refused, Refused)
                name = incoming.name_of("rome", who[each].key)
                decision = {"spec": {"decision": "Accept", "replace": True}}
                await milan.admin.patch(INCOMING_PEERINGS, name, decision, "liqo")
                answer = await host.asked(who[each], "192.0.2.1", asked[each], ignored)
                assert isinstance(answer, Accepted)
                await tenant_of(milan, who[each])
                await host.reported(who[each], Done(request=asked[each].request))
            for ask in asked["b"], request():
                refused = await host.asked(who["b"], "192.0.2.1", ask, ignored)
                assert isinstance(refused, Refused)
                assert refused.code == "key-changed"


async def tenant_of(milan: Member, peer: Peer) -> None:
    """What the daemon notes when a consumer's Tenant is accepted."""
    mark = {"metadata": {"annotations": {labels.ACCEPTED_KEY: peer.key}}}
    await milan.admin.patch(NAMESPACES, f"liqo-tenant-{peer.cluster_id}", mark)


async def invited(milan: Member) -> Ask:
    """A request that brings an invitation."""
    wanted = invitations.Wanted(addresses=("192.0.2.9:6446",), key="0" * 64, lifetime=600)
    token, _ = await invitations.invite(milan.admin, "liqo", wanted)
    return request(invitation={"id": token.id, "secret": pack(token.secret)})


async def _first(milan: Member) -> str | None:
    found = await entries(milan)
    return found[0].name if found and found[0].status.phase == "Waiting" else None


async def _async(value: bool) -> bool:
    return value
