"""A Service of an offloaded namespace with pods in three clusters, as clients at a provider use it.

The hub borrows from both leaves. At rome kube-proxy leads connections to rome's own pods, to the
hub's, and by way of the hub to milan's; the daemons decide which of these it has.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from liqod import reachability
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, NODES, SERVICES
from liqod.kube.selection import Selection
from liqod.network.machine.tunnelcontrol import CUT
from liqod.plugins import loader
from liqod.provider.workloads import endpointcrossing
from tests.netns.kubeproxy import NODE, proxying
from tests.netns.lab import run
from tests.netns.natted import AT_HOME, natted
from tests.netns.test_hub import Hub
from tests.netns.test_joined_clusters import Site
from tests.netns.test_set_services import (
    AT_HUB,
    AT_MILAN,
    AT_ROME,
    DEAF,
    FEW,
    ITS_PORT,
    MANY,
    PORT,
    REFUSED,
    SERVICE_ADDRESSES,
    SLOW,
    STATED,
    asks,
    counted,
    leads,
    many,
    named,
    serving,
)
from tests.netns.test_transit_services import offloaded
from tests.simulated.borrower import Json, eventually
from tests.simulated.members import Member
from tests.testbed.api import BUSY
from tests.testbed.netns import nft

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

ALLOWED = """
[network]
transit = [["{r}", "{m}"]]
"""
NEAR = "z1"
"""The zone of rome's node."""
WEB = {
    "metadata": {"name": "web"},
    "spec": {"ports": [{"name": "http", "port": ITS_PORT, "targetPort": PORT}]},
}
LOSSY = 15.0
"""Seconds in which a tenth of the packets is lost."""
LOSES = "numgen random mod 1000 < 100 counter drop"


class Spread(msgspec.Struct, frozen=True):
    """The three clusters with the Service.

    Attributes:
        rome: the provider whose clients call.
        there: the namespace at rome.
        address: the Service's there.
    """

    hub: Hub
    rome: Member
    there: str
    address: str

    @property
    def place(self) -> str:
        """The network namespace of the clients: rome's gateway, whose addresses no pod has."""
        return self.hub.three.rome.node

    async def asks(self, annotation: str, wish: str | None) -> None:
        """Has the Service ask for something, where it is."""
        await asks(self.hub.three.hub.member, "web", annotation, wish)

    async def leads(self, *wanted: tuple[int, ...]) -> None:
        """Waits until connections are answered by all endpoints with these ends, and no other."""
        await leads(self.place, self.address, named(*wanted))

    async def relayed(self) -> list[Json]:
        """The endpoints that rome's daemon has published."""
        made = f"{labels.ENDPOINT_SLICE_MANAGED_BY}={labels.ENDPOINT_SLICE_REFLECTOR}"
        chosen = Selection(self.there, labels=f"{made},{labels.SERVICE_NAME}=web")
        found = await self.rome.admin.list(ENDPOINT_SLICES, chosen)
        return [one for each in found for one in each.get("endpoints") or ()]

    async def ready(self) -> set[bool]:
        """Whether those are ready."""
        return {each["conditions"]["ready"] for each in await self.relayed()}

    async def shows(self, *ends: int, zone: str = "") -> None:
        """Has rome show its own pods with these ends, as Kubernetes' own controller does there.

        Args:
            zone: for which they are hinted; empty for none.
        """
        hints = {"hints": {"forZones": [{"name": zone}]}} if zone else {}
        patch = {"endpoints": [{**native(end), **hints} for end in ends]}
        await self.rome.admin.patch(ENDPOINT_SLICES, "own", patch, self.there)


def native(end: int) -> Json:
    """An endpoint in its own cluster."""
    ready = {"ready": True}
    return {"addresses": [f"10.244.0.{end}"], "conditions": ready, "nodeName": "worker"}


def slice_of(name: str, endpoints: list[Json]) -> Json:
    """An EndpointSlice of the Service."""
    return {
        "metadata": {"name": name, "labels": {labels.SERVICE_NAME: "web"}},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "http", "port": PORT, "protocol": "TCP"}],
    }


