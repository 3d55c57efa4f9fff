"""Endpoints at one peer that another reaches by way of this cluster: those that are published."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from liqod.apimachinery import labels
from liqod.cluster.context import ClusterContext
from liqod.cluster.transitaddresses import REFLECTION, Passage, TransitAddresses
from liqod.model.network.ranges import TransitEntrance
from liqod.network.ipam import peercidrs, transits
from liqod.network.ipam.peercidrs import PeerCIDRs
from liqod.network.ipam.transits import CLOSED, name_of
from liqod.peers.peer import Peer
from liqod.resources import CONFIGURATIONS, IPS
from tests.simulated.addressed import MILAN, SETTINGS, TURIN, Rome, gone, rome
from tests.simulated.borrower import eventually
from tests.simulated.reachability.test_inband import known, with_settings

ALLOWED = SETTINGS + 'transit = [["milan", "turin"]]\ntransit_rate = 40\n'


class Three(msgspec.Struct, frozen=True):
    """rome with two peers, and the alias of a pod at turin."""

    rome: Rome
    milan: Peer
    turin: Peer
    host: str

    @property
    def context(self) -> ClusterContext:
        """rome's."""
        return self.rome.context

    @property
    def name(self) -> str:
        """Of the IP by which milan reaches that pod."""
        return name_of(Passage("milan", "turin", self.host))

    async def opened(self, peer: Peer, count: int) -> tuple[TransitEntrance, ...]:
        """The endpoints that a peer reaches, as soon as there are so many."""

        async def look() -> tuple[TransitEntrance, ...] | None:
            ranges = peer.network.ranges
            return ranges.transit if ranges is not None and len(ranges.transit) == count else None

        found: tuple[TransitEntrance, ...] = await eventually(look)
        return found

    def publish(self, *addresses: str, user: str = "web") -> None:
        """Publish pods of turin's to milan, and nothing else of this object."""
        self.context.transit.publish(user, "milan", [("turin", each) for each in addresses])


@asynccontextmanager
async def three(context: Rome) -> AsyncIterator[Three]:
    """Two peers are joined with rome."""
    async with (
        context.kept(),
        known(context, "milan") as milan,
        known(context, "turin") as turin,
    ):
        pods = (await context.seen("turin"))["pod"][0]
        yield Three(context, milan, turin, pods.rpartition(".")[0] + ".9")


@asynccontextmanager
async def reading(context: Rome, name: str) -> AsyncIterator[Peer]:
    """A peer that another daemon has joined before."""
    peer = Peer(name, context.context, f"liqo-tenant-{name}")
    async with trio.open_nursery() as nursery:
        await nursery.start(PeerCIDRs(peer).run)
        yield peer
        nursery.cancel_scope.cancel()


async def test_what_is_published_to_a_peer_it_reaches_and_nobody_else() -> None:
    async with rome(ALLOWED) as context, three(context) as found:
        found.publish(found.host)
        [way] = await found.opened(found.milan, 1)
        assert (way.owner, way.host) == ("turin", found.host)
        assert way.shown == await context.lent(found.name)
        assert found.context.transit.address("milan", "turin", found.host) == way.shown
        assert found.milan.network.ranges is not None
        assert found.milan.network.ranges.transit_rate == 5_000_000
        for peer in (found.milan, found.turin):
            assert peer.network.ranges is not None
            assert dict(peer.network.ranges.lent) == {}
        assert await found.opened(found.turin, 0) == ()


async def test_it_is_closed_at_once_and_its_address_given_to_nobody_for_a_while() -> None:
    async with rome(ALLOWED) as context, three(context) as found:
        found.publish(found.host)
        [way] = await found.opened(found.milan, 1)
        found.context.transit.release("web", "milan")
        assert await found.opened(found.milan, 0) == ()
        assert found.context.transit.address("milan", "turin", found.host) is None
        # Pods at milan may know it still: no other endpoint has it.
        other = found.host.rpartition(".")[0] + ".10"
        found.publish(other)
        [later] = await found.opened(found.milan, 1)
        assert later.shown != way.shown
        # Published again meanwhile it has the same.
        found.publish(found.host, other)
        assert way in await found.opened(found.milan, 2)


