"""A cluster's own key is changed: its providers follow, each when it can, and no pod ends by it."""

import json
import uuid
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.consumer.identities.clusterkeys import ClusterKeys, cluster_keys, succeed
from liqod.consumer.timings import ConsumerTimings
from liqod.errors import ConfigError, LiqodError
from liqod.handshake.protocol.messages import Offer
from liqod.handshake.protocol.outputs import CAPABILITIES, ExpectedPeer, LocalIdentity
from liqod.handshake.transport.peerdialler import PeerDialler
from liqod.identity import certificates, keys
from liqod.model.peering.foreigncluster import API_SERVER
from liqod.procedures import peeringrequest
from liqod.provider.tenants import keysuccession
from liqod.resources import FOREIGN_CLUSTERS, RESOURCE_SLICES
from tests.simulated.borrower import Json, eventually, offload
from tests.simulated.channels import DEAD
from tests.simulated.identity.rotating import SWIFT, destroyed, followed, is_for, rotate, uid
from tests.simulated.identity.test_names import CONTROL, SLICE, bound, credentials, lists, may
from tests.simulated.meeting import address_of, by_token, invite, lead, meeting, peered, run
from tests.simulated.members import (
    AT_MILAN,
    AT_ROME,
    Member,
    borrow_a_pod,
    members,
    verdicts,
)
from tests.simulated.reachability.test_lending import ASKED, lends, record_of, reflects


class Watching:
    """Sees that rome never loses what it has while its key changes."""

    def __init__(self, rome: Member, milan: Member) -> None:
        self._rome, self._milan = rome, milan
        self.lost: list[str] = []

    async def run(self) -> None:
        while True:
            found = await self._rome.admin.get(RESOURCE_SLICES, "milan", AT_ROME)
            if set(verdicts(found).values()) != {"Accepted"}:
                self.lost.append(f"slice: {verdicts(found)}")
            if not await bound(self._milan):
                self.lost.append("no name has all of rome's rights")
            state = await self._rome.admin.get(FOREIGN_CLUSTERS, "milan")
            states = {c["type"]: c["status"] for c in state["status"]["conditions"]}
            if states[API_SERVER] != "Established":
                self.lost.append(states[API_SERVER])
            await trio.sleep(0.02)


@pytest.mark.long
async def test_providers_follow_a_key_and_no_pod_ends_by_it():
    async with members("rome", "milan", **SWIFT) as [rome, milan]:
        await borrow_a_pod(rome, milan)
        before, pod = await cluster_keys(rome.admin), await uid(milan)
        stolen = {name: await credentials(rome, name) for name in (CONTROL, SLICE)}
        await may(stolen[CONTROL], RESOURCE_SLICES, AT_MILAN)
        await may(stolen[SLICE], SECRETS, "shop-rome")
        watching = Watching(rome, milan)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watching.run)
            made = await rotate(rome)
            assert made.public != before.public
            await followed(rome, milan, made)
            nursery.cancel_scope.cancel()
        assert watching.lost == []
        assert await uid(milan) == pod
        # Anyone who has the former key, and all that was signed for it, has nothing any more.
        assert not await lists(stolen[CONTROL], RESOURCE_SLICES, AT_MILAN)
        assert not await lists(stolen[SLICE], SECRETS, "shop-rome")
        secret = await rome.admin.get(SECRETS, labels.KEYS_SECRET, "liqo")
        assert b64encode(before.private).decode() not in secret["data"].values()
        place = await milan.admin.get(NAMESPACES, AT_MILAN)
        assert place["metadata"]["annotations"][labels.ACCEPTED_KEY] == keys.print_of(made.public)
        # And once more: each step is one of its own.
        again = await rotate(rome)
        await followed(rome, milan, again)
        assert await uid(milan) == pod


@pytest.mark.long
@pytest.mark.handshake
async def test_a_provider_that_is_away_follows_when_it_is_back_and_the_others_at_once():
    async with members("rome", "milan", "turin", **SWIFT) as [
        rome,
        milan,
        turin,
    ]:
        await borrow_a_pod(rome, milan)
        await rome.peer(turin)
        pod = await uid(milan)
        await milan.stop()
        made = await rotate(rome)

        async def at_turin() -> bool:
            found = await rome.admin.get(
                SECRETS, "kubeconfig-controlplane-turin", "liqo-tenant-turin"
            )
            given = certificates.read((await credentials_in(found)).client_cert or b"")
            return keys.same_public(given.public_key, made.public)

        await eventually(at_turin, seconds=30)
        own = await cluster_keys(rome.admin)
        assert own.former is not None
        with pytest.raises(ConfigError, match="still kept"):
            await rotate(rome)
        # A daemon that begins anew meanwhile goes on from what it finds.
        await rome.stop()
        await rome.start()
        assert not await is_for(rome, CONTROL, made.public)
        await may(await credentials(rome, SLICE), SECRETS, "shop-rome")
        await milan.start()
        await followed(rome, milan, made)
        assert await uid(milan) == pod