async def at_home(hub: Hub) -> list[Json]:
    """The endpoints as the hub has them: its own, and the pods that it has at the leaves."""
    every = [native(end) for end in AT_HUB]
    for leaf, ends in ((hub.to_rome, AT_ROME), (hub.to_milan, AT_MILAN)):
        for end in ends:
            where = {"addresses": [await leaf.alias(end)], "nodeName": leaf.names.peer_id}
            every.append({**native(end), **where})
    return every


@asynccontextmanager
async def spread(wireguard: str, kubectl: str, folder: Path) -> AsyncIterator[Spread]:
    """The Service with all of its pods, which serve."""
    plugins, proxy = loader.load(sources=loader.built_in()), Path(kubectl).with_name("kube-proxy")
    async with (
        natted(wireguard, folder, ALLOWED, plugins=plugins) as three,
        AsyncExitStack() as running,
    ):
        hub = await offloaded(three)
        own, rome = three.hub.member, three.rome
        every: list[tuple[Site, tuple[int, ...]]] = [
            (three.hub, AT_HUB),
            (rome, AT_ROME),
            (three.milan, AT_MILAN),
        ]
        for site, ends in every:
            running.enter_context(serving(site, ends, folder))
        await own.admin.create(SERVICES, WEB, "shop")
        await own.admin.create(ENDPOINT_SLICES, slice_of("web-1", await at_home(hub)), "shop")
        there = f"shop-{own.id}"
        found = await rome.member.until(SERVICES, "web", there, bool)
        mine = slice_of("own", [native(end) for end in AT_ROME])
        await rome.member.admin.create(ENDPOINT_SLICES, mine, there)
        # A pod with several addresses would answer itself directly: the gateway calls.
        way = f"{SERVICE_ADDRESSES} dev cni0 src {AT_HOME['r']}.2"
        run(*f"ip -n {rome.node} route add {way}".split())
        await running.enter_async_context(proxying(rome, proxy, folder))
        zone = {"metadata": {"labels": {labels.ZONE: NEAR}}}
        await rome.member.admin.patch(NODES, NODE, zone)
        yield Spread(hub, rome.member, there, found["spec"]["clusterIP"])


