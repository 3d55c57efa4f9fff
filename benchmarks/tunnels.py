"""Tunnels for the benchmark of the network: one alone, and two clusters' pods joined by one.

Alone is what the backend itself gives: an interface on either side and nothing else. Joined is all
that a daemon makes around it, from a pod to a pod: routes, rules, filters and translation on both
gateways.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from liqod.network.dataplane.names import Side
from liqod.plugins.network.websocket import WEBSOCKET
from liqod.plugins.network.wireguard import WIREGUARD
from liqod.plugins.providers import (
    Place,
    Tunnel,
    TunnelProvider,
    TunnelServices,
    TunnelSpec,
)
from simulator.suites.gateways import Machine, network
from simulator.suites.tunnels import KEYS, MTU, Gateways, TunnelContract
from tests.netns.lab import Cluster, Lab, run
from tests.testbed import programs

WAN = "198.51.100.{}"


def backends() -> dict[str, tuple[TunnelProvider, dict[str, Any]]]:
    """Those that are measured, with their settings."""
    wireguard = {"program": str(programs.find_wireguard()), "kernel": False}
    return {"WireGuard": (WIREGUARD, wireguard), "websocket": (WEBSOCKET, {})}


@contextmanager
def alone(provider: TunnelProvider, settings: dict[str, Any], folder: Path) -> Iterator[Gateways]:
    """Two gateways with a tunnel between them."""
    folder.mkdir()
    made = type("_Alone", (TunnelContract,), {"provider": provider, "settings": settings})
    with network() as tag:
        both = Gateways(made(), tag, folder)

        async def down() -> None:
            for gateway in both.both:
                await both.build(gateway).down()

        try:
            trio.run(both.join)
            yield both
        finally:
            trio.run(down)


@contextmanager
def joined(
    provider: TunnelProvider, settings: dict[str, Any], folder: Path, word: str
) -> Iterator[Lab]:
    """Two clusters of a node each, whose gateways are joined by a tunnel over a veth pair."""
    folder.mkdir()
    lab = Lab(folder, word)
    tunnels: list[Tunnel] = []
    try:
        clusters = (lab.rome, lab.milan)
        for cluster in clusters:
            cluster.make()
        one, other = (cluster.node for cluster in clusters)
        run(*f"ip -n {one} link add wan type veth peer name wan netns {other}".split())
        for number, node in enumerate((one, other), 1):
            run("ip", "-n", node, "addr", "add", f"{WAN.format(number)}/24", "dev", "wan")
            run("ip", "-n", node, "link", "set", "wan", "up")
        sides: tuple[Side, Side] = ("server", "client")
        for side, cluster in zip(sides, clusters, strict=True):
            tunnel = _tunnel(provider, settings, folder / f"{side}-tunnel", cluster)
            tunnels.append(tunnel)
            trio.run(partial(_up, tunnel, provider, side))
            cluster.changes()
        yield lab
    finally:
        for tunnel in tunnels:
            trio.run(tunnel.down)
        lab.close()


def _tunnel(
    provider: TunnelProvider, settings: dict[str, Any], folder: Path, cluster: Cluster
) -> Tunnel:
    folder.mkdir()
    names = cluster.names
    place = Place(interface=names.tunnel, namespace=names.namespace, underlay=cluster.node)
    services = TunnelServices(cluster_id=names.own_id, host=Machine(), folder=str(folder))
    return provider.build(msgspec.convert(settings, provider.config_type), services, place)


async def _up(tunnel: Tunnel, provider: TunnelProvider, side: Side) -> None:
    await tunnel.up(spec(provider, side, WAN.format(1)))


def spec(
    provider: TunnelProvider,
    side: Side,
    server: str,
    keys: Mapping[Side, tuple[bytes, bytes]] = KEYS,
) -> TunnelSpec:
    """The specification of one side's tunnel.

    Args:
        provider: the backend.
        side: the side.
        server: address of the server's gateway.
        keys: private and public keys of both sides.
    """
    other: Side = "client" if side == "server" else "server"
    serves = side == "server"
    return TunnelSpec(
        side=side,
        private_key=keys[side][0],
        public_key=keys[side][1],
        peer_public_key=keys[other][1],
        listen_port=provider.port if serves else 0,
        endpoints=() if serves else (f"{server}:{provider.port}",),
        mtu=MTU,
    )


def carriers(*namespaces: str) -> dict[int, str]:
    """The programs that carry packets in some namespaces, and what they are begun with."""
    found = {}
    for name in namespaces:
        for process in run("ip", "netns", "pids", name).split():
            words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
            found[int(process)] = b" ".join(words).decode()
    return found


def spent(processes: Iterable[int]) -> float:
    """Seconds of processor that programs have used."""
    total = 0
    for process in processes:
        # After the name, which is in brackets and may hold anything.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def resident(processes: Iterable[int]) -> float:
    """MiB of the largest of some programs."""
    sizes = [int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in processes]
    return max(sizes, default=0) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
