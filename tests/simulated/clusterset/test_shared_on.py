"""Exports of one leaf of a star that another one has by way of the hub."""

import time
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.cluster.transitaddresses import Passage
from liqod.identity import keys
from liqod.model.clusterset.byway import DAY, consents, end_of
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.resources import CONFIGURATIONS
from liqod.resources.exchanges import SERVICE_EXCHANGES
from tests.simulated.borrower import eventually
from tests.simulated.clusterset.sets import (
    EXPORTS,
    IMPORTS,
    SHARING,
    backends,
    conditions,
    export,
    imported,
    share,
    until_backends,
)
from tests.simulated.members import Member, members

pytestmark = [pytest.mark.long, pytest.mark.clusterset]

OWN = ClusterCidrs(pod=("10.10.0.0/16",), external=("10.70.0.0/16",))
TUNNELS = SHARING.replace('pod_network = "routed"', 'pod_network = "tunnel"').replace(
    'pod_cidrs = ["10.71.0.0/16", "10.72.0.0/16"]\n', ""
)
TRANSIT = TUNNELS + '[network]\ntransit = [["milan", "turin"]]\n'
PASSAGE = Passage("turin", "milan", "10.82.0.1")
ONE = {"milan": {"10.89.0.9": True}}
"""The endpoint of milan's at turin, by way of rome."""


def ranges(number):
    seen = ClusterCidrs(pod=(f"10.{number}.0.0/16",), external=(f"10.{number + 1}.0.0/16",))
    return PeerRanges(own=OWN, peer=OWN, seen=seen)


async def join(who: Member, peer: Member, number: int) -> None:
    """Have the networks of two joined, once they peer."""

    async def is_peer():
        return any(each.id == peer.id for each in who.components.peers.values())

    await eventually(is_peer)
    found = next(each for each in who.components.peers.values() if each.id == peer.id)
    found.network.set_ranges(ranges(number))
    found.reach.set("")


async def lend(hub: Member, address: str = "10.70.0.9") -> None:
    """Have a hub open an address for milan's endpoint, once it is published."""

    async def wanted():
        return hub.context.transit.wants(PASSAGE)

    await eventually(wanted)
    hub.context.transit.give("turin", {PASSAGE: address})


async def key(who: Member) -> str:
    found = await who.admin.get(SECRETS, labels.KEYS_SECRET, "liqo")
    return print_of(b64decode(found["data"][labels.PRIVATE_KEY_FIELD]))


def print_of(private: bytes) -> str:
    return keys.print_of(keys.public_pem(private))


async def agree(who: Member, text: str | None) -> None:
    notes = {"liqod.io/share-services-by-way-of": text}
    await who.admin.patch(NAMESPACES, "shop", {"metadata": {"annotations": notes}})


async def until_ready(who: Member, wanted: str) -> None:
    """Wait until an export says that it is known there."""

    async def look():
        found = await who.admin.get(EXPORTS, "web", "shop")
        said = found.get("status", {}).get("conditions", ())
        return any(each["type"] == "Ready" and each["message"] == wanted for each in said)

    await eventually(look)


async def until_released(hub: Member) -> None:
    """Wait until a hub publishes no endpoint any more."""

    async def look():
        return not hub.context.transit.wanted()

    await eventually(look)


@asynccontextmanager
async def star(*hubs: str) -> AsyncIterator[list[Member]]:
    """Hubs, and two leaves that both agree to share by way of each of them."""
    async with members(*hubs, "milan", "turin", services=True, settings=TRANSIT) as made:
        *between, milan, turin = made
        for number, hub in enumerate(between):
            for leaf, at in ((milan, 82), (turin, 84)):
                await hub.peer(leaf)
                await join(hub, leaf, at)
                await join(leaf, hub, at + 4 + 20 * number)
            await share(hub, "*")
        for one, other in ((milan, turin), (turin, milan)):
            await share(one, "*")
            ways = [f"{hub}/{other.id}={await key(other)}" for hub in hubs]
            await agree(one, ",".join(ways))
        await export(milan, "10.10.0.1")
        for hub in between:
            await lend(hub)
        await imported(turin, "milan")
        yield made


