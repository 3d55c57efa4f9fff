"""A hub by which pods of one leaf reach published pods of another, and nothing else of anybody.

Both leaves have the same ranges, and so has the hub.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Hashable
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.apimachinery import labels
from liqod.cluster.transitaddresses import TransitAddresses
from liqod.model.network.ranges import translate
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.names import INNER_ADDRESS, INSIDE_TABLE, PeerNames
from liqod.resources import IPS
from tests.netns.lab import ask, echo, packets, ping, run
from tests.netns.natted import Natted, natted
from tests.netns.test_hub import Hub
from tests.netns.test_joined_clusters import Site
from tests.netns.test_relay import external
from tests.simulated.borrower import eventually

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

ALLOWED = """
[network]
transit = [["{r}", "{m}"]]
transit_rate = 8
"""
PORT = 8000
TABLE, FIRST = "999", "100"


class Transit:
    """The three, joined, with what the hub publishes of one leaf to the other."""

    def __init__(self, three: Natted) -> None:
        self.three, self.hub = three, Hub(three)
        self.rome, self.milan = three.rome.member.id, three.milan.member.id
        own = three.hub.member.id
        self.registry: TransitAddresses = three.hub.member.context.transit
        """Of the task that gives addresses at the hub, which goes on when the others stop."""
        # Nothing is offloaded here: what the test publishes, no reflection is to let go.
        vars(self.registry)["users"] = lambda reader: set[Hashable]()
        self.to_rome = PeerNames(own, self.rome).namespace
        self.to_milan = PeerNames(own, self.milan).namespace

    async def publish(self, reader: Site, owner: Site, last: int) -> tuple[str, str]:
        """Publish a pod of a leaf to the other; its alias at the hub, and where the other finds
        it."""
        names = (reader.member.id, owner.member.id)
        alias = await (self.hub.to_rome if owner is self.three.rome else self.hub.to_milan).alias(
            last
        )
        self.registry.publish("web", names[0], [(names[1], alias)])
        await eventually(lambda: self.registry.address(*names, alias) is not None)
        shown = self.registry.address(*names, alias)
        assert shown is not None
        at_reader = self.hub.network(
            self.hub.rome if reader is self.three.rome else self.hub.milan
        ).ranges
        assert at_reader is not None
        found = translate(shown, at_reader.peer, at_reader.seen)
        assert found is not None
        return alias, found

    def counted(self, name: str, place: str = "") -> int:
        """Packets by a counter in rome's namespace at the hub, or another one."""
        return packets(place or self.to_rome, INSIDE_TABLE, name)


async def test_published_pods_are_reached_by_way_of_the_hub_and_nothing_else(
    wireguard: str, tmp_path: Path
) -> None:
    async with natted(wireguard, tmp_path, ALLOWED) as three:
        for leaf in (three.rome, three.milan):
            assert (await three.join(leaf, three.hub)).without == ""
        found = Transit(three)
        alias, at_rome = await found.publish(three.rome, three.milan, 6)
        await it_is_reached(found, at_rome)
        await it_is_counted(found, at_rome)
        await nothing_else_is_reached(found, alias, at_rome)
        await it_is_one_way(found)
        await who_spoofs_is_dropped(found, at_rome)
        await the_owner_reaches_nobody_by_it(found)
        await a_flood_is_cut(found, at_rome)
        await the_hubs_daemon_is_not_needed(found, at_rome)
        await what_is_released_ends_at_once(found, at_rome)


async def tries(place: str, address: str, port: int = PORT, kind: str = "tcp", **more: str) -> str:
    """The answer to a question from a namespace; empty for none."""
    asked = partial(ask, place, address, port, kind, timeout=0.5, **more)
    with contextlib.suppress(OSError):
        return await trio.to_thread.run_sync(asked)
    return ""


async def reached(place: str, address: str, kind: str = "tcp") -> str:
    """The same where it is answered; the machine may be slow."""
    said = ""

    async def answered() -> bool:
        nonlocal said
        said = await tries(place, address, kind=kind)
        return bool(said)

    await eventually(answered)
    return said


