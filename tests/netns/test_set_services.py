"""Services of the set in a star of three clusters, whose real kube-proxies lead connections.

The hub has a network with either leaf, which have none with each other.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, SERVICES
from liqod.model.clusterset.choosing import PREFERENCE
from liqod.model.clusterset.keeping import KEPT
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.machine.tunnelcontrol import CUT
from liqod.plugins import loader
from tests.netns.kubeproxy import proxying
from tests.netns.lab import ask, run
from tests.netns.natted import HUB, natted
from tests.netns.test_hub import Hub
from tests.netns.test_joined_clusters import Site
from tests.netns.test_transit import tries
from tests.simulated.borrower import eventually
from tests.simulated.clusterset.sets import IMPORTS, backends, export, imported, share
from tests.simulated.clusterset.test_shared_on import agree, key
from tests.simulated.members import Member
from tests.testbed.api import BUSY
from tests.testbed.nameservers import naming, targets
from tests.testbed.netns import nft
from tests.testbed.processes import Child

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

SHARED = """
[services]
enabled = true
[network]
transit = [["{r}", "{m}"]]
"""
PORT, ITS_PORT = 8080, 80
"""Of the pods, and of their Services."""
SERVICE_ADDRESSES = "10.96.0.0/16"
AT_HUB, AT_ROME, AT_MILAN = (7, 17, 27, 37), (5, 15), (6, 16)
"""How the addresses of endpoints end."""
MANY, FEW = 10_000, 60
STATED = 2.0
"""Seconds after which the endpoints of a silent peer are not ready."""
SLOW = 6.0
"""The times that a busy machine may be later, which is still before connections are cut."""
MISSED = 0.01
"""The share of connections that may be late, or miss kube-proxy's rules, which then refuse them."""
SERVER = """
import socket, sys, threading
def answer(made):
    with made:
        while asked := made.recv(1):
            made.sendall(made.getsockname()[0].encode())
            if asked == b".":  # Who ends a connection waits, and a client's ports are few.
                return
with socket.create_server(("", int(sys.argv[1])), backlog=512) as listening:
    while True:
        threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()
"""
CLIENT = """
import collections, concurrent.futures, json, socket, sys, time
address, port, count, until = sys.argv[1], *map(float, sys.argv[2:])
def one(_):
    if time.monotonic() > until:
        return "late"
    try:
        with socket.create_connection((address, int(port)), 2) as made:
            made.sendall(b".")
            said = made.recv(100)
            made.recv(1)
            return said.decode()
    except ConnectionRefusedError:
        return "refused"
    except OSError:
        return ""
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(json.dumps(collections.Counter(pool.map(one, range(int(count))))))
"""
"""New connections until a time: how many each endpoint answered."""
REFUSED = {"refused"}
DEAF = """
table inet deaf {
    chain ends { type filter hook input priority 0; policy drop
    }
}
"""


def inside(place: str, script: str, *words: object) -> tuple[str, ...]:
    """A script of Python's in a namespace."""
    network = f"--net=/run/netns/{place}"
    return ("nsenter", network, sys.executable, "-I", "-c", script, *map(str, words))


@contextmanager
def serving(site: Site, ends: tuple[int, ...], folder: Path) -> Iterator[None]:
    """Servers in a cluster's pod, which say the address of their own that was called."""
    for end in ends[1:]:
        address = f"10.244.0.{end}/24"
        run("ip", "-n", site.pod.namespace, "addr", "add", address, "dev", "eth0")
    name = f"{site.member.id}-server"
    child = Child(name, inside(site.pod.namespace, SERVER, PORT), folder / f"{name}.log")
    try:
        yield
    finally:
        child.kill()


