"""Floods of connections to the ports that joined networks add: shared 443, Liqo's proxy."""

import json
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES
from liqod.kube.selection import Selection
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.names import PROXY_PORT, PeerNames
from liqod.resources import CONFIGURATIONS, IPS, NETWORKS
from liqod.runtime.account import NODE_SHARES, PROXY, SHARED, SHARES
from tests.netns.lab import set_up, wire
from tests.simulated.borrower import eventually
from tests.simulated.daemon.crowding import FILES, Figures, figures_in
from tests.simulated.processes import Site, sites
from tests.testbed.netns import Networks, doorway

pytestmark = [pytest.mark.netns, pytest.mark.network]

HEALTH = 10271
NODE_HEALTH = 10273
CROWD = 300
ADDRESSES = {"rome": "172.31.0.1", "milan": "172.31.0.2"}
T = TypeVar("T")


@pytest.fixture
def places(networks: Networks) -> dict[str, str]:
    """A network namespace for each cluster's machine, with a cable between them."""
    found = {name: networks.make(name) for name in ADDRESSES}
    one, other = found.values()
    wire(one, "net0", other, "net0")
    for name, place in found.items():
        set_up(place, "net0", f"{ADDRESSES[name]}/24")
        networks.adopt(PeerNames(name, next(each for each in ADDRESSES if each != name)).namespace)
    return found


@asynccontextmanager
async def joined(folder: Path, places: dict[str, str]) -> AsyncIterator[tuple[Site, Site]]:
    """Rome borrows of milan, by a tunnel that comes to milan's port 443; each daemon is whole."""
    async with sites(folder, *ADDRESSES) as (rome, milan), AsyncExitStack() as doors:
        for site in (rome, milan):
            place = places[site.name]
            for each in (rome, milan):
                doors.enter_context(doorway(place, each.cluster.port))
            inside = ("nsenter", f"--net=/run/netns/{place}", "unshare", "--fork", "--kill-child")
            site.daemon.enter, site.daemon.files = inside, FILES
            site.daemon.machine_health = NODE_HEALTH
            site.daemon.settings = {
                "health": {"port": HEALTH},
                "handshake": {"port": 443 if site is milan else 6447},
                "network": {"advertise": [ADDRESSES[site.name]], "in_band": ["rome"]},
                "cluster": {"pod_cidrs": ["10.244.0.0/16"]},
            }
            await site.admin.create(ENDPOINT_SLICES, server_at(ADDRESSES[site.name]))
            await site.start()
            await eventually(partial(has_ranges, site))
        given = ("--remote-kubeconfig", str(milan.kubeconfig), "--tunnel", "websocket")
        assert "packets go from each to the other" in (await rome.liqod("peer", *given)).out
        yield rome, milan
        for site in (rome, milan):
            await site.stop()


async def has_ranges(site: Site) -> bool:
    """True if a cluster has the Networks of its ranges, which peers are notified of."""
    return len(await site.admin.list(NETWORKS, Selection("liqo"))) >= 3


def server_at(address: str) -> dict[str, Any]:
    """Where an API server says that it is: by loopback no peer finds it."""
    metadata = {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"kubernetes.io/service-name": "kubernetes"},
    }
    ports = [{"name": "https", "port": 6443, "protocol": "TCP"}]
    return {
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": ports,
    }


async def seen_at(rome: Site, milan: Site) -> str:
    """The address at which rome sees milan's API server."""
    found = await milan.admin.get(IPS, labels.API_SERVER_PROXY, "liqo")
    joined = await rome.admin.get(CONFIGURATIONS, "milan", "liqo-tenant-milan")
    own, alias = (
        ip_network(joined[part]["remote"]["cidr"]["external"][0]) for part in ("spec", "status")
    )
    shown = ip_address(found["status"]["ip"])
    assert shown in own
    return str(alias.network_address + (int(shown) - int(own.network_address)))


def _metrics(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), 10) as made:
        made.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        with made.makefile("rb") as file:
            return file.read().decode()


async def inside(place: str, function: Callable[[], T]) -> T:
    """The result of a function in a namespace."""
    return await trio.to_thread.run_sync(enter, place, function)


async def figures(place: str, face: str) -> Figures:
    """Returns the figures of a face in the metrics of the program there that has it."""
    port, shares = (NODE_HEALTH, NODE_SHARES) if face == PROXY else (HEALTH, SHARES)
    return figures_in(await inside(place, partial(_metrics, port)), face, shares)


def crowd(address: tuple[str, int], many: int) -> list[socket.socket]:
    """So many connections that say nothing."""
    made = [socket.socket() for _ in range(many)]
    for each in made:
        each.setblocking(False)
        each.connect_ex(address)
    return made


async def refused(place: str, face: str) -> Figures:
    """Waits for the first refusal at a face, and returns its figures."""
    for _ in range(200):
        shown = await figures(place, face)
        if shown.refused:
            return shown
        await trio.sleep(0.1)
    raise AssertionError(f"{face}: {shown}")


def standing(status: dict[str, Any]) -> tuple[str, str]:
    """The states of a peer's API server and of the network joined with it."""
    (peer,), conditions = status["peers"], status["detail"]["conditions"]
    (network,) = (each for each in conditions if each["type"] == "NetworkConnectionStatus")
    return peer["api"], network["status"]


async def test_crowds_at_port_443_and_at_the_proxy_take_their_part_alone(
    places: dict[str, str],
) -> None:
    with tempfile.TemporaryDirectory(prefix="liqod-") as made:
        async with joined(Path(made), places) as (rome, milan):
            crowds = {
                SHARED: (ADDRESSES["milan"], 443),
                PROXY: (await seen_at(rome, milan), PROXY_PORT),
            }
            for face, address in crowds.items():
                held = await inside(places["rome"], partial(crowd, address, CROWD))
                shown = await refused(places["milan"], face)
                assert shown.taken <= shown.of_one
                assert set(shown.refused) <= {"source", "full"}
                # Rome's daemon goes on with milan's, and the tunnel that shares the port.
                # Its API server is outside of these namespaces, so its webhook is a problem.
                ended = await rome.liqod("status", "milan", "-o", "json", check=False)
                assert standing(json.loads(ended.out)) == ("up", "Established")
                for each in held:
                    each.close()
            assert "Traceback" not in milan.daemon.tail(100_000)
