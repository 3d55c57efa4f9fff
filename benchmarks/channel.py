"""The cost of a channel to a peer's daemon: kept and idle, as the way of bytes, as that of a pod.

- resident memory of a process that listens, with so many channels kept and without;
- one stream through a channel beside a TCP connection with TLS: bytes a second in both directions,
  through the same two processes; TLS to the API server inside the channel is not counted;
- an offloaded pod, from its creation until the consumer shows it Running, on embedded clusters: the
  time, and the bytes of all connections to the provider, through the channel and directly.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import trio

from benchmarks.report import Aim, Report
from liqod.apimachinery.kinds import NAMESPACES, PODS
from liqod.handshake.protocol.messages import Accepted, Ask, Denied, Refused
from liqod.handshake.protocol.messages import Report as Told
from liqod.handshake.protocol.outputs import ExpectedPeer, LocalIdentity, VerifiedPeer
from liqod.handshake.transport.channel import StreamBackend
from liqod.handshake.transport.interfaces import OnPending
from liqod.handshake.transport.peerdialler import PeerDialler
from liqod.handshake.transport.peerlistener import PeerListener
from liqod.handshake.transport.peertls import dialler_context, listener_context
from liqod.identity import keys
from liqod.identity.clustercertificates import certificate_of
from liqod.kube.http.wire import TlsWire, Wire, connect, wire_of
from liqod.plugins import loader
from tests.simulated.borrower import offload
from tests.simulated.channels import apart
from tests.simulated.members import Member

MEMORY = Aim("500 kept channels, MiB more", "-", 60.0)
PIECE = bytes(1 << 16)


class Everybody:
    """Lets everybody in (:class:`liqod.handshake.transport.interfaces.BorrowRequestHandler`)."""

    async def on_ask(
        self, peer: VerifiedPeer, source: str, ask: Ask, pending: OnPending
    ) -> Accepted | Denied | Refused:
        """Nobody asks."""
        return Denied()

    async def on_attach(self, peer: VerifiedPeer) -> Refused | None:
        """Everybody is a tenant."""
        return None

    async def until_untrusted(self, peer: VerifiedPeer) -> str:
        """And stays one."""
        await trio.sleep_forever()
        return ""

    async def on_report(self, peer: VerifiedPeer, report: Told) -> None:
        """Nothing is kept."""


async def flood(stream: trio.SocketStream) -> None:
    """Send without end."""
    try:
        while True:
            await stream.send_all(PIECE)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        await stream.aclose()


async def listen() -> None:
    """The process that listens: it prints its ports, and then works until it is killed."""
    own = LocalIdentity(cluster_id="milan", private=keys.generate())
    context = listener_context(certificate_of(own.private))

    async def secured(stream: trio.SocketStream) -> None:
        wire = TlsWire(wire_of(stream), context, None)
        try:
            await wire.handshake()
            while True:
                await wire.send(PIECE)
        except Exception:
            wire.close()

    async with trio.open_nursery() as nursery:
        plain = await trio.open_tcp_listeners(0, host="127.0.0.1")
        tls = await trio.open_tcp_listeners(0, host="127.0.0.1")
        here = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=512)
        ports = [each[0].socket.getsockname()[1] for each in (here, tls, plain)]
        door: StreamBackend = partial(connect, "127.0.0.1", ports[2])
        nursery.start_soon(trio.serve_listeners, flood, plain)
        nursery.start_soon(trio.serve_listeners, secured, tls)
        nursery.start_soon(PeerListener(own, Everybody(), {"api": door}).run, here)
        print(*ports, flush=True)
        await trio.sleep_forever()


def resident(pid: int) -> int:
    """Bytes of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


async def drain(wire: Wire, seconds: float) -> float:
    """Bytes a second that come."""
    size = 0
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        size += len(await wire.receive())
    return size / passed


async def processes(chosen: argparse.Namespace) -> dict[str, float]:
    """Memory of the listener before and with the channels, bytes; bytes a second by each way."""
    command = [sys.executable, "-m", "benchmarks.channel", "--listen"]
    async with trio.open_nursery() as nursery:
        made = await nursery.start(
            partial(trio.run_process, command, stdout=subprocess.PIPE, check=False)
        )
        said = b""
        while not said.endswith(b"\n"):
            said += bytes(await made.stdout.receive_some())
        port, tls, _ = map(int, said.split())
        await trio.sleep(0.5)
        found = {"before": float(resident(made.pid))}
        async with AsyncExitStack() as stack:
            meetings = []
            for _ in range(chosen.channels):
                own = LocalIdentity(cluster_id="rome", private=keys.generate())
                meeting = PeerDialler(own, environ={}).meet([f"127.0.0.1:{port}"], ExpectedPeer())
                meetings.append(await stack.enter_async_context(meeting))
                await meetings[-1].attach()
            await trio.sleep(1.0)
            found["after"] = float(resident(made.pid))
            wire = TlsWire(await connect("127.0.0.1", tls), dialler_context(), "x")
            await wire.handshake()
            found["direct"] = await drain(wire, chosen.seconds)
            wire.close()
            stream = await meetings[0].dial("", 0)
            found["channel"] = await drain(stream, chosen.seconds)
            stream.close()
            made.kill()
        nursery.cancel_scope.cancel()
    return found