async def test_an_export_is_shared_on_where_all_three_agree():
    async with star("rome") as [rome, milan, turin]:
        assert await backends(rome) == {"milan": {"10.82.0.1": True}}
        await until_backends(turin, ONE)
        await until_ready(milan, "known to rome, and to turin by way of rome")
        # Of a hub that does not reach milan turin is told so.
        rome.components.peers["milan"].reach.set("it is silent")
        await until_backends(turin, {"milan": {"10.89.0.9": False}})
        rome.components.peers["milan"].reach.set("")
        await until_backends(turin, ONE)
        # Milan takes its word back, and gives it again.
        await agree(milan, None)
        await turin.gone(IMPORTS, "web", "shop")
        await until_released(rome)
        await until_ready(milan, "known to rome alone")
        await agree(milan, f"rome/turin={await key(turin)}")
        await lend(rome)
        await until_backends(turin, ONE)
        # While the two peer, each speaks for itself alone.
        await milan.peer(turin)
        await join(milan, turin, 120)
        await join(turin, milan, 122)
        await until_backends(turin, {"milan": {"10.122.0.1": True}})
        await milan.unpeer(turin)
        await turin.unpeer(milan)
        await until_backends(turin, ONE)
        await until_ready(milan, "known to rome, and to turin by way of rome")
        # The reader's peering with the hub ends.
        await rome.unpeer(turin)
        await turin.gone(IMPORTS, "web", "shop")
        await imported(rome, "milan")


async def test_what_is_shared_on_outlasts_the_hubs_daemon_and_ends_with_its_peering():
    async with star("rome") as [rome, milan, turin]:
        await until_backends(turin, ONE)
        for leaf in ("milan", "turin"):  # whose ranges are not known at once
            place = f"liqo-tenant-{leaf}"
            await rome.admin.create(CONFIGURATIONS, {"metadata": {"name": leaf}}, place)
        await rome.stop()
        await rome.start()
        await trio.sleep(10)
        assert await backends(turin) == ONE
        await join(rome, milan, 82)
        await join(rome, turin, 84)
        await lend(rome)
        await trio.sleep(10)
        assert await backends(turin) == ONE
        await rome.unpeer(milan)
        await turin.gone(IMPORTS, "web", "shop")
        await until_released(rome)

        async def unknown():
            return (await conditions(milan))["Ready"] == ("False", "Pending")

        await eventually(unknown)


async def test_a_key_that_is_replaced_ends_it_until_the_other_side_names_the_new_one():
    async with star("rome") as [_, milan, turin]:
        await until_backends(turin, ONE)
        for changed, names in ((milan, turin), (turin, milan)):
            new = keys.generate()
            assert changed.sharing is not None
            changed.sharing.take(new)
            await turin.gone(IMPORTS, "web", "shop")
            await agree(names, f"rome/{changed.id}={print_of(new)}")
            await until_backends(turin, ONE)


async def test_what_the_hub_goes_on_telling_ends_with_its_signature():
    async with star("rome") as [rome, milan, turin]:
        await until_backends(turin, ONE)

        def on(day: int, *who: Member) -> None:
            for each in who:
                assert each.sharing is not None
                each.sharing.clock = lambda: time.time() + day * DAY
                each.sharing.renew()

        async def signed_anew() -> bool:
            (found,) = await turin.admin.list(SERVICE_EXCHANGES)
            said = found["spec"]["exports"]["web.milan"]
            return consents(said)["turin"].until > end_of(time.time()) + DAY

        # Milan signs anew each day: a week later nothing has ended.
        on(7, milan)
        await eventually(signed_anew)
        on(7, turin)
        on(9, turin)
        await trio.sleep(5)
        assert await backends(turin) == ONE
        # Rome hands on nothing more, not even that milan has ended it.
        await rome.stop()
        await milan.admin.delete(EXPORTS, "web", "shop")
        await trio.sleep(5)
        assert await backends(turin) == ONE
        on(16, turin)
        await turin.gone(IMPORTS, "web", "shop")
        # One that counts has it back: turin's clock is put back.
        on(9, turin)
        await until_backends(turin, ONE)


async def test_of_two_ways_one_is_used_and_the_other_after_it():
    at = {"paris": {"milan": {"10.89.0.9": True}}, "rome": {"milan": {"10.109.0.9": True}}}
    async with star("paris", "rome") as [paris, rome, milan, turin]:

        async def used():
            found = await backends(turin)
            return next((hub for hub, endpoints in at.items() if found == endpoints), "")

        way = "known to paris, rome, and to turin by way of paris, turin by way of rome"
        await until_ready(milan, way)
        first = await eventually(used)  # the one that was heard first
        hub, other = (paris, rome) if first == "paris" else (rome, paris)
        # The hub that is silent is left, and not gone back to.
        turin.components.peers[hub.id].reach.set("it is silent")
        await until_backends(turin, at[other.id])
        turin.components.peers[hub.id].reach.set("")
        await trio.sleep(5)
        assert await backends(turin) == at[other.id]
        # So is one that does not reach milan.
        other.components.peers["milan"].reach.set("it is silent")
        await until_backends(turin, at[hub.id])
        other.components.peers["milan"].reach.set("")
        await hub.unpeer(turin)
        await until_backends(turin, at[other.id])
        await imported(turin, "milan")
