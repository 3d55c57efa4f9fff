"""Members of one Service at home, at a provider that runs liqod, and at one that runs Liqo.

Of a Liqo provider there is its own maker of EndpointSlices, which takes what a consumer tells. All
else of it is liqod's, whose daemon has ended before: objects, tunnels, and the rules of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from liqod.apimachinery.kinds import ENDPOINT_SLICES
from liqod.kube.selection import Selection
from liqod.plugins import loader
from tests.netns.lab import echo
from tests.netns.natted import natted
from tests.netns.test_hub import Hub
from tests.netns.test_joined_clusters import Site
from tests.netns.test_transit import PORT, reached
from tests.netns.test_transit_services import ALLOWED, ask_for_direct_ones, cable, offloaded
from tests.simulated.borrower import eventually
from tests.testbed.nameservers import asked, naming
from tests.testbed.processes import GO, Child, plain_environment

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]


@contextmanager
def running(site: Site, name: str, folder: Path, *words: str) -> Iterator[None]:
    """A program that works for a cluster, with an administrator's kubeconfig."""
    kubeconfig = folder / f"{site.member.id}.kubeconfig"
    kubeconfig.write_text(site.member.cluster.kubeconfig)
    environment = {**plain_environment(), **GO, "KUBECONFIG": str(kubeconfig)}
    log = folder / f"{name}-{site.member.id}.log"
    child = Child(f"{site.member.id}/{name}", words, log, environment=environment)
    try:
        yield
        child.check()
    finally:
        child.kill()


async def finds(port: int, name: str, wanted: str) -> None:
    """Waits until a DNS server gives a name this address, and no other."""

    async def look() -> bool:
        return await asked(port, f"{name}.svc.cluster.local") == ("NOERROR", {wanted})

    await eventually(look)


def slice_of(name: str, members: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """An EndpointSlice of the Service: names of members, their addresses and nodes."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "db"}},
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": [address],
                "hostname": member,
                "nodeName": node,
                "conditions": {"ready": True},
            }
            for member, (address, node) in members.items()
        ],
        "ports": [{"name": "sql", "port": PORT, "protocol": "TCP"}],
    }


async def spread(hub: Hub, sites: dict[str, Site]) -> None:
    """A member in each cluster, as the controllers there show those that run in their own."""
    three = hub.three
    rome, milan = three.rome.member, three.milan.member
    at_home = {
        "db-0": (three.hub.pod.address, "worker"),
        "db-1": (await hub.to_rome.alias(5), rome.id),
        "db-2": (await hub.to_milan.alias(6), milan.id),
    }
    patch = {"endpoints": slice_of("db-1", at_home)["endpoints"]}
    await three.hub.member.admin.patch(ENDPOINT_SLICES, "db-1", patch, "shop")
    for name in ("db-1", "db-2"):
        own = slice_of("own", {name: (sites[name].pod.address, "worker")})
        place = f"shop-{three.hub.member.id}"
        await sites[name].member.admin.create(ENDPOINT_SLICES, own, place)


async def test_each_member_finds_all_by_name_and_calls_them(
    wireguard: str, liqo_endpoints: str, coredns: str, tmp_path: Path
) -> None:
    plugins = loader.load(sources=loader.built_in())
    async with natted(wireguard, tmp_path, ALLOWED, plugins=plugins) as three:
        hub = await offloaded(three)
        cable(three)
        assert (await three.join(three.rome, three.milan)).without == ""
        await ask_for_direct_ones(three, "true")
        rome, milan, there = three.rome, three.milan, Selection(f"shop-{three.hub.member.id}")
        await eventually(lambda: milan.member.admin.list(ENDPOINT_SLICES, there), bool)
        # From here on Liqo alone makes EndpointSlices at milan.
        await milan.member.stop()
        for each in await milan.member.admin.list(ENDPOINT_SLICES, there):
            name = each["metadata"]["name"]
            await milan.member.admin.delete(ENDPOINT_SLICES, name, there.namespace)
        sites = {"db-0": three.hub, "db-1": rome, "db-2": milan}
        await spread(hub, sites)
        addresses = {
            "db-0": (
                three.hub.pod.address,
                await hub.to_rome.alias(5),
                await hub.to_milan.alias(6),
            ),
            "db-1": (await hub.rome.alias(7), rome.pod.address, await rome.alias(6)),
            "db-2": (await hub.milan.alias(7), await milan.alias(5), milan.pod.address),
        }
        with ExitStack() as programs:
            programs.enter_context(running(milan, "liqo", tmp_path, liqo_endpoints))
            for site in sites.values():
                programs.enter_context(echo(site.pod.namespace, PORT))
            for caller, found in addresses.items():
                here = sites[caller]
                kubeconfig = here.member.cluster.kubeconfig
                served = naming(here.member.id, kubeconfig, coredns, tmp_path)
                port = programs.enter_context(served)
                place = "shop" if here is three.hub else str(there.namespace)
                for name, address in zip(sites, found, strict=True):
                    await finds(port, f"{name}.db.{place}", address)
                    assert await reached(here.pod.namespace, address)
