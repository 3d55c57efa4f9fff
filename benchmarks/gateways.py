"""The cost of many websocket peers to a gateway, and how soon one is joined, and taken over.

The first table is of two gateways with 1 and with 32 tunnels by websocket between them: all that
their connections carry together within one time in which each of them flows, one connection for
each tunnel, and the memory of the programs that carry them. The second is of clusters with embedded
API servers whose nodes are network namespaces: seconds from the request to join two networks until
both sides say that they are joined, by WireGuard, and by websocket where no UDP passes; and the gap
in a flow of echo requests from pod to pod when the gateway of one of them is unplugged, and another
node follows.

Needs root, and Debian's containernetworking-plugins for the pods.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import trio
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from benchmarks import tunnels
from benchmarks.report import Report
from benchmarks.stage import run
from liqod.network.dataplane.kernel import namespaces
from liqod.network.dataplane.names import Side
from liqod.plugins.network.websocket import WEBSOCKET
from liqod.plugins.providers import TUNNEL_ADDRESSES, Place, Tunnel
from simulator.suites.gateways import UNDERLAY, Gateway, ip, network
from tests.netns import lab as labs
from tests.netns.flows import flowing
from tests.netns.lab import ping
from tests.netns.nodeprogram import NodeProgram
from tests.netns.nodes import Nodes, running
from tests.netns.test_failover import site
from tests.netns.test_joined_clusters import Site, two
from tests.simulated.borrower import eventually
from tests.simulated.network.test_networking import join
from tests.testbed import programs
from tests.testbed.errors import Unavailable
from tests.testbed.netns import nft

SIDES: tuple[Side, Side] = ("server", "client")
NO_UDP = (
    "table inet wall {\nchain c {\ntype filter hook input priority 0\n"
    "iifname wan meta l4proto udp drop\n}\n}\n"
)
PORT = 5201
WARM = 1.0
"""Seconds for which all connections flow before their bytes count."""

RECEIVER = f"""
import socket, sys, time
listener = socket.create_server(("", {PORT}))
print("listens", flush=True)
came, _ = listener.accept()
begins, ends = map(float, sys.stdin.readline().split())
space, counted, at = bytearray(1 << 16), 0, 0.0
while at < ends and (size := came.recv_into(space)):
    at = time.monotonic()
    if begins <= at < ends:
        counted += size
print(counted if at >= ends else 0, flush=True)
"""
"""Counts what it gets within a time. The clock is the same in all programs of a machine."""
SENDER = f"""
import socket, sys
to = socket.create_connection((sys.argv[1], {PORT}), timeout=10)
print("connected", flush=True)
sys.stdin.readline()
data = bytes(1 << 18)
try:
    while True:
        to.sendall(data)
except ConnectionError:
    pass