@asynccontextmanager
async def star(wireguard: str, kubectl: str, folder: Path) -> AsyncIterator[Hub]:
    """The hub is joined with either leaf and shares a namespace with it; all pods serve."""
    plugins, proxy = loader.load(sources=loader.built_in()), Path(kubectl).with_name("kube-proxy")
    async with natted(wireguard, folder, SHARED, plugins=plugins, services=True) as three:
        own = three.hub.member
        for leaf in (three.rome, three.milan):
            assert (await three.join(leaf, three.hub)).without == ""
            await own.peer(leaf.member)
        async with AsyncExitStack() as running:
            ends = ((three.hub, AT_HUB), (three.rome, AT_ROME), (three.milan, AT_MILAN))
            for site, its_own in ends:
                running.enter_context(serving(site, its_own, folder))
                await share(site.member, "*")
                await exports(site.member, "web", its_own)
            # A pod with several addresses would answer itself directly: the gateway calls, with an
            # address that is no pod's, of which kube-proxy takes a free port for each connection.
            way = f"{SERVICE_ADDRESSES} dev cni0 src {HUB}"
            run(*f"ip -n {three.hub.node} route add {way}".split())
            for site in (three.hub, three.rome):
                await running.enter_async_context(proxying(site, proxy, folder))
            yield Hub(three)


async def exports(who: Member, name: str, ends: tuple[int, ...]) -> None:
    """A Service with these endpoints, and its ServiceExport."""
    await export(who, f"10.244.0.{ends[0]}", name)
    await endpoints(who, name, ends)


async def endpoints(who: Member, name: str, ends: tuple[int, ...]) -> None:
    """Has a cluster's own Service have these endpoints."""
    ready = {"conditions": {"ready": True}}
    made = [{"addresses": [f"10.244.0.{each}"], **ready} for each in ends]
    await who.admin.patch(ENDPOINT_SLICES, f"{name}-1", {"endpoints": made}, "shop")


async def asks(who: Member, name: str, annotation: str, wish: str | None) -> None:
    """Has a cluster's own Service ask for something."""
    change = {"metadata": {"annotations": {annotation: wish}}}
    await who.admin.patch(SERVICES, name, change, "shop")


async def said(who: Member, name: str, kind: str) -> tuple[str, str]:
    """Status and reason of a condition of an import."""
    found = await who.admin.get(IMPORTS, name, "shop")
    every = {each["type"]: each for each in found["status"]["conditions"]}
    return (every[kind]["status"], every[kind]["reason"]) if kind in every else ("", "")


async def ready(who: Member, name: str) -> set[bool]:
    """Whether the endpoints of an import are ready."""
    return {each for found in (await backends(who, name)).values() for each in found.values()}


async def address_of(who: Member, name: str, *clusters: str) -> str:
    """The address of an import, once it is of these clusters."""
    found: Any = await imported(who, *clusters, name=name)
    return str(found["spec"]["ips"][0])


async def counted(
    place: str, address: str, count: int = FEW, until: float = float("inf"), port: int = ITS_PORT
) -> dict[str, int]:
    """How many new connections from a namespace to an address each endpoint answers.

    Args:
        until: when no more are begun.
    """
    command = inside(place, CLIENT, address, port, count, until)
    done = await trio.run_process(command, capture_stdout=True)
    found: dict[str, int] = json.loads(done.stdout)
    found.pop("late", None)
    return found


async def many(place: str, address: str, until: float = float("inf")) -> dict[str, int]:
    """Counts many connections, of which next to none is refused, or not answered."""
    found = await counted(place, address, MANY, until)
    made, missed = sum(found.values()), found.pop("refused", 0) + found.pop("", 0)
    assert missed <= MISSED * made + 1
    return found


async def leads(place: str, address: str, wanted: set[str]) -> None:
    """Waits until connections to an address are answered by all of these, and by nobody else."""
    found: dict[str, int] = {}

    async def look() -> bool:
        nonlocal found
        found = await counted(place, address)
        return found.keys() == wanted

    with suppress(trio.TooSlowError):
        await eventually(look, seconds=BUSY * 60)
    assert found.keys() == wanted


def named(*every: tuple[int, ...]) -> set[str]:
    """The endpoints with these ends."""
    return {f"10.244.0.{end}" for ends in every for end in ends}