async def test_an_address_that_was_closed_for_long_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transits, "CLOSED", 0.2)
    assert CLOSED > 10
    async with rome(ALLOWED) as context, three(context) as found:
        found.publish(found.host)
        await found.opened(found.milan, 1)
        found.publish()
        await gone(context.client, IPS, found.name, "liqo")


async def test_an_address_that_is_no_pods_of_the_owner_is_not_opened() -> None:
    async with rome(ALLOWED) as context, three(context) as found:
        seen = await context.seen("turin")
        gateway = seen["external"][0].partition("/")[0]
        own = (await context.seen("milan"))["pod"][0].rpartition(".")[0] + ".9"
        for each in ("192.168.1.10", "10.244.0.9", gateway, own, "10.99.0.1"):
            found.publish(each, user=each)
        found.publish(found.host)
        [way] = await found.opened(found.milan, 1)
        assert way.host == found.host
        names = [each["metadata"]["name"] for each in await context.client.list(IPS)]
        assert names == [found.name]
        # It is not waited for: the reason is told.
        transit = found.context.transit
        assert transit.refusal("milan", "turin", gateway) == "an address there is no pod's of turin"
        assert not transit.awaits("milan", "turin", gateway)


async def test_one_for_which_the_external_range_has_no_address_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transits, "ADDRESSED", 0.5)
    async with (
        rome(ALLOWED + 'external_cidr = "10.79.0.0/29"\n') as context,
        three(context) as found,
    ):
        transit, base = found.context.transit, found.host.rpartition(".")[0]
        every = [f"{base}.{last}" for last in range(10, 20)]
        found.publish(*every)

        async def told() -> list[str] | None:
            lacking = [each for each in every if not transit.awaits("milan", "turin", each)]
            ways = [transit.address("milan", "turin", each) for each in lacking]
            return lacking if len(lacking) == len(every) and not all(ways) else None

        await eventually(told)
        refusals = {each: transit.refusal("milan", "turin", each) for each in every}
        assert {*refusals.values()} == {"", "this cluster's external range has no address left"}
        # As soon as there is one again, it is given.
        late = next(each for each in every if refusals[each])
        monkeypatch.setattr(transits, "CLOSED", 0.2)
        found.publish(late)

        async def given() -> str | None:
            return transit.address("milan", "turin", late)

        await eventually(given)
        assert transit.refusal("milan", "turin", late) == ""


async def test_many_endpoints_that_come_at_once_are_a_few_changes() -> None:
    """Each change goes to the gateway's kernel."""
    changes: list[float] = []

    async def note() -> None:
        while True:
            await found.milan.network.wait_changed()
            changes.append(trio.current_time())

    async with rome(ALLOWED) as context, three(context) as found, trio.open_nursery() as nursery:
        nursery.start_soon(note)
        base = found.host.rpartition(".")[0]
        found.publish(*(f"{base}.{last}" for last in range(10, 110)))
        await found.opened(found.milan, 100)
        nursery.cancel_scope.cancel()
    # Some are late on a busy machine, and the next one after such a one is not.
    most = 3 + (changes[-1] - changes[0]) / peercidrs.TOGETHER
    assert 0 < len(changes) <= most


async def test_an_address_that_is_lent_already_leads_to_no_endpoint_as_well() -> None:
    """As after a backup: the machine would refuse all of the peer's network."""
    async with rome(ALLOWED) as context, three(context) as found:
        found.publish(found.host)
        [way] = await found.opened(found.milan, 1)
        await context.lend("printer", "fd00:77::7")  # of which family there is no range to give
        patch = {"status": {"ip": way.shown, "cidr": "10.70.0.0/20"}}
        await context.client.patch(IPS, "printer", patch, "liqo", subresource="status")
        assert await found.opened(found.milan, 0) == ()
        assert found.milan.network.ranges is not None
        assert way.shown in found.milan.network.ranges.lent


