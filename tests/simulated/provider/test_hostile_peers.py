"""Cost of a hostile peer of each kind to the others: 50 MiB and a twentieth of a core at most.

The daemon is a process of its own, so that what is measured is its own; the attacker writes to the
API server with an administrator's rights, more than any peer has. A kind is measured on what the
ones before it have left behind.
"""

import itertools
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.apimachinery.kinds import NAMESPACES, PODS
from liqod.resources import (
    CONFIGURATIONS,
    NAMESPACE_MAPS,
    RESOURCE_SLICES,
    SHADOW_ENDPOINT_SLICES,
    SHADOW_PODS,
)
from liqod.resources.base import MAX_MAPPED
from liqod.resources.networking import GATEWAY_CLIENTS, GATEWAY_SERVERS, PUBLIC_KEYS
from tests.simulated.borrower import eventually
from tests.simulated.costs import flood, judge, measured, share
from tests.simulated.lender import shadow_pod, shadow_slice
from tests.simulated.processes import Site, sites
from tests.simulated.provider.test_hostile_bounds import lift_bounds
from tests.testbed.processes import free_ports

pytestmark = [pytest.mark.long, pytest.mark.load]

TENANT = "liqo-tenant-rome"
SHOP = "shop-rome"
EDITS = 50
"""Edits in a second."""
REPLICA = {
    "liqo.io/replicated": "true",
    "liqo.io/originID": "rome",
    "liqo.io/remoteID": "milan",
}


@dataclass
class Field:
    """The provider, and where its servers listen."""

    milan: Site
    webhook: int
    health: int


async def slices(field: Field, nursery: trio.Nursery) -> None:
    """Slices that name ten thousand resources each, by definitions that take them."""
    await lift_bounds(field.milan.admin)
    live = await field.milan.admin.get(RESOURCE_SLICES, "milan", TENANT)
    named = {f"example.com/r{number}": "1" for number in range(10_000)}
    spec = {**live["spec"], "resources": named}
    made = [{"metadata": {"name": f"s{n}", "labels": REPLICA}, "spec": spec} for n in range(32)]
    await flood(field.milan.admin, RESOURCE_SLICES, made, TENANT)


async def maps(field: Field, nursery: trio.Nursery) -> None:
    """As many maps as there may be, with as many entries as the definition takes."""
    desired = {f"n{number}": f"n{number}-rome" for number in range(MAX_MAPPED)}
    spec = {"desiredMapping": desired}
    made = [{"metadata": {"name": f"m{n}", "labels": REPLICA}, "spec": spec} for n in range(15)]
    await flood(field.milan.admin, NAMESPACE_MAPS, made, TENANT)


async def pods(field: Field, nursery: trio.Nursery) -> None:
    """ShadowPods just below the bound for one."""
    fat = {"env": [{"name": "FAT", "value": "x" * 60_000}]}
    made = [shadow_pod(f"fat-{number}", user="") for number in range(1000)]
    for body in made:
        body["spec"]["pod"]["containers"][0] |= fat
    await flood(field.milan.admin, SHADOW_PODS, made, SHOP)


async def endpoints(field: Field, nursery: trio.Nursery) -> None:
    """ShadowEndpointSlices just below the bound for one."""
    made = [shadow_slice(f"wide-{number}", "10.1.2.3") for number in range(200)]
    for body in made:
        one = body["spec"]["template"]["endpoints"][0]
        body["spec"]["template"]["endpoints"] = [{**one, "zone": "z" * 150}] * 1000
    await flood(field.milan.admin, SHADOW_ENDPOINT_SLICES, made, SHOP)


def unfinished(size: int) -> bytes:
    """A request of which the end never comes."""
    head = f"POST /mutate-pod HTTP/1.1\r\nhost: x\r\ncontent-length: {size + 1}\r\n\r\n"
    return head.encode() + b"x" * size