async def test_connections_get_shares_and_the_last_endpoints_and_pass_by_the_hub(
    wireguard: str, kubectl: str, coredns: str, tmp_path: Path
) -> None:
    async with star(wireguard, kubectl, tmp_path) as hub:
        await shares_are_what_connections_get(hub)
        await the_last_ones_answer_until_they_are_cut(hub)
        await pods_of_one_leaf_call_those_of_the_other(hub)
        await members_without_names_are_called_by_srv(hub, coredns, tmp_path)
        await by_a_dead_hub_nobody_answers(hub)


async def shares_are_what_connections_get(hub: Hub) -> None:
    """Of three clusters, counted at one of them; without a wish each endpoint gets as much."""
    place, who = hub.three.hub.node, hub.three.hub.member
    rome, milan = hub.three.rome.member.id, hub.three.milan.member.id
    address = await address_of(who, "web", *sorted((who.id, rome, milan)))
    await leads(place, address, named(AT_HUB, AT_ROME, AT_MILAN))
    await asks(who, "web", labels.ENDPOINT_PREFERENCE, f"{rome}=20,{milan}=40")

    async def followed() -> bool:
        chosen = len(await counted(place, address)) == 5
        return chosen and await said(who, "web", PREFERENCE) == ("True", "Shares")

    await eventually(followed)
    found = await many(place, address)
    print(f"shares of 20 and 40 %: {found}")
    for share_of, ends in ((40, AT_HUB), (20, AT_ROME), (40, AT_MILAN)):
        got = sum(found.get(each, 0) for each in named(ends))
        assert abs(got - MANY * share_of / 100) < MANY / 50
    await asks(who, "web", labels.ENDPOINT_PREFERENCE, None)


def dial(place: str, address: str) -> socket.socket:
    """A connection from a namespace that has been answered."""
    made = enter(place, partial(socket.create_connection, (address, ITS_PORT), 10))
    assert says(made)
    return made


def says(held: socket.socket) -> bytes:
    """The answer to one more question by a connection."""
    held.sendall(b"?")
    return held.recv(100)


async def the_last_ones_answer_until_they_are_cut(hub: Hub) -> None:
    """The hub takes both leaves for dead, at first by an error of the probes alone."""
    place, who, leaves = hub.three.hub.node, hub.three.hub.member, named(AT_ROME, AT_MILAN)
    rome, milan = hub.three.rome.member, hub.three.milan.member
    address = await address_of(who, "web", *sorted((who.id, rome.id, milan.id)))
    await exports(milan, "plain", AT_MILAN)
    plain = await address_of(who, "plain", milan.id)
    await endpoints(who, "web", ())
    await asks(who, "web", labels.KEEP_LAST_ENDPOINTS, "true")
    await leads(place, address, leaves)
    await leads(place, plain, named(AT_MILAN))
    with dial(place, address) as held:
        began = time.monotonic()
        for leaf in (hub.to_rome, hub.to_milan):
            nft(leaf.names.namespace, DEAF)
        await eventually(partial(ready, who, "plain"), {False}.__eq__)
        took = time.monotonic() - began
        assert await ready(who, "web") == {True}
        assert await trio.to_thread.run_sync(says, held)
        assert await said(who, "web", KEPT) == ("True", "NothingReached")
        found = await many(place, address, began + CUT - 4)
        print(f"silent leaves: not ready after {took:.2f} s; the last ones answered {found}")
        assert took < SLOW * STATED
        assert found
        assert found.keys() <= leaves
        # Now they are dead.
        run("ip", "-n", place, "link", "set", "wan", "down")
        held.settimeout(3 * CUT)
        with pytest.raises(ConnectionResetError):
            await trio.to_thread.run_sync(says, held)
        took = time.monotonic() - began
        print(f"a connection to one of them is cut after {took:.1f} s")
        assert took > CUT - 1
    await leads(place, plain, REFUSED)
    await leads(place, address, REFUSED)
    run("ip", "-n", place, "link", "set", "wan", "up")
    for leaf in (hub.to_rome, hub.to_milan):
        run("nft", "delete", "table", "inet", "deaf", namespace=leaf.names.namespace)
    await leads(place, plain, named(AT_MILAN))
    await leads(place, address, leaves)