async def credentials_in(secret: Json):
    from liqod.kube.credentials.credentials import from_kubeconfig

    return from_kubeconfig(b64decode(secret["data"]["kubeconfig"]))


async def again(*who: Member) -> None:
    """Their daemons begin anew, each where it was met before."""
    for each in who:
        assert each.handshake is not None
        each.settings = each.settings.replace("port = 0", f"port = {each.handshake.port}")
        await each.stop()
        await each.start()


@asynccontextmanager
async def by_channel() -> AsyncIterator[list[Member]]:
    """A consumer that reaches its provider by the provider's daemon alone."""
    async with meeting("rome", "milan", advertise=DEAD, **SWIFT) as [
        rome,
        milan,
    ]:
        token = await invite(milan)
        await peeringrequest.ensure_request(rome.admin, "liqo", by_token(token, resources=ASKED))
        await peered(rome, token.id)
        yield [rome, milan]


@asynccontextmanager
async def by_lender() -> AsyncIterator[list[Member]]:
    """A consumer that its provider dials."""
    async with meeting("rome", "milan", advertise=DEAD, **SWIFT) as [rome, milan]:
        await lends(milan, await invite(rome, borrow=True, resources=ASKED))
        await peered(rome, await record_of(milan))
        yield [rome, milan]


@pytest.mark.long
@pytest.mark.handshake
@pytest.mark.parametrize("peering", [by_channel, by_lender])
async def test_a_peering_by_a_channel_stands_whichever_side_changes_its_key(peering):
    async with peering() as [rome, milan]:
        await offload(rome.admin, "shop")
        await milan.until(NAMESPACES, "shop-rome", None, bool)
        await reflects(rome, milan, "first")
        for turn, who in enumerate((milan, rome, milan)):
            made = await succeed(who.admin, "liqo", who.id)
            assert made.former is not None
            await reflects(rome, milan, f"meanwhile-{turn}")
            await destroyed(who)
            # What stands, stands; what begins anew proves the key that there is.
            await again(rome, milan)
            await reflects(rome, milan, f"after-{turn}")
            if who is rome:
                # Until then both names have rights, and both keys their channel.
                await milan.until(
                    NAMESPACES,
                    AT_MILAN,
                    None,
                    lambda found: labels.FORMER_KEY not in found["metadata"]["annotations"],
                )
            with pytest.raises(LiqodError, match=r"no consumer here|nothing is to be borrowed"):
                await attach(milan if who is rome else rome, who, made.former)


async def attach(host: Member, who: Member, stolen: ClusterKeys) -> None:
    """Somebody has a former key and comes by it."""
    own = LocalIdentity(cluster_id=who.id, private=stolen.private, capabilities=CAPABILITIES)
    dialler = PeerDialler(own, environ={})
    with trio.fail_after(20):
        async with dialler.meet((address_of(host),), ExpectedPeer(cluster_id=host.id)) as met:
            if who.id == "rome":
                await met.attach()
                return
            offer = Offer(request=str(uuid.uuid4()))
            await met.lend(offer, cast("Any", None), {})