async def it_is_reached(found: Transit, at_rome: str) -> None:
    """By TCP and UDP; milan's pod sees the hub, and answers to it."""
    three = found.three
    hub_at_milan = f"{await external(three.milan, three.hub.member.id)}.0"
    for kind in ("tcp", "udp"):
        with echo(three.milan.pod.namespace, PORT, kind):
            assert await reached(three.rome.pod.namespace, at_rome, kind) == hub_at_milan


async def it_is_counted(found: Transit, at_rome: str) -> None:
    """By pair, and shown with the number of endpoints."""
    network = found.hub.network(found.hub.to_rome)
    before = found.counted(f"transit-{found.milan}")
    assert before > 0
    with echo(found.three.milan.pod.namespace, PORT):
        assert await reached(found.three.rome.pod.namespace, at_rome)
    assert found.counted(f"transit-{found.milan}") >= before + 6

    async def told() -> bool:
        network.nudge()
        facts = network.facts()
        assert facts is not None
        [way] = facts.transit
        assert (way.owner, way.addresses) == (found.milan, 1)
        return way.packets > before and way.bytes > 40 * before

    await eventually(told)
    other = found.hub.network(found.hub.to_milan).facts()
    assert other is not None
    assert [(each.owner, each.addresses) for each in other.transit] == [(found.rome, 0)]


async def nothing_else_is_reached(found: Transit, alias: str, at_rome: str) -> None:
    """Other addresses of milan's, by the hub's range or by its alias; other protocols; its node."""
    three, rome = found.three, found.hub.rome
    start, _, last = at_rome.rpartition(".")
    nobody = f"{start}.{int(last) + 1}"
    base = alias.rpartition(".")[0]
    at_hub = found.to_rome
    # Rome's gateway is made to send into the tunnel what only the hub knows.
    for address in (alias, f"{base}.1", f"{base}.7"):
        way = f"{address} via {INNER_ADDRESS} dev {rome.names.veth} onlink table {TABLE}"
        run(*f"ip -n {rome.node} route add {way}".split())
        run(*f"ip -n {rome.node} rule add to {address} lookup {TABLE} pref {FIRST}".split())
    try:
        with (
            echo(three.milan.pod.namespace, PORT),
            echo(three.milan.node, PORT),
            echo(three.hub.node, PORT),
        ):
            for address in (nobody, alias, f"{base}.1", f"{base}.7"):
                before = found.counted("strangers", at_hub)
                assert await tries(three.rome.pod.namespace, address) == ""
                assert found.counted("strangers", at_hub) > before, address
            before = found.counted("strangers", at_hub)
            there = partial(ping, three.rome.pod.namespace, at_rome, timeout=1)
            assert await trio.to_thread.run_sync(there) == "nothing"
            assert found.counted("strangers", at_hub) > before
    finally:
        for _ in range(3):
            run(*f"ip -n {rome.node} rule delete pref {FIRST}".split())
        run(*f"ip -n {rome.node} route flush table {TABLE}".split())


async def it_is_one_way(found: Transit) -> None:
    """Milan reaches nothing of rome's by what was published to rome."""
    three = found.three
    prefix = await external(three.milan, three.hub.member.id)
    with echo(three.rome.pod.namespace, PORT):
        for last in range(1, 6):
            before = found.counted("strangers", found.to_milan)
            assert await tries(three.milan.pod.namespace, f"{prefix}.{last}") == ""
            assert found.counted("strangers", found.to_milan) > before
    # Published to it, it does.
    _, at_milan = await found.publish(three.milan, three.rome, 5)
    hub_at_rome = f"{await external(three.rome, three.hub.member.id)}.0"
    with echo(three.rome.pod.namespace, PORT):
        assert await reached(three.milan.pod.namespace, at_milan) == hub_at_rome
    found.registry.release("web", found.milan)


