"""The cost of a peer's network: its data path beside bare links, and the application of many.

The first table is of one TCP connection between two network namespaces: by a bare veth pair, by a
VXLAN over one as between this cluster's nodes, and by a chain of as many veth pairs and namespaces
as lie between two pods, which forward and have no rule. Then from pod to pod through both clusters'
gateways with all their rules, where a veth pair stands in for the tunnel: the cost of all but the
encryption, of which the chain is the part that no rule causes. Then each backend's tunnel alone,
over a veth pair, and from pod to pod by it; WireGuard is the newest userspace one, which is built
first. A way is compared with the tunnel alone, by the median of the rounds' ratios. Sender and
receiver are small Python programs; what they, the kernel for them, and the tunnel's programs use
of the processor is counted together. The rounds take turns, since other work changes a machine's
pace.

The second is of the plans of many peers applied at once in the kernel of this machine: time,
processor of the daemon and of `nft`, memory; then once more, when nothing is to be done, and at
rest.

Needs root, and Debian's containernetworking-plugins for the pods.
"""

from __future__ import annotations

import argparse
import os
import resource
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import trio

from benchmarks import tunnels
from benchmarks.report import Report
from benchmarks.stage import run
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.network.cleaning import end_tunnels
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.kernel import namespaces
from liqod.network.dataplane.names import PeerNames
from liqod.network.dataplane.peerplan import PeerPlan, plan
from liqod.plugins.providers import TUNNEL_ADDRESSES
from tests.netns import lab as labs
from tests.testbed.errors import Unavailable
from tests.testbed.netns import Networks, inside

PORT = 5201
CHUNK = 1 << 18
BARE = "bare veth"
CHAIN = "chain of five, forwarding alone"
TRIPS = 2000
REST = 5.0
"""Seconds at rest over which the processor is read."""
SETTLES = 3.0
"""Seconds until what many applications have stirred is over."""
OWN = ClusterCidrs(("10.244.0.0/16",), ("10.70.0.0/16",))
THEIRS = ClusterCidrs(("10.244.0.0/16",), ("10.70.3.0/24",))

RECEIVER = """
import socket, resource
listener = socket.create_server(("", {port}))
print("listens", flush=True)
came, _ = listener.accept()
came.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for _ in range({trips}):
    came.sendall(came.recv(1))
space, total = bytearray({chunk}), 0
while size := came.recv_into(space):
    total += size
used = resource.getrusage(resource.RUSAGE_SELF)
print(total, used.ru_utime + used.ru_stime, flush=True)
"""
SENDER = """
import resource, socket, statistics, sys, time
to = socket.create_connection((sys.argv[1], {port}), timeout=10)
to.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
trips = []
for _ in range({trips}):
    began = time.perf_counter()
    to.sendall(b"?")
    to.recv(1)
    trips.append(time.perf_counter() - began)
data, began = bytes({chunk}), time.perf_counter()
while time.perf_counter() < began + {seconds}:
    to.sendall(data)
took = time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_SELF)
print(statistics.median(trips), took, used.ru_utime + used.ru_stime)
"""


def arguments() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.network",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--peers", type=int, default=128, help="whose plans are applied at once")
    made.add_argument("--rounds", type=int, default=5, help="of the connections")
    made.add_argument("--seconds", type=float, default=2.0, help="of each connection")
    made.add_argument("--json", metavar="FILE", help="write every figure there too")
    made.set_defaults(embedded=True)
    return made


