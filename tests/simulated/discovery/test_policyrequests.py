"""A cluster that is seen is asked where a policy says so, once, and left when it goes."""

import dataclasses

import msgspec
import pytest
import trio

from liqod import config
from liqod.discovery.sightings import AdvertContent, KeptSighting, SeenCluster
from liqod.handshake.requests import policyrequests
from liqod.handshake.timings import HandshakeTimings
from liqod.kube.selection import Selection
from liqod.plugins.providers import Sighting
from liqod.procedures import revoking
from liqod.resources import OUTGOING_PEERINGS, OutgoingPeering
from tests.simulated.borrower import eventually
from tests.simulated.meeting import address_of, entries, key_of, meeting, peered
from tests.simulated.members import Member

BORROWS = """
[[policies]]
action = "ask"
key = "{}"
borrow = {{cpu = "1"}}
"""
LENDS = '[[policies]]\naction = "auto"\n'


SOON = HandshakeTimings(policy_check=0.05, unseen=0.3)
"""Timings by which it is soon looked who is seen."""


async def sighting(host: Member) -> SeenCluster:
    """Returns the cluster as a daemon in the same network sees it."""
    where = (address_of(host),)
    seen = Sighting(cluster_id=host.id, plugin="mdns", addresses=where)
    verified = AdvertContent(cluster_id=host.id, key=await key_of(host), addresses=where)
    return SeenCluster(
        cluster_id=host.id, entries=(KeptSighting(seen=seen, since=0.0, verified=verified),)
    )


async def requests(host: Member) -> list[OutgoingPeering]:
    """Returns the requests for a peering that a host makes."""
    return await host.admin.list(OUTGOING_PEERINGS, Selection("liqo"), decode=OutgoingPeering)


async def borrow(guest: Member, host: Member) -> None:
    """The operator writes a policy to ask that one, and has the configuration read."""
    assert guest.handshake is not None
    changed = config.parse(guest.settings + BORROWS.format(await key_of(host)))
    guest.handshake.reload(dataclasses.replace(guest.context, config=changed))


@pytest.mark.long
async def test_who_is_seen_is_asked_where_a_policy_says_so_and_nobody_else():
    async with meeting("rome", "milan", "turin", settings=LENDS, handshake_timings=SOON) as [
        rome,
        milan,
        turin,
    ]:
        rome.around += [await sighting(milan), await sighting(turin)]
        await trio.sleep(0.3)
        assert await requests(rome) == [], "a sighting begins nothing by itself"
        await borrow(rome, milan)

        async def asked() -> bool:
            return bool(await requests(rome))

        await eventually(asked)
        ready = await peered(rome, "milan")
        assert (ready.spec.key, ready.status.granted["cpu"]) == (await key_of(milan), "1")
        # Ended by its operator, it is not begun again while it is seen all the same.
        await rome.admin.delete(OUTGOING_PEERINGS, "milan", "liqo")
        await trio.sleep(0.3)
        assert await requests(rome) == []
        assert [each.spec.cluster_id for each in await entries(milan)] == ["rome"]
        assert await entries(turin) == []


@pytest.mark.long
async def test_a_lender_that_was_revoked_is_not_asked_under_another_id():
    async with meeting("rome", "milan", settings=LENDS, handshake_timings=SOON) as [rome, milan]:
        rome.around.append(await sighting(milan))
        await borrow(rome, milan)

        async def asked() -> bool:
            return bool(await requests(rome))

        await eventually(asked)
        await peered(rome, "milan")
        await revoking.carry_out(rome.admin, "milan", ("provider",), rome.progress)
        seen = rome.around.pop()
        [entry] = seen.entries
        assert entry.verified is not None
        told = msgspec.structs.replace(entry.verified, cluster_id="turin")
        sighted = msgspec.structs.replace(entry.seen, cluster_id="turin")
        entry = msgspec.structs.replace(entry, seen=sighted, verified=told)
        rome.around.append(SeenCluster(cluster_id="turin", entries=(entry,)))
        await trio.sleep(0.5)
        assert await requests(rome) == []


async def test_what_is_asked_ends_with_the_sighting_and_begins_with_another():
    async with meeting("rome", "milan", handshake_timings=SOON) as [rome, milan]:
        await borrow(rome, milan)
        there = await sighting(milan)
        for _ in range(2):
            rome.around.append(there)

            async def waits() -> bool:
                return [each.status.phase for each in await requests(rome)] == ["Waiting"]

            await eventually(waits)
            rome.around.clear()

            async def over() -> bool:
                return await requests(rome) == []

            await eventually(over)


async def test_a_crowd_is_not_asked_all_at_once():
    async with meeting("rome", handshake_timings=SOON) as [rome]:
        text = '[[policies]]\naction = "ask"\ncluster_id = "*"\ndiscovery = "*"\n'
        wants = config.parse(rome.settings + text + 'borrow = {cpu = "1"}\n')
        assert rome.handshake is not None
        for number in range(40):
            name = f"edge-{number}"
            told = AdvertContent(cluster_id=name, key=f"{number:064x}", addresses=("127.0.0.1:9",))
            entry = KeptSighting(
                seen=Sighting(cluster_id=name, plugin="mdns"), since=0.0, verified=told
            )
            rome.around.append(SeenCluster(cluster_id=name, entries=(entry,)))
        rome.handshake.reload(dataclasses.replace(rome.context, config=wants))

        async def asked() -> bool:
            return len(await requests(rome)) == policyrequests.MOST

        await eventually(asked)
        await trio.sleep(0.3)
        assert await asked()