async def who_spoofs_is_dropped(found: Transit, at_rome: str) -> None:
    """Rome's gateway sends as another cluster's pod."""
    three, rome = found.three, found.hub.rome
    inside, tunnel = rome.names.namespace, rome.names.tunnel
    shown = f"10.70.{at_rome.split('.', 2)[2]}"
    run("ip", "-n", inside, "addr", "add", "10.99.0.1/32", "dev", "lo")
    run("ip", "-n", inside, "route", "add", f"{shown}/32", "dev", tunnel)
    run("nft", "flush", "chain", *INSIDE_TABLE.split(), "inward", namespace=inside)
    try:
        with echo(three.milan.pod.namespace, PORT, "udp"):
            before = found.counted("spoofed")
            assert await tries(inside, shown, kind="udp", source="10.99.0.1") == ""
            assert found.counted("spoofed") > before
    finally:
        run("ip", "-n", inside, "addr", "del", "10.99.0.1/32", "dev", "lo")
        run("ip", "-n", inside, "route", "del", f"{shown}/32", "dev", tunnel)

    async def mended() -> bool:
        with echo(three.milan.pod.namespace, PORT):
            return bool(await tries(three.rome.pod.namespace, at_rome))

    await eventually(mended)


async def the_owner_reaches_nobody_by_it(found: Transit) -> None:
    """Milan answers to the hub's address: what it begins to it, from the pod's own port or
    another, goes nowhere."""
    three = found.three
    prefix = await external(three.milan, three.hub.member.id)
    with echo(three.rome.pod.namespace, PORT, "udp"), echo(three.hub.node, PORT, "udp"):
        before = found.counted("strangers", found.to_milan)
        for port in (PORT, PORT + 1, 40000):
            assert await tries(three.milan.pod.namespace, f"{prefix}.0", port, "udp") == ""
        assert found.counted("strangers", found.to_milan) >= before + 3


async def a_flood_is_cut(found: Transit, at_rome: str) -> None:
    """The hub carries no more than it allows, and goes on afterwards."""
    place = found.three.rome.pod.namespace

    def flood() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
            for _ in range(20_000):
                made.sendto(bytes(1200), (at_rome, PORT))

    before = found.counted("flooded")
    with echo(found.three.milan.pod.namespace, PORT, "udp"):
        await trio.to_thread.run_sync(enter, place, flood)
        assert found.counted("flooded") > before + 100
        assert await reached(place, at_rome, "udp")


async def the_hubs_daemon_is_not_needed(found: Transit, at_rome: str) -> None:
    """The kernel carries while no daemon runs, and after another one has begun."""
    three = found.three
    with echo(three.milan.pod.namespace, PORT):
        await three.hub.member.stop()
        for _ in range(5):
            assert await reached(three.rome.pod.namespace, at_rome)
        await three.hub.member.start()
        for _ in range(5):
            assert await reached(three.rome.pod.namespace, at_rome)


async def what_is_released_ends_at_once(found: Transit, at_rome: str) -> None:
    """New connections, and those that stand, from either side."""
    three = found.three
    place = three.rome.pod.namespace

    def dial() -> socket.socket:
        made = socket.create_connection((at_rome, PORT), 5)
        made.settimeout(1)
        return made

    def listen() -> socket.socket:
        made = socket.create_server(("", PORT))
        made.settimeout(5)
        return made

    def exchange(near: socket.socket, far: socket.socket) -> bool:
        near.sendall(b"?")
        if far.recv(1) != b"?":
            return False
        far.sendall(b"!")
        return near.recv(1) == b"!"

    with enter(three.milan.pod.namespace, listen) as listening, enter(place, dial) as near:
        far, _ = listening.accept()
        with far:
            far.settimeout(1)
            assert exchange(near, far)
            await release(found)
            before = found.counted("strangers")
            far.sendall(b"late")
            with pytest.raises(TimeoutError):
                near.recv(1)
            near.sendall(b"late")
            with pytest.raises(TimeoutError):
                far.recv(1)
            assert found.counted("strangers") >= before + 2
        assert await tries(place, at_rome) == ""


async def release(found: Transit) -> None:
    """Nothing is published to rome any more; wait for the kernel at the hub."""
    registry = found.registry
    registry.release("web", found.rome)
    admin = found.three.hub.member.admin

    async def closed() -> bool:
        every = await admin.list(IPS)
        marks = [each["metadata"].get("annotations", {}) for each in every]
        listed = run("nft", "list", "table", *INSIDE_TABLE.split(), namespace=found.to_rome)
        opened = any(labels.TRANSIT_FROM in each for each in marks)
        return not opened and f"transit-{found.milan}" not in listed

    await eventually(closed)