def connection(sender: str, receiver: str, address: str, seconds: float) -> tuple[float, ...]:
    """Gbit/s, ms of a round trip, and seconds of processor per Gbit."""
    words = {"port": PORT, "trips": TRIPS, "chunk": CHUNK, "seconds": seconds}
    listening = subprocess.Popen(
        [*_in(receiver), sys.executable, "-c", RECEIVER.format(**words)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with listening as there:
        assert there.stdout is not None
        there.stdout.readline()
        command = [*_in(sender), sys.executable, "-c", SENDER.format(**words), address]
        here = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        came = there.stdout.readline().split()
    trip, took, used = map(float, here)
    gigabits = 8 * int(came[0]) / 1e9
    return gigabits / took, 1000 * trip, (used + float(came[1])) / gigabits


class Route(NamedTuple):
    """The path of one connection.

    Attributes:
        sender, receiver: their namespaces.
        address: of the receiver, as the sender sees it.
        carriers: process ids of the programs that carry its packets.
        beside: names of what it is measured beside.
    """

    sender: str
    receiver: str
    address: str
    carriers: tuple[int, ...] = ()
    beside: tuple[str, ...] = (BARE,)


def connections(chosen: argparse.Namespace, report: Report) -> None:
    """The table of connections."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as kept:
        routes = _routes(Path(folder), kept)
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name in routes}
        for _ in range(chosen.rounds):
            for name, route in routes.items():
                used = tunnels.spent(route.carriers)
                measured = connection(route.sender, route.receiver, route.address, chosen.seconds)
                rate, trip, ends = measured
                carried = (tunnels.spent(route.carriers) - used) / (rate * chosen.seconds)
                found[name].append((rate, trip, ends + carried))
        memory = {name: tunnels.resident(route.carriers) for name, route in routes.items()}
    report.rows.append(
        ("one TCP connection", "Gbit/s", "of", "RTT, ms", "more", "processor s/Gbit", "MiB")
    )
    middle = {
        name: [statistics.median(column) for column in zip(*rounds, strict=True)]
        for name, rounds in found.items()
    }
    for name, (rate, trip, used) in middle.items():
        # Round by round, since other work changes a machine's pace.
        parts = {
            beside: statistics.median(
                one[0] / other[0] for one, other in zip(found[name], found[beside], strict=True)
            )
            for beside in routes[name].beside
        }
        more = trip - middle[routes[name].beside[0]][1]
        of = ", ".join(f"{part:.2f} of {other}" for other, part in parts.items() if other != name)
        held = f"{memory[name]:.0f}" if routes[name].carriers else ""
        report.rows.append(
            (name, f"{rate:.2f}", of, f"{trip:.3f}", f"{more:+.3f}", f"{used:.3f}", held)
        )
        report.figures[name] = {
            "gbit_s": rate, "parts": parts, "rtt_ms": trip, "more_ms": more,
            "cpu_s_per_gbit": used, "mib": memory[name], "rounds": found[name],
        }  # fmt: skip


def _routes(folder: Path, kept: ExitStack) -> dict[str, Route]:
    """All that is measured, made; what ``kept`` closes takes it away."""
    networks = Networks()
    kept.callback(networks.destroy)
    one, other = _neighbours(networks)
    lab = kept.enter_context(labs.lab(folder))
    ours, theirs = lab.rome.pod("pod", 5), lab.milan.pod("same", 5)
    routes = {
        BARE: Route(one, other, "192.0.2.2"),
        "VXLAN over it": Route(one, other, "198.51.100.2"),
        CHAIN: _chain(networks),
        "pod to pod, all but encryption": Route(
            ours.namespace, theirs.namespace, "10.71.0.5", beside=(BARE, CHAIN)
        ),
    }
    for number, (name, (provider, settings)) in enumerate(tunnels.backends().items()):
        both = kept.enter_context(tunnels.alone(provider, settings, folder / f"alone{number}"))
        carriers = tuple(tunnels.carriers(both.server.underlay, both.client.underlay))
        address = TUNNEL_ADDRESSES["server"]
        alone = f"{name} alone"
        routes[alone] = Route(both.client.inside, both.server.inside, address, carriers)
        word = f"lab{os.getpid()}{'abc'[number]}"
        made = kept.enter_context(
            tunnels.joined(provider, settings, folder / f"joined{number}", word)
        )
        ours, theirs = made.rome.pod("pod", 5), made.milan.pod("same", 5)
        carriers = tuple(tunnels.carriers(made.rome.node, made.milan.node))
        routes[f"pod to pod, {name}"] = Route(
            ours.namespace, theirs.namespace, "10.71.0.5", carriers, (alone,)
        )
    return routes


def _neighbours(networks: Networks) -> tuple[str, str]:
    """Two namespaces joined by a veth pair, with a VXLAN over it."""
    one, other = networks.make("one"), networks.make("other")
    inside(one, f"ip link add eth0 type veth peer name eth0 netns {other}")
    for name, last, next_to in ((one, 1, 2), (other, 2, 1)):
        inside(name, f"ip address add 192.0.2.{last}/24 dev eth0")
        inside(name, "ip link set eth0 up")
        made = f"ip link add lqx type vxlan id 18 dstport 4790 local 192.0.2.{last}"
        inside(name, f"{made} remote 192.0.2.{next_to}")
        inside(name, f"ip address add 198.51.100.{last}/24 dev lqx")
        inside(name, "ip link set lqx mtu 1450 up")
    return one, other


def _chain(networks: Networks) -> Route:
    """As many namespaces as a packet passes between two pods, joined by veth pairs."""
    each = [networks.make(f"chain{number}") for number in range(6)]
    for number, (near, far) in enumerate(pairwise(each)):
        inside(near, f"ip link add out type veth peer name in netns {far}")
        for name, end, last in ((near, "out", 1), (far, "in", 2)):
            inside(name, f"ip address add 198.18.{number}.{last}/30 dev {end}")
            inside(name, f"ip link set {end} up")
    for number, name in enumerate(each):
        inside(name, "sysctl -qw net.ipv4.ip_forward=1")
        for other in range(len(each) - 1):
            if other > number:
                inside(name, f"ip route add 198.18.{other}.0/30 via 198.18.{number}.2")
            elif other < number - 1:
                inside(name, f"ip route add 198.18.{other}.0/30 via 198.18.{number - 1}.1")
    return Route(each[0], each[-1], "198.18.4.2")


async def applications(chosen: argparse.Namespace, report: Report) -> None:
    """The table of plans."""
    networks = Networks()
    node, own_id = networks.make("node"), f"bench-{secrets.token_hex(3)}"
    kernel = KernelDatapath(own_id, node)
    plans = [planned(PeerNames(own_id, f"peer-{number}"), number) for number in range(chosen.peers)]
    report.rows.append(())
    report.rows.append((f"{chosen.peers} peers", "s", "daemon, CPU s", "nft, CPU s", "MiB"))

    async def timed(what: str, work: Callable[[], Awaitable[object]]) -> None:
        used, began = _used(), time.perf_counter()
        await work()
        took = time.perf_counter() - began
        spent = [now - then for now, then in zip(_used(), used, strict=True)]
        cells = (f"{took:.2f}", f"{spent[0]:.2f}", f"{spent[1]:.2f}", f"{_resident():.1f}")
        report.rows.append((what, *cells))
        report.figures[what] = {"s": took, "cpu_s": spent[0], "nft_cpu_s": spent[1]}

    async def together(work: Callable[[PeerPlan], Awaitable[object]]) -> None:
        async with trio.open_nursery() as nursery:
            for each in plans:
                nursery.start_soon(work, each)

    async def attend(each: PeerPlan) -> None:
        while True:
            await kernel.wait_disturbed(each.names)

    async def remove(each: PeerPlan) -> None:
        await kernel.remove(each.names)

    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(kernel.run)
            for each in plans:
                await kernel.prepare(each.names)
                inside(each.names.namespace, f"ip tuntap add {each.names.tunnel} mode tun")
            await timed("the first", partial(kernel.apply, plans[0]))
            await timed("all, at once", partial(together, kernel.apply))
            await timed("again, nothing differs", partial(together, kernel.apply))
            for each in plans:
                nursery.start_soon(attend, each)
            await trio.sleep(SETTLES)
            await timed(f"{REST:.0f} s of rest, all watched", partial(trio.sleep, REST))
            await timed("all taken away", partial(together, remove))
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await end_tunnels(own_id, (), node)
        networks.destroy()


def planned(names: PeerNames, number: int) -> PeerPlan:
    """One of many peers, all with this cluster's own addresses."""
    high, low = divmod(number, 200)
    seen = ClusterCidrs((f"10.{low + 10}.0.0/16",), (f"172.{16 + high}.{low}.0/24",))
    return plan(names, PeerRanges(own=OWN, peer=THEIRS, seen=seen, lent={}), "server", 1340)


def _in(name: str) -> list[str]:
    return ["nsenter", f"--net={namespaces.path(name)}"]


def _used() -> tuple[float, float]:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def measure(chosen: argparse.Namespace) -> Report:
    """Both tables."""
    if (lacking := labs.possible()) != "":
        raise Unavailable(lacking)
    report = Report("the networks of peers, in this machine's kernel")
    connections(chosen, report)
    trio.run(applications, chosen, report)
    return report


def main() -> int:
    """Measure."""
    return run(measure, arguments())


if __name__ == "__main__":
    sys.exit(main())