def old_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a provider knows nothing of keys that follow others."""

    monkeypatch.setattr(keysuccession, "next_key", lambda *_: None)
    monkeypatch.setattr(keysuccession, "key_notes", lambda *_: {})


@pytest.mark.long
@pytest.mark.handshake
async def test_who_does_not_follow_is_named_and_keeps_the_former_key_until_peered_with_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nursery: trio.Nursery
):
    old_provider(monkeypatch)
    async with members("rome", "milan", **SWIFT) as [rome, milan]:
        await borrow_a_pod(rome, milan)
        await nursery.start(lead, rome)
        before, pod = await cluster_keys(rome.admin), await uid(milan)
        seen = json.loads(
            (await run(rome, tmp_path, "rotate", "key", "--dry-run", "-o", "json")).out
        )
        assert seen["peers"] == [{"clusterID": "milan", "role": "provider", "state": "never"}]
        assert seen["former"] == ""
        asked = await run(rome, tmp_path, "rotate", "key")
        assert asked.status == 2
        assert "not milan (it runs Liqo, or a liqod that follows no key)" in asked.err
        assert await cluster_keys(rome.admin) == before
        done = await run(rome, tmp_path, "rotate", "key", "--yes")
        assert done.status == 1
        assert "milan (provider): does not follow" in done.out
        own = await cluster_keys(rome.admin)
        assert own.former == before
        assert rome.components.by_former_key == {"milan"}
        status = (await run(rome, tmp_path, "status")).out
        assert "milan knows this cluster by its former key" in status
        # It is asked for nothing by the other key, after a restart either.
        await rome.stop()
        await rome.start()
        await may(await credentials(rome, SLICE), SECRETS, "shop-rome")
        assert await is_for(rome, CONTROL, before.public)
        found = await rome.admin.get(RESOURCE_SLICES, "milan", AT_ROME)
        assert set(verdicts(found).values()) == {"Accepted"}
        assert await uid(milan) == pod
        await rome.unpeer(milan)
        await destroyed(rome)
        await milan.unpeer(rome)
        await rome.peer(milan)
        assert await is_for(rome, CONTROL, own.public)
        quiet = await run(rome, tmp_path, "rotate", "key", "--dry-run")
        assert (quiet.status, "former" in quiet.out) == (0, False)


@pytest.mark.long
@pytest.mark.handshake
async def test_the_command_waits_until_all_have_followed(tmp_path: Path, nursery: trio.Nursery):
    async with members("rome", "milan", **SWIFT) as [rome, milan]:
        await borrow_a_pod(rome, milan)
        await nursery.start(lead, rome)
        pod = await uid(milan)

        async def able() -> bool:
            shown = await run(rome, tmp_path, "rotate", "key", "--dry-run", "-o", "json")
            return bool(json.loads(shown.out)["peers"][0]["state"] == "follows")

        await eventually(able)
        done = await run(rome, tmp_path, "rotate", "key", "--yes", "-o", "json")
        assert done.status == 0, done.err
        shown = json.loads(done.out)
        assert [each["state"] for each in shown["peers"]] == ["followed"]
        own = await cluster_keys(rome.admin)
        assert shown["key"] == keys.print_of(own.public)
        await followed(rome, milan, own)
        assert await uid(milan) == pod
        assert "former key" not in (await run(rome, tmp_path, "status")).out


async def follows(rome: Member, folder: Path) -> None:
    """Wait until rome knows that its peer can follow."""

    async def able() -> bool:
        shown = await run(rome, folder, "rotate", "key", "--dry-run", "-o", "json")
        return {each["state"] for each in json.loads(shown.out)["peers"]} == {"follows"}

    await eventually(able)


@pytest.mark.long
@pytest.mark.handshake
async def test_the_command_twice_in_a_row_makes_two_keys(tmp_path: Path, nursery: trio.Nursery):
    """The second one finds a former key that nobody needs, and that is kept for a while."""
    longer = {**SWIFT, "consumer_timings": ConsumerTimings(former_key_kept=5.0)}
    async with members("rome", "milan", **longer) as [rome, milan]:
        await borrow_a_pod(rome, milan)
        await nursery.start(lead, rome)
        pod = await uid(milan)
        await follows(rome, tmp_path)
        known = [keys.print_of((await cluster_keys(rome.admin)).public)]
        for _ in range(2):
            done = await run(rome, tmp_path, "rotate", "key", "--yes", "-o", "json")
            assert done.status == 0, done.err
            shown = json.loads(done.out)
            assert shown["made"]
            assert "which milan will follow" in done.err
            assert [each["state"] for each in shown["peers"]] == ["followed"]
            known.append(shown["key"])
        assert len({*known}) == 3
        soonest = await run(rome, tmp_path, "rotate", "key", "--yes", "--timeout", "11")
        assert (soonest.status, soonest.out) == (1, "")
        assert "nothing was changed" in soonest.err
        own = await cluster_keys(rome.admin)
        assert keys.print_of(own.public) == known[-1]
        await followed(rome, milan, own)
        assert await uid(milan) == pod


@pytest.mark.long
@pytest.mark.handshake
async def test_the_command_says_who_is_away_and_makes_no_second_key_meanwhile(
    tmp_path: Path, nursery: trio.Nursery
):
    async with members("rome", "milan", **SWIFT) as [rome, milan]:
        await borrow_a_pod(rome, milan)
        await nursery.start(lead, rome)
        pod = await uid(milan)
        await follows(rome, tmp_path)
        await milan.stop()
        words = ("rotate", "key", "--yes", "--timeout", "14")
        made = await run(rome, tmp_path, *words, "-o", "json")
        assert made.status == 1
        assert "the former key is still in use" in made.err
        shown = json.loads(made.out)
        assert shown["made"]
        assert shown["former"]
        away = [{"clusterID": "milan", "role": "provider", "state": "follows"}]
        assert shown["peers"] == away
        again = await run(rome, tmp_path, *words, "-o", "json")
        assert again.status == 1
        assert "no other key is made" in again.err
        assert json.loads(again.out) == {**shown, "made": False}
        plain = await run(rome, tmp_path, *words)
        assert plain.status == 1
        assert "milan (provider): follows when its daemon is there" in plain.out
        own = await cluster_keys(rome.admin)
        assert keys.print_of(own.public) == shown["key"]
        await milan.start()
        done = await run(rome, tmp_path, "rotate", "key", "--yes", "-o", "json")
        assert done.status == 0, done.err
        last = json.loads(done.out)
        assert (last["key"], last["made"]) == (shown["key"], False)
        assert [each["state"] for each in last["peers"]] == ["followed"]
        await followed(rome, milan, own)
        assert await uid(milan) == pod
