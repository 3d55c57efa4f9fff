"""Access opened to single peers: the API server, in the kernel and by Liqo's proxy, and no more.

Rome lets milan in; milan does not let rome in.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import trio

from liqod.kube.http import proxies
from liqod.kube.http.wire import SocketWire, Wire
from liqod.network.connectproxy import ConnectProxy, ProxyTimings
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.entrances import ServerEntrance, of_server
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.names import PROXY_PORT, SERVER_PORT
from liqod.network.dataplane.peerplan import plan
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.runtime.connectionlimit import ConnectionLimiter
from tests.netns import lab as labs
from tests.netns.lab import Lab, Pod, ask, echo, run

pytestmark = [pytest.mark.netns, pytest.mark.network]

R = TypeVar("R")

PORT = 7443
"""Of this cluster's API server."""
SHOWN = "10.70.0.1"
SEEN = "10.72.0.1"
"""Its alias, in this cluster and as milan sees it."""


@pytest.fixture(scope="module")
def lab(lab: Lab) -> Lab:
    """The clusters, with an entrance at rome."""
    opened(lab, labs.LAN_NODE)
    return lab


@pytest.fixture(scope="module")
def theirs(lab: Lab) -> Pod:
    """A pod of milan's."""
    return lab.milan.pod("pod", 7)


def opened(lab: Lab, host: str) -> None:
    """Rome's API server is there, and milan may reach it."""
    rome = lab.rome
    entrances = tuple(of_server(ServerEntrance(SHOWN, host, PORT)))
    ranges = msgspec.structs.replace(rome.ranges, entrances=entrances)
    rome.plan = plan(rome.names, ranges, "server", labs.MTU)
    assert rome.changes()
    assert rome.changes() == []


@pytest.mark.parametrize("where", ["node", "host"])
def test_the_peers_node_and_pods_reach_the_api_server(lab: Lab, theirs: Pod, where: str) -> None:
    """On the gateway's own node, as on a small cluster, and on another machine."""
    if where == "host":
        opened(lab, labs.LAN_HOST)
    try:
        with echo(getattr(lab.rome, where), PORT):
            expected = {"node": ("10.72.0.0", "10.71.0.7"), "host": (labs.LAN_NODE,) * 2}[where]
            assert ask(lab.milan.node, SEEN, SERVER_PORT) == expected[0]
            assert ask(theirs.namespace, SEEN, SERVER_PORT) == expected[1]
    finally:
        if where == "host":
            opened(lab, labs.LAN_NODE)


@pytest.mark.parametrize(
    ("address", "port", "kind"),
    [
        pytest.param(SEEN, PORT, "tcp", id="its own port"),
        pytest.param(SEEN, 22, "tcp", id="another port"),
        pytest.param(SEEN, 10250, "tcp", id="the kubelet"),
        pytest.param(SEEN, SERVER_PORT, "udp", id="another protocol"),
        pytest.param("10.72.0.2", SERVER_PORT, "tcp", id="another external address"),
        pytest.param("10.72.0.0", SERVER_PORT, "tcp", id="address of unknown sources"),
    ],
)
def test_nothing_else_of_the_node_is_reached(
    lab: Lab, theirs: Pod, address: str, port: int, kind: str
) -> None:
    before = lab.rome.dropped("strangers")
    with echo(lab.rome.node, port, kind), echo(lab.rome.host, port, kind):
        for place in (lab.milan.node, theirs.namespace):
            with pytest.raises(TimeoutError):
                ask(place, address, port, kind, timeout=0.4)
    assert lab.rome.dropped("strangers") >= before + 2


def test_the_pairs_end_is_reached_by_its_alias_alone(lab: Lab, theirs: Pod) -> None:
    """Where the proxy listens: not by its own address, and not at another port."""
    place = lab.milan.names.namespace
    before = lab.rome.dropped("strangers")
    run("nft", "flush", "ruleset", namespace=place)
    run("ip", "-n", place, "addr", "add", "10.244.0.9/32", "dev", "lo")
    way = ["via", "169.254.18.1", "dev", lab.milan.names.tunnel]
    run("ip", "-n", place, "route", "add", "default", *way)
    try:
        with echo(lab.rome.node, PROXY_PORT), echo(lab.rome.node, PORT):
            for target, port in (("169.254.19.1", PROXY_PORT), (labs.LAN_NODE, PORT)):
                with pytest.raises(TimeoutError):
                    ask(place, target, port, source="10.244.0.9", timeout=0.4)
    finally:
        run("ip", "-n", place, "route", "del", "default", *way)
        run("ip", "-n", place, "addr", "del", "10.244.0.9/32", "dev", "lo")
        run("nft", "delete", "table", "inet", "liqod", namespace=place, check=False)
        lab.milan.changes()
    assert lab.rome.dropped("strangers") > before


