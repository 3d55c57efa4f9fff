"""Statements of another key for a cluster that has none: by a stolen one, forged, without end."""

from base64 import b64decode, b64encode

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import EVENTS, NAMESPACES, SECRETS
from liqod.cluster.tenancy import ensure_tenant_namespace
from liqod.consumer.identities.clusterkeys import ClusterKeys, cluster_keys, offer_of
from liqod.handshake.protocol.messages import Refused
from liqod.handshake.transport.localidentity import present_key
from liqod.identity import keys, successions
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.procedures import answering
from liqod.provider.timings import ProviderTimings
from liqod.resources import INCOMING_PEERINGS, OUTGOING_PEERINGS, RENEWS, RESOURCE_SLICES, TENANTS
from tests.simulated.asking import ignored, reception, request, somebody
from tests.simulated.borrower import eventually
from tests.simulated.identity.rotating import SWIFT, destroyed, followed, is_for, rotate, uid
from tests.simulated.identity.test_names import CONTROL, bound, credentials, may
from tests.simulated.members import (
    AT_MILAN,
    AT_ROME,
    Member,
    borrow_a_pod,
    members,
)


async def written(milan: Member, statement: str) -> None:
    """States another next key in rome's Renew at milan, as anyone can who may write it."""
    note = {"metadata": {"annotations": {labels.SUCCESSION: statement}}}
    await milan.admin.patch(RENEWS, "controlplane-milan", note, AT_MILAN)


async def refused(milan: Member, why: str) -> None:
    """Wait until milan has reported that it follows no such key."""

    async def told() -> bool:
        found = await milan.admin.list(EVENTS, Selection(AT_MILAN))
        return any(each["reason"] == "KeyNotFollowed" and why in each["message"] for each in found)

    await eventually(told)


@pytest.mark.long
@pytest.mark.handshake
async def test_who_has_a_stolen_key_of_before_can_state_nothing_that_a_provider_follows():
    async with members("rome", "milan", **SWIFT) as [rome, milan]:
        await borrow_a_pod(rome, milan)
        before, pod = await cluster_keys(rome.admin), await uid(milan)
        made = await rotate(rome)
        await followed(rome, milan, made)
        tenant = await milan.admin.get(TENANTS, "rome", AT_MILAN)
        await rome.stop()  # or it would write over what a thief has written
        thief, stranger = keys.generate(), keys.generate()
        for former, who, why in (
            (before.private, "rome", "about the key"),  # forked, with the key that was stolen
            (stranger, "rome", "about the key"),
            (before.private, "turin", "about turin"),
        ):
            pair = ClusterKeys(former, keys.public_pem(former))
            stated = successions.state(who, former, thief)
            await written(
                milan, offer_of(ClusterKeys(thief, keys.public_pem(thief), pair, stated), who)
            )
            await refused(milan, why)
        # What was followed before is sent once more: nothing comes of it.
        stated = successions.state("rome", before.private, made.private)
        old = ClusterKeys(before.private, before.public)
        await written(milan, offer_of(ClusterKeys(made.private, made.public, old, stated), "rome"))
        await trio.sleep(0.5)
        now = await milan.admin.get(TENANTS, "rome", AT_MILAN)
        assert now["spec"] == tenant["spec"]
        assert await bound(milan) == {ids.keyed("rome", keys.print_of(made.public))}
        await rome.start()
        await may(await credentials(rome, CONTROL), RESOURCE_SLICES, AT_MILAN)
        assert await uid(milan) == pod


@pytest.mark.long
@pytest.mark.handshake
async def test_of_two_statements_about_one_key_the_first_is_followed_whoever_comes_late():
    async with members("rome", "milan", **SWIFT) as [rome, milan]:
        await borrow_a_pod(rome, milan)
        own = await cluster_keys(rome.admin)
        await milan.stop()
        await rome.stop()
        thief = keys.generate()
        pair = ClusterKeys(own.private, own.public)
        stated = successions.state("rome", own.private, thief)
        # Milan has noted rome's next key, and went down before it did anything more.
        note = {"metadata": {"annotations": {labels.ACCEPTED_KEY: "0" * 64}}}
        await milan.admin.patch(NAMESPACES, AT_MILAN, note)
        await written(
            milan, offer_of(ClusterKeys(thief, keys.public_pem(thief), pair, stated), "rome")
        )
        await milan.start()
        await refused(milan, "has followed")
        found = await milan.admin.get(TENANTS, "rome", AT_MILAN)
        assert b64decode(found["spec"]["publicKey"]) == own.public


