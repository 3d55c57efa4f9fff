"""One id with two keys: the second is refused until an operator says that it replaces the first,
and then neither ends what is the other's."""

from pathlib import Path

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, ROLE_BINDINGS
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import ensure_tenant_namespace, users_of
from liqod.errors import ConfigError
from liqod.handshake.protocol.messages import Accepted, Ask, Cancel, Done, Failed, Refused
from liqod.handshake.protocol.outputs import VerifiedPeer
from liqod.handshake.requests import incomingrecord
from liqod.handshake.requests.incomingserver import IncomingServer
from liqod.kube.selection import Selection
from liqod.procedures import answering
from liqod.resources import (
    INCOMING_PEERINGS,
)
from tests.simulated.asking import Answer, ignored, reception, request, somebody
from tests.simulated.meeting import entries, run
from tests.simulated.members import Member
from tests.simulated.remedies import taken


async def test_who_is_known_by_another_key_is_refused_and_named_until_the_operator_says_so(
    tmp_path: Path,
):
    async with reception('[[policies]]\naction = "auto"\n') as (milan, host, _):
        before = somebody("rome")
        namespace = await ensure_tenant_namespace(milan.admin, "rome")
        mark = {"metadata": {"annotations": {labels.ACCEPTED_KEY: before.key}}}
        await milan.admin.patch(NAMESPACES, namespace, mark)
        now, ask = somebody("rome"), request()
        answer = await host.on_ask(now, "192.0.2.1", ask, ignored)
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
        done = await run(milan, tmp_path, *taken(answer.reason, "inbox accept x --replace"))
        assert "rome is accepted" in done.out
        with trio.fail_after(30):
            assert isinstance(await host.on_ask(now, "192.0.2.1", ask, ignored), Accepted)
        # The key before is the strange one now.
        refused = await host.on_attach(before)
        assert refused is not None
        assert refused.code == "unknown"


async def test_of_two_with_one_id_the_second_is_not_let_in_unasked():
    async with reception('[[policies]]\naction = "auto"\n') as (_, host, _):
        first = await host.on_ask(somebody("rome"), "192.0.2.1", request(), ignored)
        assert isinstance(first, Accepted)
        second = await host.on_ask(somebody("rome"), "192.0.2.2", request(), ignored)
        assert isinstance(second, Refused)
        assert second.code == "key-changed"


@pytest.mark.long
async def test_the_word_that_a_key_replaces_another_is_good_for_one_peering():
    async with reception('[[policies]]\naction = "auto"\n') as (milan, host, _):
        asked = {each: request() for each in "abc"}
        who = {each: somebody("rome") for each in asked}
        with trio.fail_after(60):
            first = await host.on_ask(who["a"], "192.0.2.1", asked["a"], ignored)
            assert isinstance(first, Accepted)
            await tenant_of(milan, who["a"])
            for each in "bc":
                refused = await host.on_ask(who[each], "192.0.2.1", asked[each], ignored)
                assert isinstance(refused, Refused)
                name = answering.name_of("rome", who[each].key)
                decision = {"spec": {"decision": "Accept", "replace": True}}
                await milan.admin.patch(INCOMING_PEERINGS, name, decision, "liqo")
                answer = await host.on_ask(who[each], "192.0.2.1", asked[each], ignored)
                assert isinstance(answer, Accepted)
                await tenant_of(milan, who[each])
                await host.on_report(who[each], Done(request=asked[each].request))
            for ask in asked["b"], request():
                refused = await host.on_ask(who["b"], "192.0.2.1", ask, ignored)
                assert isinstance(refused, Refused)
                assert refused.code == "key-changed"


def in_order() -> tuple[VerifiedPeer, VerifiedPeer]:
    """Two clusters of one id, the one first whose entry is listed first."""
    one, other = sorted((somebody("rome") for _ in "ab"), key=lambda each: each.key)
    return one, other