"""
"""Sends from when it is told until the receiver has ended."""


def arguments() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.gateways",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--peers", type=int, default=32, help="of a websocket each")
    made.add_argument("--rounds", type=int, default=5, help="of each figure")
    made.add_argument("--seconds", type=float, default=2.0, help="of the connections")
    made.add_argument("--json", metavar="FILE", help="write every figure there too")
    made.set_defaults(embedded=True)
    return made


def websockets(chosen: argparse.Namespace, report: Report) -> None:
    """The table of websocket peers."""
    report.rows.append(("peers by websocket", "Gbit/s", "MiB of the server", "MiB of the client"))
    for peers in (1, chosen.peers):
        with tempfile.TemporaryDirectory() as folder, network() as tag, ExitStack() as kept:
            both = [Gateway(side, tag, Path(folder)) for side in SIDES]
            places = kept.enter_context(_many(both, peers))
            rates = [_together(places, chosen.seconds) for _ in range(chosen.rounds)]
            sizes = [_memory(gateway) for gateway in both]
        rate = statistics.median(rates)
        report.rows.append((str(peers), f"{rate:.2f}", *(f"{size:.0f}" for size in sizes)))
        report.figures[f"websocket {peers}"] = {"gbit_s": rate, "mib": sizes, "rounds": rates}


@contextmanager
def _many(both: list[Gateway], peers: int) -> Iterator[list[dict[Side, str]]]:
    """Tunnels of several peers; the namespaces of both ends of each."""
    made: list[Tunnel] = []
    places: list[dict[Side, str]] = []
    try:
        for number in range(peers):
            keys = {side: _keys() for side in SIDES}
            spaces: dict[Side, str] = {}
            for gateway in both:
                spaces[gateway.side] = name = f"{gateway.inside}{number}"
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
                made.append(_built(gateway, name, number))
                spec = tunnels.spec(WEBSOCKET, gateway.side, UNDERLAY["server"], keys)
                trio.run(made[-1].up, spec)
                address = f"{TUNNEL_ADDRESSES[gateway.side]}/30"
                ip("-n", name, "addr", "replace", address, "dev", _interface(gateway, number))
            places.append(spaces)
        for spaces in places:
            _wait(spaces["client"])
        yield places
    finally:
        for tunnel in made:
            trio.run(tunnel.down)
        for each in places:
            for name in each.values():
                ip("netns", "delete", name)


def _interface(gateway: Gateway, number: int) -> str:
    return f"{gateway.place.interface}{number}"


def _keys() -> tuple[bytes, bytes]:
    made = X25519PrivateKey.generate()
    return made.private_bytes_raw(), made.public_key().public_bytes_raw()


def _built(gateway: Gateway, inside: str, number: int) -> Tunnel:
    place = Place(
        interface=_interface(gateway, number), namespace=inside, underlay=gateway.underlay
    )
    return WEBSOCKET.build(WEBSOCKET.config_type(), gateway.services, place)


def _wait(namespace: str) -> None:
    """Returns once the other end of a tunnel is reached."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if ping(namespace, TUNNEL_ADDRESSES["server"], timeout=0.3).startswith("reply"):
            return
    raise TimeoutError(f"the tunnel of {namespace} does not stand after 30 s")


def _together(places: list[dict[Side, str]], seconds: float) -> float:
    """Gbit/s of one connection by each tunnel, within one time in which all of them flow."""
    with ExitStack() as kept:
        begin = partial(_begun, kept)
        receivers = [begin(each["server"], RECEIVER) for each in places]
        senders = [begin(each["client"], SENDER, TUNNEL_ADDRESSES["server"]) for each in places]
        # Here no connection has sent anything, and below each goes on until its receiver's end.
        begins = time.monotonic() + WARM
        for each in (*receivers, *senders):
            _say(each, f"{begins} {begins + seconds}")
        counted = [int(_line(each) or 0) for each in receivers]
    if not all(counted):
        raise RuntimeError(f"{counted.count(0)} of {len(places)} connections did not flow")
    return 8 * sum(counted) / seconds / 1e9


def _begun(kept: ExitStack, namespace: str, program: str, *words: str) -> subprocess.Popen[str]:
    """A program in a namespace that is ready."""
    command = ["nsenter", f"--net={namespaces.path(namespace)}", sys.executable, "-c", program]
    pipe = subprocess.PIPE
    made = kept.enter_context(
        subprocess.Popen([*command, *words], stdin=pipe, stdout=pipe, text=True)
    )
    kept.callback(made.kill)
    if _line(made) == "":
        raise RuntimeError(f"a connection of {namespace} failed")
    return made


def _line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline()


def _say(program: subprocess.Popen[str], line: str) -> None:
    assert program.stdin is not None
    program.stdin.write(f"{line}\n")
    program.stdin.flush()


def _memory(gateway: Gateway) -> float:
    """MiB of all programs that carry a gateway's packets."""
    return sum(tunnels.resident((each,)) for each in tunnels.carriers(gateway.underlay))