async def pods_of_one_leaf_call_those_of_the_other(hub: Hub) -> None:
    """By the address that the Service has there, as long as all three agree."""
    rome, milan, own = hub.three.rome, hub.three.milan.member, hub.three.hub.member.id
    place = hub.three.rome.pod.namespace
    for one, other in ((rome.member, milan), (milan, rome.member)):
        await agree(one, f"{own}/{other.id}={await key(other)}")
    await exports(milan, "db", AT_MILAN)
    await leads(place, await address_of(rome.member, "db", milan.id), named(AT_MILAN))
    with dial(place, await address_of(rome.member, "db", milan.id)) as held:
        address = held.getpeername()[0]
        await agree(milan, None)
        await rome.member.gone(IMPORTS, "db", "shop")

        async def ended() -> bool:
            return await tries(place, address, ITS_PORT) == ""

        await eventually(ended)
        held.settimeout(1)

        async def cut_off() -> bool:
            try:
                return not await trio.to_thread.run_sync(says, held)
            except TimeoutError:
                return True

        await eventually(cut_off)
    await agree(milan, f"{own}/{rome.member.id}={await key(rome.member)}")
    await leads(place, await address_of(rome.member, "db", milan.id), named(AT_MILAN))


async def members_without_names_are_called_by_srv(hub: Hub, coredns: str, folder: Path) -> None:
    """The hub's by a tunnel, the other leaf's by way of the hub; each cluster finds its own."""
    rome, milan, own = hub.three.rome, hub.three.milan.member, hub.three.hub.member
    for who, ends in ((own, AT_HUB), (milan, AT_MILAN)):
        await export(who, f"10.244.0.{ends[0]}", "sql", clusterIP="None")
        await endpoints(who, "sql", ends)
    found: dict[tuple[str, int], set[str]] = {}
    kubeconfig = rome.member.cluster.kubeconfig
    with naming(rome.member.id, kubeconfig, coredns, folder, of_set=True) as port:

        async def all_found() -> bool:
            found.clear()
            found.update(await targets(port, "_http._tcp.sql.shop.svc.clusterset.local"))
            known = len(found) == len(AT_HUB) + len(AT_MILAN)
            return known and all(len(each) == 1 for each in found.values())

        await eventually(all_found)

    async def all_answer() -> bool:
        heard = set[str]()
        for (_, number), [address] in found.items():
            heard |= (await counted(rome.pod.namespace, address, 1, port=number)).keys()
        return heard == named(AT_HUB, AT_MILAN)

    await eventually(all_answer)
    assert (await backends(own, "sql"))[own.id].keys() == named(AT_HUB)


async def by_a_dead_hub_nobody_answers(hub: Hub) -> None:
    """New connections are refused at once, and answered when it is back."""
    rome, milan = hub.three.rome, hub.three.milan.member.id
    place = rome.pod.namespace
    address = await address_of(rome.member, "db", milan)
    began = time.monotonic()
    run("ip", "-n", hub.three.hub.node, "link", "set", "wan", "down")
    await eventually(partial(ready, rome.member, "db"), {False}.__eq__)
    took = time.monotonic() - began
    print(f"the hub is dead: not ready after {took:.2f} s")
    assert took < SLOW * STATED

    async def refused() -> bool:
        # The kernel tells a pod so only some times a second.
        try:
            await trio.to_thread.run_sync(ask, place, address, ITS_PORT)
        except OSError as error:
            return isinstance(error, ConnectionRefusedError)
        return False

    await eventually(refused)
    run("ip", "-n", hub.three.hub.node, "link", "set", "wan", "up")
    await leads(place, address, named(AT_MILAN))