async def test_an_endpoint_concerns_its_reader_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be many: nobody else's ranges are read anew for each."""
    read: list[Peer] = []
    reconcile = PeerCIDRs.reconcile

    async def counted(of: PeerCIDRs, key: str) -> float | None:
        read.append(of.peer)
        return await reconcile(of, key)

    monkeypatch.setattr(PeerCIDRs, "reconcile", counted)
    async with rome(ALLOWED) as context, three(context) as found:
        await context.lend("printer", "192.168.1.77")
        await context.lent("printer")

        async def lent() -> bool | None:
            networks = [peer.network.ranges for peer in (found.milan, found.turin)]
            return all(each is not None and each.lent for each in networks) or None

        await eventually(lent)
        read.clear()
        base = found.host.rpartition(".")[0]
        found.publish(*(f"{base}.{last}" for last in range(10, 20)))
        await found.opened(found.milan, 10)
        found.publish()
        await found.opened(found.milan, 0)
        assert found.milan in read
        assert found.turin not in read
        # One that becomes a host's is lent to both.
        name = name_of(Passage("milan", "turin", f"{base}.10"))
        patch = {"metadata": {"labels": {labels.IP_TYPE: None}}}
        await context.client.patch(IPS, name, patch, "liqo")

        async def lent_too() -> bool | None:
            networks = [peer.network.ranges for peer in (found.milan, found.turin)]
            return all(each is not None and len(each.lent) == 2 for each in networks) or None

        await eventually(lent_too)


async def test_it_goes_with_either_peer() -> None:
    for peer, place in (("turin", TURIN), ("milan", MILAN)):
        async with rome(ALLOWED) as context, three(context) as found:
            found.publish(found.host)
            await found.opened(found.milan, 1)
            await context.client.delete(CONFIGURATIONS, peer, place)

            async def closed(context: Rome = context, name: str = found.name) -> bool | None:
                marks = (await context.client.get(IPS, name, "liqo"))["metadata"]["annotations"]
                return labels.TRANSIT_FROM not in marks or None

            await eventually(closed)
            transit, host = found.context.transit, found.host

            async def withdrawn(
                transit: TransitAddresses = transit, host: str = host
            ) -> bool | None:
                return transit.address("milan", "turin", host) is None or None

            await eventually(withdrawn)
            if peer == "turin":
                refusal = transit.refusal("milan", "turin", host)
                assert refusal == "turin is not joined"
            # What is published to nobody takes no room of others'; who reads may find turin again.
            assert transit.users("milan") == ({"web"} if peer == "turin" else set())


async def test_another_daemon_keeps_what_was_published_until_the_reader_is_settled() -> None:
    async with rome(ALLOWED) as context:
        async with three(context) as found:
            other = found.host.rpartition(".")[0] + ".10"
            found.publish(found.host, other)
            before = await found.opened(found.milan, 2)
        again = Rome(with_settings(context, ALLOWED), context.client)
        async with again.kept(), reading(again, "milan") as milan:
            now = msgspec.structs.replace(found, rome=again, milan=milan)
            assert await now.opened(milan, 2) == before
            now.publish(found.host)
            await trio.sleep(0.1)
            assert await now.opened(milan, 2) == before
            now.context.transit.settle("milan", REFLECTION)
            [way] = await now.opened(milan, 1)
            assert way.host == found.host
            assert way in before


async def test_it_goes_with_the_setting() -> None:
    async with rome(ALLOWED) as context:
        async with three(context) as found:
            found.publish(found.host)
            await found.opened(found.milan, 1)
        without = Rome(with_settings(context, SETTINGS), context.client)
        async with without.kept(), reading(without, "milan") as milan:
            now = msgspec.structs.replace(found, rome=without, milan=milan)
            now.publish(found.host)

            async def closed() -> bool | None:
                marks = await context.client.get(IPS, found.name, "liqo")
                return labels.TRANSIT_FROM not in marks["metadata"]["annotations"] or None

            await eventually(closed)
            assert await now.opened(milan, 0) == ()


async def test_a_peers_own_ip_of_such_a_kind_opens_nothing() -> None:
    """A peering user writes IPs in its tenant namespace."""
    async with rome(ALLOWED) as context, three(context) as found:
        metadata = {
            "name": found.name,
            "labels": {labels.IP_TYPE: labels.TRANSIT},
            "annotations": {labels.TRANSIT_FROM: "milan", labels.TRANSIT_TO: "turin"},
        }
        wanted = {"metadata": metadata, "spec": {"ip": "192.168.7.7"}}
        await context.client.create(IPS, wanted, MILAN)
        await context.lent(found.name, MILAN)
        found.publish(found.host)
        [way] = await found.opened(found.milan, 1)
        assert way.host == found.host
