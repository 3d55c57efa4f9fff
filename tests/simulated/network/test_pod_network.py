"""The networks of two clusters are joined, and taken apart, while a pod runs at the peer."""

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, NODES, PODS
from liqod.plugins import loader
from liqod.resources import CONFIGURATIONS, FOREIGN_CLUSTERS, SHADOW_ENDPOINT_SLICES
from simulator import Fault
from tests.simulated.borrower import condition, eventually
from tests.simulated.members import borrow_a_pod, members
from tests.simulated.peering.test_at_rest import writes

POD_CIDR, OTHER = "10.244.0.0/16", "10.70.0.0/16"
THERE = "10.244.3.9"
SLICE = {
    "metadata": {"name": "web-1"},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.244.5.6"]}],
}


async def join(member, peer, alias):
    """Both clusters' ranges, and the aliases of the peer's, as its Configuration has them."""
    tenant, cidr = f"liqo-tenant-{peer}", {"cidr": {"pod": [POD_CIDR], "external": [OTHER]}}
    if await member.admin.find(CONFIGURATIONS, peer, tenant) is None:
        spec = {"local": cidr, "remote": cidr}
        body = {"metadata": {"name": peer}, "spec": spec}
        await member.admin.create(CONFIGURATIONS, body, tenant)
    seen = {"cidr": {"pod": [f"{alias}.0.0/16"], "external": ["10.72.0.0/16"]}}
    await member.admin.patch(
        CONFIGURATIONS, peer, {"status": {"remote": seen}}, tenant, subresource="status"
    )


async def part(member, peer):
    """No network is joined any more."""
    await member.admin.delete(CONFIGURATIONS, peer, f"liqo-tenant-{peer}")


async def shown(member, *, address, reason, way):
    """Wait until all who say something of the pod's address say this."""
    ip = address and [{"ip": address}]
    await member.until(PODS, "web", "shop", lambda pod: pod["status"].get("podIPs") == ip)
    pod = await member.admin.get(PODS, "web", "shop")
    assert pod["status"].get("podIP") == address
    node = await member.until(
        *(NODES, "milan", None),
        lambda node: condition(node, "NetworkUnavailable").get("reason") == reason,
    )
    note = labels.POD_NETWORK
    await member.until(
        FOREIGN_CLUSTERS, "milan", None, lambda found: found["metadata"]["annotations"][note] == way
    )
    return condition(node, "NetworkUnavailable")["message"]


async def a_pod_there(rome, milan):
    """A pod of rome's runs at milan and has an address there."""
    await borrow_a_pod(rome, milan)
    status = {"phase": "Running", "podIP": THERE, "podIPs": [{"ip": THERE}]}
    await milan.admin.patch(PODS, "web", {"status": status}, "shop-rome", subresource="status")
    await rome.until(PODS, "web", "shop", lambda pod: pod["status"].get("phase") == "Running")


@pytest.mark.long
async def test_addresses_come_with_the_network_and_go_with_it():
    plugins = loader.load(sources=loader.built_in())
    async with members("rome", "milan", plugins=plugins) as [rome, milan]:
        await a_pod_there(rome, milan)
        await rome.admin.create(ENDPOINT_SLICES, SLICE, "shop")
        for alias in ("10.71", "10.73"):
            said = await shown(rome, address=None, reason="PodNetworkNone", way="none")
            assert "not joined" in said
            assert await milan.admin.find(SHADOW_ENDPOINT_SLICES, "web-1", "shop-rome") is None
            await join(rome, "milan", alias)
            way = {"reason": "PodNetworkTunnel", "way": "tunnel"}
            await shown(rome, address=f"{alias}.3.9", **way)
            await eventually(lambda: milan.admin.find(SHADOW_ENDPOINT_SLICES, "web-1", "shop-rome"))
            # Milan has no network of its own with rome yet: nothing there leads to rome's pods.
            assert await milan.admin.find(ENDPOINT_SLICES, "web-1", "shop-rome") is None
            await join(milan, "rome", alias)
            made = await eventually(lambda: milan.admin.find(ENDPOINT_SLICES, "web-1", "shop-rome"))
            assert made["endpoints"][0]["addresses"] == [f"{alias}.5.6"]
            await part(milan, "rome")
            await milan.gone(ENDPOINT_SLICES, "web-1", "shop-rome")
            await part(rome, "milan")
            await milan.gone(SHADOW_ENDPOINT_SLICES, "web-1", "shop-rome")
        await shown(rome, address=None, reason="PodNetworkNone", way="none")


@pytest.mark.long
@pytest.mark.parametrize("joined", [True, False])
async def test_a_daemon_that_starts_leaves_addresses_as_they_are(joined):
    plugins = loader.load(sources=loader.built_in())
    async with members("rome", "milan", plugins=plugins) as [rome, milan]:
        await a_pod_there(rome, milan)
        if joined:
            await join(rome, "milan", "10.71")
            way = {"reason": "PodNetworkTunnel", "way": "tunnel"}
            await shown(rome, address="10.71.3.9", **way)
        else:
            await shown(rome, address=None, reason="PodNetworkNone", way="none")
        before = await rome.admin.get(PODS, "web", "shop")
        await rome.stop()
        slow = Fault(path="/configurations", delay=1.0)
        with rome.cluster.faults.during(slow):
            await rome.start()
            await trio.sleep(4)
        assert slow.hits
        assert writes(rome) == {}
        assert await rome.admin.get(PODS, "web", "shop") == before


@pytest.mark.long
async def test_none_shows_no_address_though_the_network_is_joined():
    plugins = loader.load(sources=loader.built_in())
    settings = '[webhook]\nenabled = false\n[peer_defaults]\npod_network = "none"\n'
    async with members("rome", "milan", plugins=plugins, settings=settings) as [rome, milan]:
        await a_pod_there(rome, milan)
        await join(rome, "milan", "10.71")
        ready = "NetworkConfigurationReady"
        await rome.until(FOREIGN_CLUSTERS, "milan", None, lambda found: ready in str(found))
        said = await shown(rome, address=None, reason="PodNetworkNone", way="none")
        assert "pod_network is none" in said