@pytest.mark.long
@pytest.mark.handshake
async def test_a_consumer_that_changes_its_key_without_end_waits_each_time():
    never = ProviderTimings(moved=3600.0)
    async with members("rome", "milan", **{**SWIFT, "timings": never}) as [rome, milan]:
        await borrow_a_pod(rome, milan)
        made = await rotate(rome)
        await destroyed(rome)
        again = await rotate(rome)
        await trio.sleep(2)
        found = await milan.admin.get(TENANTS, "rome", AT_MILAN)
        assert b64decode(found["spec"]["publicKey"]) == made.public
        marks = (await milan.admin.get(NAMESPACES, AT_MILAN))["metadata"]["annotations"]
        assert marks[labels.ACCEPTED_KEY] == keys.print_of(made.public)
        # What it has stays: the key before is kept by it until the next one is followed.
        await may(await credentials(rome, CONTROL), RESOURCE_SLICES, AT_MILAN)
        past = f"{marks[labels.FORMER_KEY].split(' ')[0]} 2026-01-01T00:00:00Z"
        note = {"metadata": {"annotations": {labels.FORMER_KEY: past}}}
        await milan.admin.patch(NAMESPACES, AT_MILAN, note)
        await milan.stop()
        await milan.start()

        async def followed_again() -> bool:
            return await is_for(rome, CONTROL, again.public)

        await eventually(followed_again, seconds=30)


@pytest.mark.long
@pytest.mark.handshake
async def test_a_provider_can_state_another_key_of_its_own_alone():
    async with members("rome", "milan", **SWIFT) as [rome, milan]:
        await rome.peer(milan)
        was, comes, thief = keys.generate(), keys.generate(), keys.generate()

        async def noted() -> str:
            found = await rome.admin.get(NAMESPACES, AT_ROME)
            return str(found["metadata"].get("annotations", {}).get(labels.PROVIDER_KEYS, ""))

        async def stated(text: str) -> None:
            data = {labels.SUCCESSION_FIELD: b64encode(text.encode()).decode()}
            await milan.admin.patch(SECRETS, labels.KEYS_SECRET, {"data": data}, "liqo")

        async def told(why: str) -> None:
            async def look() -> bool:
                found = await rome.admin.list(EVENTS, Selection(AT_ROME))
                return any(
                    each["reason"] == "KeyNotFollowed" and why in each["message"] for each in found
                )

            await eventually(look)

        await stated(successions.state("turin", was, comes))
        await told("about turin, and not milan")
        forged = successions.state("milan", was, comes).split(".")
        await stated(".".join((*forged[:2], forged[3], forged[3])))
        await told("not signed by the former key")
        assert await noted() == ""
        await stated(successions.state("milan", was, comes))
        first = f"{keys.print_of(keys.public_pem(was))}>{keys.print_of(keys.public_pem(comes))}"

        async def first_is() -> bool:
            return await noted() == first

        await eventually(first_is)
        await stated(successions.state("milan", was, thief))
        await told("has followed")
        assert await noted() == first


async def test_a_former_key_has_its_channel_while_its_names_have_rights_and_ends_by_replace():
    async with reception('[[policies]]\naction = "auto"\n') as (milan, host, _):
        former, present, other = (somebody("rome") for _ in range(3))
        namespace = await ensure_tenant_namespace(milan.admin, "rome")
        marks = {labels.ACCEPTED_KEY: present.key, labels.FORMER_KEY: former.key}
        note = {"metadata": {"annotations": marks}}
        await milan.admin.patch(NAMESPACES, namespace, note)
        for each, comes in ((former, True), (present, True), (other, False)):
            assert (await host.on_attach(each) is None) is comes
        # What it asks anew is asked by a strange key, whatever stands.
        asked = await host.on_ask(former, "192.0.2.1", request(), ignored)
        assert isinstance(asked, Refused)
        assert asked.code == "key-changed"
        assert isinstance(await host.on_ask(other, "192.0.2.2", request(), ignored), Refused)
        name = answering.name_of("rome", other.key)
        decision = {"spec": {"decision": "Accept", "replace": True}}
        await milan.admin.patch(INCOMING_PEERINGS, name, decision, "liqo")
        await answering.taken_up(milan.admin, "liqo", name, within=30)
        for each, comes in ((former, False), (present, False), (other, True)):
            assert (await host.on_attach(each) is None) is comes


async def test_a_lender_is_known_by_the_key_that_it_was_followed_to_and_by_no_former_one():
    async with reception("") as (rome, _, _):
        was, comes = somebody("milan").key, somebody("milan").key
        made = {"metadata": {"name": "milan"}, "spec": {"addresses": ["192.0.2.1:6446"]}}
        await rome.admin.create(OUTGOING_PEERINGS, made, "liqo")
        status = {"status": {"phase": "Done", "clusterID": "milan", "key": was}}
        await rome.admin.patch(OUTGOING_PEERINGS, "milan", status, "liqo", subresource="status")
        namespace = await ensure_tenant_namespace(rome.admin, "milan")
        for cached in (False, True):
            assert await answering.key_here(rome.admin, "liqo", "milan", cached=cached) == was
        note = {"metadata": {"annotations": {labels.PROVIDER_KEYS: f"{was}>{comes}"}}}
        await rome.admin.patch(NAMESPACES, namespace, note)
        for cached in (False, True):
            assert await answering.key_here(rome.admin, "liqo", "milan", cached=cached) == comes
        assert await present_key(rome.admin, was) == comes
        assert await present_key(rome.admin, comes) == comes
