"""Endpoints of the set follow the verdict on the tunnel, and nothing else does anything to them."""

from contextlib import asynccontextmanager

import pytest
import trio

from liqod import reachability
from liqod.apimachinery.kinds import ENDPOINT_SLICES, EVENTS, SERVICES
from liqod.resources import CONFIGURATIONS
from simulator.faults import Fault
from tests.simulated.borrower import eventually
from tests.simulated.clusterset.sets import (
    IMPORTS,
    backends,
    export,
    imported,
    share,
    sharing,
    until_backends,
)
from tests.simulated.members import AT_MILAN, AT_ROME

pytestmark = [pytest.mark.long, pytest.mark.clusterset]
NETWORKS = {"rome": "10.71.0.0/16", "milan": "10.72.0.0/16"}
READY = {"rome": {"10.71.0.1": True}, "milan": {"10.72.0.1": True}}
WITHOUT_MILAN = {"rome": {"10.71.0.1": True}, "milan": {"10.72.0.1": False}}
LONG = 3600
"""Seconds: an hour, in which most of the returns are alike, as a loss is not remembered so long."""
SOON = 2.0
"""Seconds within which endpoints follow."""


async def configure(who, peer, at):
    """Have the ranges of the joined networks, as the daemons' own components write them."""
    local, remote = (
        {"cidr": {"pod": [NETWORKS[each]], "external": [f"10.9{n}.0.0/16"]}}
        for n, each in enumerate((who.id, peer))
    )
    body = {"metadata": {"name": peer}, "spec": {"local": local, "remote": remote}}
    await who.admin.create(CONFIGURATIONS, body, at)
    status = {"status": {"remote": remote}}
    await who.admin.patch(CONFIGURATIONS, peer, status, at, subresource="status")


def network(who, peer):
    return who.components.peers[peer].network


async def carries(who, peer, connected=True):
    """Have the probes of a tunnel come to a verdict."""

    async def knows_ranges():
        return peer in who.components.peers and network(who, peer).ranges is not None

    await eventually(knows_ranges)
    await trio.sleep(0.1)
    network(who, peer).set_connected(connected, "" if connected else "nothing comes back")


@asynccontextmanager
async def joined():
    """Two clusters with one tunnel, each of which imports what both export."""
    async with sharing("rome", "milan") as [rome, milan]:
        for who in (rome, milan):
            await who.stop()
            who.settings = who.settings.replace('pod_network = "routed"', 'pod_network = "tunnel"')
            await who.start()
        await rome.peer(milan)
        for who, peer, at in ((rome, "milan", AT_ROME), (milan, "rome", AT_MILAN)):
            await share(who, peer)
            await configure(who, peer, at)
            await carries(who, peer)
        await export(rome, "10.71.0.1")
        await export(milan, "10.72.0.1")
        for who in (rome, milan):
            await imported(who, "milan", "rome")
            await until_backends(who, READY)
        yield rome, milan


async def stays(who, wanted, seconds):
    """Look at each second that the endpoints are these."""
    for _ in range(int(seconds)):
        await trio.sleep(1)
        assert await backends(who) == wanted


async def test_they_are_not_ready_two_seconds_after_the_verdict_and_ready_again_after_it():
    async with joined() as (rome, milan):
        for who, peer, without in (
            (rome, "milan", WITHOUT_MILAN),
            (milan, "rome", {"rome": {"10.71.0.1": False}, "milan": {"10.72.0.1": True}}),
        ):
            network(who, peer).set_connected(False, "nothing comes back")
            with trio.fail_after(SOON):
                await until_backends(who, without)
            await stays(who, without, 310)  # none is ever removed
            network(who, peer).set_connected(True)
            with trio.fail_after(SOON):
                await until_backends(who, READY)


async def test_a_peer_of_which_nothing_but_the_tunnel_is_there_loses_no_endpoint():
    async with joined() as (rome, milan):
        await milan.stop()
        await stays(rome, READY, 90)
        await milan.cluster.stop()
        await stays(rome, READY, 90)
        network(rome, "milan").set_connected(False, "nothing comes back")
        with trio.fail_after(SOON):
            await until_backends(rome, WITHOUT_MILAN)
        await milan.cluster.start()
        await milan.start()
        await stays(rome, WITHOUT_MILAN, 5)


async def test_the_own_api_server_and_its_watches_may_fail_and_nothing_is_withdrawn():
    async with joined() as (rome, _):
        before = await versions(rome)
        fault = Fault(verb="watch", status=410)
        rome.cluster.faults.add(fault)
        await rome.cluster.stop()
        await trio.sleep(30)
        await rome.cluster.start()
        await stays(rome, READY, 60)
        rome.cluster.faults.remove(fault)
        await stays(rome, READY, 30)
        assert await versions(rome) == before