class Counted:
    """Passes connections on to ports of this machine, and counts their bytes."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.bytes = 0
        self._nursery = nursery

    async def front(self, port: int) -> int:
        """The port that is put before a port."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self._nursery.start_soon(trio.serve_listeners, partial(self._pass_on, port), listeners)
        found: int = listeners[0].socket.getsockname()[1]
        return found

    async def _pass_on(self, port: int, stream: trio.SocketStream) -> None:
        there = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream, there, trio.open_nursery() as both:

            async def carry(source: trio.SocketStream, sink: trio.SocketStream) -> None:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    while data := await source.receive_some():
                        self.bytes += len(data)
                        await sink.send_all(data)
                both.cancel_scope.cancel()

            both.start_soon(carry, stream, there)
            both.start_soon(carry, there, stream)


async def pods(rome: Member, milan: Member, counted: Counted, count: int) -> dict[str, float]:
    """Offload so many pods, one after another: seconds of each (median), and bytes of each."""
    await offload(rome.admin, "shop")
    await milan.until(NAMESPACES, "shop-rome", None, bool)
    await pod(rome, "first")
    before = counted.bytes
    took = [await pod(rome, f"web-{each}") for each in range(count)]
    return {"seconds": statistics.median(took), "bytes": (counted.bytes - before) / count}


async def pod(rome: Member, name: str) -> float:
    """Seconds until a pod that is created is shown as running."""
    tolerated = [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}]
    containers = [{"name": "web", "image": "web"}]
    spec = {"nodeName": "milan", "containers": containers, "tolerations": tolerated}
    began = trio.current_time()
    await rome.admin.create(PODS, {"metadata": {"name": name}, "spec": spec}, "shop")
    stored = rome.cluster.registry.storage.of("pods")
    with trio.fail_after(60):
        while True:
            found = next((each for each in stored.items() if each.name == name), None)
            if found is not None and b'"phase":"Running"' in found.raw:
                return trio.current_time() - began
            await trio.sleep(0.001)


async def streams(chosen: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The same pods, directly and through a channel."""
    plugins = loader.load(sources=loader.built_in())
    found = {}
    for way in ("direct", "channel"):
        async with trio.open_nursery() as nursery:
            counted = Counted(nursery)
            async with apart(counted.front, plugins=plugins, nodes=1) as both:
                if way == "direct":
                    await both.milan.stop()
                    port = int(both.milan.cluster.server.rpartition(":")[2])
                    both.milan.advertise = f"https://127.0.0.1:{await counted.front(port)}"
                    await both.milan.start()
                    both.url = ""
                await both.peer()
                found[way] = await pods(both.rome, both.milan, counted, chosen.pods)
            nursery.cancel_scope.cancel()
    return found


def report(chosen: argparse.Namespace, cost: dict[str, float], way: Any) -> Report:
    """All of it."""
    made = Report("A channel to a peer's daemon", {"machine": f"{os.cpu_count()} cores"})
    more = (cost["after"] - cost["before"]) / (1 << 20)
    rates = [f"{cost[each] / (1 << 20):.0f}" for each in ("direct", "channel")]
    waits = [f"{each['seconds'] * 1000:.0f}" for each in way.values()]
    made.rows = [
        ("", "directly", "by the channel"),
        ("one stream, MiB/s", *rates),
        ("a pod until it is shown Running, ms", *waits),
        ("bytes of a pod, KiB", *(f"{way[each]['bytes'] / 1024:.1f}" for each in way)),
        (f"{chosen.channels} kept channels, MiB more", "", f"{more:.1f}"),
    ]
    made.aims = [(MEMORY, more * 500 / chosen.channels)]
    made.figures = {"processes": cost, "pods": way, "channels": chosen.channels}
    return made


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(prog="benchmarks.channel", description=__doc__)
    parser.add_argument("--channels", type=int, default=500, help="kept by one listener")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each stream")
    parser.add_argument("--pods", type=int, default=30, help="offloaded by each way")
    parser.add_argument("--json", default="", metavar="FILE")
    parser.add_argument("--embedded", action="store_true", help="as it always is")
    parser.add_argument("--listen", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.listen:
        trio.run(listen)
        return
    made = report(chosen, trio.run(processes, chosen), trio.run(streams, chosen))
    print(made.text())
    if chosen.json:
        made.write(chosen.json)


if __name__ == "__main__":
    main()