async def _join(rome: Site, milan: Site) -> None:
    if (why := (await join(rome.member, milan.member)).without) != "":
        raise RuntimeError(why)


async def _part(rome: Site, milan: Site) -> None:
    await rome.member.unpeer(milan.member)
    await milan.member.unpeer(rome.member)


async def joining(rounds: int, *, udp: bool) -> list[float]:
    """Seconds from the request until both sides are joined."""
    program = str(programs.find_wireguard())
    settings = "[network]\nwebsocket = true\n"
    found = []
    with tempfile.TemporaryDirectory() as folder:
        async with two(program, Path(folder), settings) as (rome, milan):
            if not udp:
                for each in (rome, milan):
                    nft(each.node, NO_UDP)
            for _ in range(rounds):
                began = time.monotonic()
                await _join(rome, milan)
                found.append(time.monotonic() - began)
                await _part(rome, milan)

                async def clean() -> bool:
                    return not rome.left() and not milan.left()

                await eventually(clean, seconds=30)
    return found


async def takeovers(rounds: int) -> list[float]:
    """Seconds without an answer when the gateway is unplugged."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        program = str(programs.find_wireguard())
        async with (
            site(program, Path(folder)) as made,
            flowing(made.pod, made.target) as flow,
        ):
            await eventually(made.tells_of_peers)
            for number in range(rounds):
                gone, follows = made.nodes[number % 2], made.nodes[1 - number % 2]
                began = time.monotonic()
                gone.cut()
                await eventually(partial(made.is_gateway, follows.index))
                found.append(await flow.gets_well(began))
                gone.mend()
                await trio.sleep(3.0)
                await eventually(made.tells_of_peers)
    return found


async def parts() -> dict[str, float]:
    """MiB of each program on a gateway with one peer, and on another node."""
    found = {}
    program = str(programs.find_wireguard())
    made: dict[str, NodeProgram] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with two(program, Path(folder), programs=made) as (rome, milan):
            await _join(rome, milan)
            child = made["rome"].child
            assert child is not None
            found["liqod node, the gateway"] = tunnels.resident((child.pid,))
            carriers = tunnels.carriers(rome.node, rome.names.namespace)
            for process, line in carriers.items():
                if "wireguard" in line or "liqod.tunnel" in line:
                    name = "liqod tunnel" if "liqod.tunnel" in line else "WireGuard"
                    found[f"{name}, the gateway"] = tunnels.resident((process,))
            await _part(rome, milan)
    with tempfile.TemporaryDirectory() as folder, labs.lab(Path(folder)) as lab:
        async with running(Nodes(lab)) as nodes:
            other = nodes.start(1)
            await nodes.lead(0)
            await nodes.says(1, "GatewayReachable")
            found["liqod node, another node"] = tunnels.resident((other.pid,))
    return found


def measure(chosen: argparse.Namespace) -> Report:
    """All tables."""
    if (lacking := labs.possible()) != "":
        raise Unavailable(lacking)
    report = Report("A gateway's peers by websocket, joining, and takeover")
    websockets(chosen, report)
    times = {
        "joined by WireGuard": trio.run(partial(joining, chosen.rounds, udp=True)),
        "joined by websocket, no UDP": trio.run(partial(joining, chosen.rounds, udp=False)),
        "gap of an unplugged gateway": trio.run(takeovers, chosen.rounds),
    }
    report.rows.append(("", "", "", ""))
    report.rows.append(("seconds", "median", "least", "most"))
    for name, found in times.items():
        figures = (statistics.median(found), min(found), max(found))
        report.rows.append((name, *(f"{each:.2f}" for each in figures)))
        report.figures[name] = found
    report.rows += [("", "", "", ""), ("programs of a node", "MiB")]
    report.figures["parts"] = resident = trio.run(parts)
    report.rows += [(name, f"{size:.0f}") for name, size in resident.items()]
    return report


if __name__ == "__main__":
    sys.exit(run(measure, arguments()))