async def versions(who):
    found = await who.admin.list(ENDPOINT_SLICES)
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in found}


@pytest.mark.parametrize("carried", [True, False], ids=["it-carries", "it-does-not"])
async def test_a_daemon_that_starts_leaves_them_as_they_are_until_it_knows_the_tunnel(carried):
    async with joined() as (rome, _):
        network(rome, "milan").set_connected(carried, "as it is")
        wanted = READY if carried else WITHOUT_MILAN
        await until_backends(rome, wanted)
        before = await versions(rome)
        await rome.stop()
        await rome.start()
        await stays(rome, wanted, reachability.SETTLE - 2)
        await carries(rome, "milan", carried)
        await stays(rome, wanted, 30)
        assert await versions(rome) == before


async def test_a_daemon_that_cannot_read_the_ranges_leaves_them_as_they_are():
    async with joined() as (rome, _):
        before = await versions(rome)
        await rome.stop()
        fault = Fault(path="/configurations", status=500)
        rome.cluster.faults.add(fault)
        await rome.start()
        await stays(rome, READY, 60)
        rome.cluster.faults.remove(fault)
        await carries(rome, "milan")
        await stays(rome, READY, 20)
        assert await versions(rome) == before


async def test_those_of_one_that_comes_and_goes_without_end_are_written_a_few_times():
    async with joined() as (rome, _):
        before, events = await written(rome), len(await rome.admin.list(EVENTS))
        for _ in range(LONG // 20):
            network(rome, "milan").set_connected(False, "nothing comes back")
            await trio.sleep(SOON)
            assert await backends(rome) == WITHOUT_MILAN
            await trio.sleep(10 - SOON)
            network(rome, "milan").set_connected(True)
            await trio.sleep(10)
        assert 2 <= await written(rome) - before <= 12
        assert len(await rome.admin.list(EVENTS)) - events <= 20
        with trio.fail_after(reachability.LASTS.last + SOON):
            await until_backends(rome, READY)


async def written(who):
    """The times that the slices of milan's export were changed at rome."""
    found = await who.admin.list(ENDPOINT_SLICES)
    return sum(
        each["metadata"].get("generation", 0)
        for each in found
        if each["metadata"]["labels"].get("multicluster.kubernetes.io/source-cluster") == "milan"
    )


async def asks(who, value):
    """Have the Service of that cluster ask for the last endpoints, or for nothing."""
    marks = {"annotations": {"liqod.io/keep-last-endpoints": value}}
    await who.admin.patch(SERVICES, "web", {"metadata": marks}, "shop")


async def own_is_ready(who, address, ready):
    endpoints = [{"addresses": [address], "conditions": {"ready": ready}}]
    await who.admin.patch(ENDPOINT_SLICES, "web-1", {"endpoints": endpoints}, "shop")


async def until_condition(who, wanted):
    """Wait until the import says this of kept endpoints; None for nothing."""

    async def look():
        status = (await who.admin.get(IMPORTS, "web", "shop"))["status"]
        found = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
        return found.get("liqod.io/EndpointsKept") == wanted

    await eventually(look)


async def test_a_service_that_asks_for_it_keeps_the_last_ones_and_no_others():
    nothing = {"rome": {"10.71.0.1": False}, "milan": {"10.72.0.1": False}}
    async with joined() as (rome, _):
        network(rome, "milan").set_connected(False, "nothing comes back")
        await own_is_ready(rome, "10.71.0.1", False)
        await until_backends(rome, nothing)
        await asks(rome, "true")
        await until_backends(rome, {**nothing, "milan": {"10.72.0.1": True}})
        await until_condition(rome, ("True", "NothingReached"))
        await own_is_ready(rome, "10.71.0.1", True)
        await until_backends(rome, WITHOUT_MILAN)
        await until_condition(rome, None)
        await own_is_ready(rome, "10.71.0.1", False)
        await until_condition(rome, ("True", "NothingReached"))
        await rome.stop()
        await rome.start()
        await stays(rome, {**nothing, "milan": {"10.72.0.1": True}}, 30)
        await asks(rome, "perhaps")
        await carries(rome, "milan", False)
        await until_backends(rome, nothing)
        await until_condition(rome, ("False", "InvalidAnnotation"))
        await asks(rome, None)
        await until_condition(rome, None)
        await stays(rome, nothing, 5)