async def connected(port: int, data: bytes, *, tls: bool) -> None:
    """Send that, again and again where the server ends it, and wait."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    while True:
        with suppress(OSError, trio.BrokenResourceError):
            stream: trio.abc.Stream = await trio.open_tcp_stream("127.0.0.1", port)
            if tls:
                stream = trio.SSLStream(stream, context)
            try:
                with trio.move_on_after(30):
                    await stream.send_all(data)
                    while await stream.receive_some(4096):
                        pass
            finally:
                await trio.aclose_forcefully(stream)
        await trio.sleep(10.0)


async def edits(field: Field, nursery: trio.Nursery) -> None:
    """A ShadowPod that is edited fifty times a second, so that its pod has to follow."""
    admin = field.milan.admin
    await admin.create(SHADOW_PODS, shadow_pod("restless", user=""), SHOP)
    await eventually(lambda: admin.find(PODS, "restless", SHOP))

    async def edit(number: int) -> None:
        change = {"metadata": {"annotations": {"edited": str(number)}}}
        await admin.patch(SHADOW_PODS, "restless", change, SHOP)

    async def go_on() -> None:
        for number in itertools.count():
            nursery.start_soon(edit, number)
            await trio.sleep(1 / EDITS)

    nursery.start_soon(go_on)


async def network_objects(field: Field, nursery: trio.Nursery) -> None:
    """As many gateways, keys and Configurations as there may be, each of two hundred kilobytes."""
    marks = {"liqo.io/remote-cluster-id": "rome"}
    ranges = [f"10.{n // 256}.{n % 256}.0/24" for n in range(12_000)]
    remote = {"cidr": {"pod": ranges, "external": ["10.70.0.0/16"]}}
    bulk = {"annotations": {"bulk": "x" * 200_000}, "labels": marks}
    gateway = {"endpoint": {"addresses": ["192.0.2.1"], "port": 51840}}
    for kind, spec in (
        (CONFIGURATIONS, {"remote": remote}),
        (GATEWAY_SERVERS, {}),
        (GATEWAY_CLIENTS, gateway),
        (PUBLIC_KEYS, {"publicKey": "A" * 43 + "="}),
    ):
        made = [{"metadata": {"name": f"n{n}", **bulk}, "spec": spec} for n in range(15)]
        await flood(field.milan.admin, kind, made, TENANT)


async def bodies_to_the_webhook(field: Field, nursery: trio.Nursery) -> None:
    """Two hundred connections of strangers, each with a request of a megabyte and a half."""
    for _ in range(200):
        nursery.start_soon(partial(connected, field.webhook, unfinished(1_500_000), tls=True))


async def bodies_to_health(field: Field, nursery: trio.Nursery) -> None:
    """Four hundred connections of strangers, each with a request of three megabytes."""
    for _ in range(400):
        nursery.start_soon(partial(connected, field.health, unfinished(3_000_000), tls=False))


async def reviews(field: Field, nursery: trio.Nursery) -> None:
    """Malformed reviews without end, as fast as they are answered."""
    bad = b'{"request":{"uid":"1","namespace":"shop","object":{"metadata":[]}}}'
    head = f"POST /mutate-pod HTTP/1.1\r\nhost: x\r\ncontent-length: {len(bad)}\r\n\r\n"
    for _ in range(8):
        nursery.start_soon(
            partial(connected, field.webhook, (head.encode() + bad) * 100_000, tls=True)
        )


KINDS: dict[str, Callable[[Field, trio.Nursery], Awaitable[None]]] = {
    "edits of a ShadowPod": edits,  # as long as there is room for its pod
    "bodies to the webhook": bodies_to_the_webhook,
    "bodies to the probes": bodies_to_health,
    "malformed reviews": reviews,
    "slices of ten thousand resources": slices,
    "maps of four thousand entries": maps,
    "large ShadowPods": pods,
    "wide ShadowEndpointSlices": endpoints,
    "gateways, keys and Configurations": network_objects,
}


@pytest.mark.timeout(1800)  # each kind is given its allowance
async def test_a_hostile_peer_takes_little_from_the_others(tmp_path: Path):
    async with sites(tmp_path, "rome", "milan") as (rome, milan):
        webhook, health = free_ports(2)
        milan.daemon.settings = {"webhook": {"port": webhook}, "health": {"port": health}}
        await rome.start()
        await milan.start()
        user = await milan.user_for("rome")
        await rome.liqod("peer", "--remote-kubeconfig", str(user))
        await rome.admin.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await rome.liqod("offload", "namespace", "shop")
        await eventually(lambda: milan.admin.find(NAMESPACES, SHOP))
        await rome.stop()  # from now on it is the attacker who writes
        field = Field(milan, webhook, health)
        quiet = await share(milan)
        found = {
            name: await measured(milan, quiet, partial(each, field)) for name, each in KINDS.items()
        }
    judge(quiet, found)