async def accepted_by_operator(
    milan: Member, host: IncomingServer, who: VerifiedPeer, ask: Ask
) -> Answer:
    """A strange key is let in where the operator says that it replaces the one before."""
    refused = await host.on_ask(who, "192.0.2.2", ask, ignored)
    assert isinstance(refused, Refused)
    name = answering.name_of("rome", who.key)
    decision = {"spec": {"decision": "Accept", "replace": True}}
    await milan.admin.patch(INCOMING_PEERINGS, name, decision, "liqo")
    await answering.taken_up(milan.admin, "liqo", name, within=30)
    return await host.on_ask(who, "192.0.2.2", ask, ignored)


@pytest.mark.parametrize("old_is_first", [True, False])
@pytest.mark.parametrize("is_tenant", [True, False])
async def test_a_key_that_was_replaced_is_let_in_no_more_and_ends_nothing_of_the_new_one(
    old_is_first: bool, is_tenant: bool
):
    async with reception('[[policies]]\naction = "auto"\n') as (milan, host, _):
        old, new = in_order() if old_is_first else in_order()[::-1]
        stolen, ask = request(), request()
        with trio.fail_after(60):
            assert isinstance(await host.on_ask(old, "192.0.2.1", stolen, ignored), Accepted)
            if is_tenant:
                await tenant_of(milan, old)
            assert isinstance(await accepted_by_operator(milan, host, new, ask), Accepted)
            users = Selection(labels=users_of("rome"))
            bound = await milan.admin.list(ROLE_BINDINGS, users, decode=Partial)
            assert bound
            for report in (Done, Failed, Cancel):
                await host.on_report(old, report(request=stolen.request))
            for again in (stolen, request()):
                answer = await host.on_ask(old, "192.0.2.1", again, ignored)
                assert isinstance(answer, Refused)
                assert answer.code == "key-changed"
                await host.on_report(old, Failed(request=again.request))
            assert await milan.admin.list(ROLE_BINDINGS, users, decode=Partial) == bound
            assert await host.on_attach(old) is not None
            assert isinstance(await host.on_ask(new, "192.0.2.2", ask, ignored), Accepted)


async def test_what_fails_ends_the_way_in_of_its_own_key_and_no_other():
    """Two entries of an id that were let in at once: a daemon before this one made such."""
    async with reception('[[policies]]\naction = "auto"\n') as (milan, host, _):
        old, new = somebody("rome"), somebody("rome")
        ask, theirs = request(), request()
        with trio.fail_after(60):
            assert isinstance(await host.on_ask(old, "192.0.2.1", ask, ignored), Accepted)
            other = incomingrecord.made(new, incomingrecord.spec_of(new, "192.0.2.2", theirs, None))
            made = await milan.admin.create(INCOMING_PEERINGS, other, "liqo")
            conditions = [
                {
                    "type": "Approved",
                    "status": "True",
                    "reason": "Approved",
                    "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
            status = {
                "phase": "Accepted",
                "request": theirs.request,
                "conditions": conditions,
                "expires": incomingrecord.at_in(600),
            }
            await milan.admin.patch(
                INCOMING_PEERINGS,
                made.metadata.name,
                {"status": status},
                "liqo",
                subresource="status",
            )
            users = Selection(labels=users_of("rome"))
            bound = await milan.admin.list(ROLE_BINDINGS, users, decode=Partial)
            await host.on_report(new, Failed(request=theirs.request))
            assert await milan.admin.list(ROLE_BINDINGS, users, decode=Partial) == bound
            await host.on_report(old, Failed(request=ask.request))
            assert await milan.admin.list(ROLE_BINDINGS, users, decode=Partial) == []


async def tenant_of(milan: Member, peer: VerifiedPeer) -> None:
    """Writes the annotation of the daemon for an accepted Tenant of a consumer."""
    mark = {"metadata": {"annotations": {labels.ACCEPTED_KEY: peer.key}}}
    await milan.admin.patch(NAMESPACES, f"liqo-tenant-{peer.cluster_id}", mark)