async def test_clients_at_a_provider_use_what_the_service_asks_for(
    wireguard: str, kubectl: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may need longer to start a daemon.
    for each in (reachability, endpointcrossing):
        monkeypatch.setattr(each, "SETTLE", BUSY * each.SETTLE)
    async with spread(wireguard, kubectl, tmp_path) as found:
        await found.leads(AT_HUB, AT_ROME, AT_MILAN)
        await its_own_pods_come_first(found)
        await its_own_pods_get_a_share(found)
        await its_own_pods_answer_alone(found)
        await loss_and_a_restart_take_nothing_away(found)
        await of_a_silent_hub_the_last_ones_answer_where_that_is_asked(found)


async def its_own_pods_come_first(found: Spread) -> None:
    """While one of them is ready; then all others answer, milan's too."""
    await found.asks(labels.ENDPOINT_PREFERENCE, "own-first")

    def is_near(service: Json) -> bool:
        return bool(service["spec"].get("trafficDistribution") == "PreferClose")

    await found.rome.until(SERVICES, "web", found.there, is_near)
    await found.shows(*AT_ROME, zone=NEAR)
    await found.leads(AT_ROME)
    counts = await many(found.place, found.address)
    print(f"own first: {counts}")
    assert counts.keys() == named(AT_ROME)
    await found.shows()
    await found.leads(AT_HUB, AT_MILAN)
    await found.shows(*AT_ROME)
    await found.asks(labels.ENDPOINT_PREFERENCE, None)
    await found.leads(AT_HUB, AT_ROME, AT_MILAN)


async def its_own_pods_get_a_share(found: Spread) -> None:
    """By the number of the others that rome is told: two of six."""
    await found.asks(labels.ENDPOINT_PREFERENCE, f"{found.rome.id}=50")

    async def told() -> bool:
        return len(await found.relayed()) == len(AT_ROME)

    await eventually(told)

    async def followed() -> bool:
        return len(await counted(found.place, found.address)) == 2 * len(AT_ROME)

    await eventually(followed)
    counts = await many(found.place, found.address)
    print(f"a share of 50 %: {counts}")
    own = sum(counts.get(each, 0) for each in named(AT_ROME))
    assert abs(own - MANY / 2) < MANY / 50


async def its_own_pods_answer_alone(found: Spread) -> None:
    """And where there is none, nobody."""
    await found.asks(labels.ENDPOINT_PREFERENCE, "own-only")
    await found.leads(AT_ROME)
    await found.shows()
    await leads(found.place, found.address, REFUSED)
    await found.shows(*AT_ROME)
    await found.asks(labels.ENDPOINT_PREFERENCE, None)
    await found.leads(AT_HUB, AT_ROME, AT_MILAN)


async def loss_and_a_restart_take_nothing_away(found: Spread) -> None:
    """A tenth of the packets lost each way; then rome's daemon is away, and comes back."""
    hub, all_ends = found.hub, named(AT_HUB, AT_ROME, AT_MILAN)
    every = len(AT_HUB) + len(AT_MILAN)
    wrong: list[list[Json]] = []

    async def look() -> None:
        while True:
            seen = await found.relayed()
            if len(seen) != every or not all(each["conditions"]["ready"] for each in seen):
                wrong.append(seen)
            await trio.sleep(0.2)

    async def stands() -> bool:
        known = (site.names.peer_id in site.member.components.peers for site in hub.ends)
        return all(known) and hub.all_stand()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        hub.loses(LOSES)
        await trio.sleep(LOSSY)
        hub.loses("")
        await found.rome.stop()
        # Its probes have ended with it, as the machine's side is in the same process here.
        assert (await counted(found.place, found.address)).keys() <= all_ends
        began = time.monotonic()
        await found.rome.start()
        await eventually(stands)
        print(f"the tunnels are known again {time.monotonic() - began:.1f} s after a start")
        await trio.sleep(LOSSY)
        nursery.cancel_scope.cancel()
    assert not wrong, wrong[0]
    await found.leads(AT_HUB, AT_ROME, AT_MILAN)


async def of_a_silent_hub_the_last_ones_answer_where_that_is_asked(found: Spread) -> None:
    """The probes alone err; where it is not asked, nobody answers."""
    gateway = found.hub.to_rome.names.namespace
    await found.asks(labels.KEEP_LAST_ENDPOINTS, "true")
    await found.shows()
    await found.leads(AT_HUB, AT_MILAN)
    began = time.monotonic()
    nft(gateway, DEAF)

    async def silent() -> bool:
        return await found.ready() == {False}

    await eventually(silent)
    took = time.monotonic() - began
    counts = await counted(found.place, found.address, FEW, began + CUT - 4)
    print(f"a silent hub: not ready after {took:.2f} s; the last ones answered {counts}")
    assert took < SLOW * STATED
    assert counts
    assert counts.keys() <= named(AT_HUB, AT_MILAN)
    # As soon as there is one of its own, that answers alone.
    await found.shows(*AT_ROME)
    await found.leads(AT_ROME)
    run("nft", "delete", "table", "inet", "deaf", namespace=gateway)
    await found.leads(AT_HUB, AT_ROME, AT_MILAN)
    await found.asks(labels.KEEP_LAST_ENDPOINTS, None)
    await found.shows()
    await found.leads(AT_HUB, AT_MILAN)
    nft(gateway, DEAF)
    await eventually(silent)
    await leads(found.place, found.address, REFUSED)
    run("nft", "delete", "table", "inet", "deaf", namespace=gateway)
    await found.leads(AT_HUB, AT_MILAN)