def test_what_was_let_in_is_cut_when_it_is_let_in_no_more(lab: Lab) -> None:
    """A watch lasts for ever: it ends with the setting, and not when the peer likes."""

    def listen() -> socket.socket:
        return socket.create_server((labs.LAN_NODE, PORT))

    def connect() -> socket.socket:
        return socket.create_connection((SEEN, SERVER_PORT), 3)

    with enter(lab.rome.node, listen) as listening, enter(lab.milan.node, connect) as near:
        far, _ = listening.accept()
        with far:
            for end, other in ((near, far), (far, near)):
                end.settimeout(0.5)
                other.send(b"?")
                assert end.recv(1) == b"?"
            rome = lab.rome
            rome.plan = plan(rome.names, rome.ranges, "server", labs.MTU)
            assert rome.changes()
            try:
                near.send(b"!")
                with pytest.raises(TimeoutError):
                    far.recv(1)
            finally:
                opened(lab, labs.LAN_NODE)
            assert far.recv(1) == b"!"


def test_who_does_not_let_in_is_not_reached(lab: Lab) -> None:
    before = lab.milan.dropped("strangers")
    with echo(lab.milan.node, PORT), echo(lab.milan.node, SERVER_PORT):
        for port in (SERVER_PORT, PROXY_PORT, PORT):
            with pytest.raises(TimeoutError):
                ask(lab.rome.node, SEEN, port, timeout=0.4)
    assert lab.milan.dropped("strangers") >= before + 3


async def test_liqos_proxy_is_served_through_the_tunnel_alone(
    lab: Lab, theirs: Pod, tmp_path: Path
) -> None:
    async def dial(place: str, address: str, port: int) -> Wire:
        return SocketWire(await connected(place, address, port))

    async def at_home() -> trio.SocketStream:
        made = await connected(lab.rome.node, labs.LAN_NODE, PORT)
        return trio.SocketStream(trio.socket.from_stdlib_socket(made))

    kernel = KernelDatapath("rome", lab.rome.node)
    process = MachineProcess(kernel, tmp_path)
    timings = ProxyTimings(idle=900.0)
    proxy = ConnectProxy(
        *("https://rome.example:6443", at_home, process, kernel), ConnectionLimiter(8), timings
    )
    heals, heal = [trio.Event()], trio.Event()

    async def healed() -> None:
        await heals[-1].wait()

    with echo(lab.rome.node, PORT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(proxy.run, lab.rome.names, healed)
            for place in (lab.milan.node, theirs.namespace):
                await soon_through(partial(dial, place))
            # The node's pods and its neighbours have no way to it: it listens on the pair alone.
            for place in (lab.rome.host, lab.rome.node):
                with pytest.raises(ConnectionRefusedError):
                    await dial(place, labs.LAN_NODE, PROXY_PORT)
            # Somebody deletes the pair; the daemon puts it back, and the proxy hears again.
            run("ip", "-n", lab.rome.node, "link", "delete", lab.rome.names.veth)
            assert lab.rome.changes()
            heal, heals[0] = heals[0], heal
            heal.set()
            await soon_through(partial(dial, lab.milan.node))
            nursery.cancel_scope.cancel()
    await process.end()


async def connected(place: str, address: str, port: int) -> socket.socket:
    """A connection from a namespace."""
    return await inside(place, partial(socket.create_connection, (address, port), 3))


async def soon_through(dial: Callable[[str, int], object]) -> None:
    """The same, as soon as it listens."""
    with trio.fail_after(5):
        while True:
            try:
                return await through(dial)
            except OSError:
                await trio.sleep(0.05)


async def through(dial: Callable[[str, int], object]) -> None:
    """Somebody is led to the API server by the proxy."""
    way = proxies.through(dial, f"http://{SEEN}:{PROXY_PORT}")  # type: ignore[arg-type]
    wire = await way("rome.example", 6443)
    await wire.send(b"?")
    assert (await wire.receive()).decode() == labs.LAN_NODE
    wire.close()


async def inside(place: str, function: Callable[[], R]) -> R:
    return await trio.to_thread.run_sync(partial(enter, place, function))
