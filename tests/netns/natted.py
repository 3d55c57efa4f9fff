"""Three gateways: two behind NATs of their own, and one that both reach, by which they may go.

The NATs are the kernel's: a port of their own for each destination (``masquerade random``), and
nothing let in but answers from just there.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.network import ipam
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.names import PeerNames, Side
from liqod.procedures import kubeconfigpeering
from liqod.procedures.networkjoin import Joining
from liqod.procedures.networkobjects import NetworkOptions
from liqod.procedures.relaying import Relay
from tests.netns.grounds import Ground, ground
from tests.netns.lab import Cluster, Pod, bridge, plug, run, set_up, wire
from tests.netns.test_joined_clusters import SETTINGS, Site, keeps_ranges, machine_of
from tests.simulated.borrower import eventually
from tests.simulated.members import Member, members

HUB = "198.51.100.3"
NATS = {"r": "198.51.100.11", "m": "198.51.100.12"}
AT_HOME = {"r": "192.168.101", "m": "192.168.102"}
"""Networks behind the NATs; .1 is the NAT, .2 the gateway."""
NAT = """
table ip nat {
    chain out { type nat hook postrouting priority srcnat; oifname "wan" masquerade random; }
    chain through {
        type filter hook forward priority filter; policy drop;
        ct state established,related accept
        iifname "lan" accept
    }
}
"""
ALL_PACKETS = 3
"""``ETH_P_ALL``."""


class Natted(msgspec.Struct, frozen=True):
    """The three, and what is between them.

    Attributes:
        rome, milan, hub: what each has of its first peer: of milan, of rome, of rome.
        nats: namespaces of the NATs, by the letter that ends a cluster's id.
    """

    rome: Site
    milan: Site
    hub: Site
    nats: dict[str, str]

    @property
    def at_hub(self) -> tuple[str, ...]:
        """All namespaces at the hub through which its peers' packets go."""
        ends = (self.rome.member.id, self.milan.member.id)
        hub = self.hub.member.id
        return (self.hub.node, *(PeerNames(hub, end).namespace for end in ends))

    async def join(self, one: Site, other: Site, *, relayed: bool = False) -> Joining:
        """Join two networks; the gateway of the other is dialled."""
        user = from_kubeconfig(await other.member.peering_user(one.member))
        relay = Relay(self.hub.member.admin) if relayed else None
        joining = Joining(NetworkOptions(), one.member.progress, relay)
        async with Client(user) as remote:
            with trio.fail_after(60):
                await kubeconfigpeering.peer(
                    one.member.admin, remote, None, progress=one.member.progress, joining=joining
                )
        return joining


@asynccontextmanager
async def natted(program: str, folder: Path, settings: str, **more: Any) -> AsyncIterator[Natted]:
    """The three, not joined; ``{r}``, ``{m}`` and ``{h}`` in the settings are their ids."""
    async with ground(folder, "rmh") as made:
        lab, ids = made.lab, dict(zip("rmh", made.ids, strict=True))
        for letter, own in ids.items():
            settings = settings.replace(f"{{{letter}}}", own)
        sides: dict[str, Side] = {"r": "client", "m": "server", "h": "server"}
        clusters = {x: Cluster(lab, ids[x], ids["m" if x == "r" else "r"], sides[x]) for x in ids}
        nats = {letter: f"{made.word}{letter}-nat" for letter in NATS}
        _lay(made, {x: each.node for x, each in clusters.items()}, nats)
        pods = {x: clusters[x].pod("pod", last) for last, x in enumerate(ids, 5)}
        where = {"r": f"{AT_HOME['r']}.2", "m": f"{AT_HOME['m']}.2", "h": HUB}
        machines = {
            own: machine_of(own, clusters[x].node, where[x], program, made.short / own)
            for x, own in ids.items()
        }
        async with (
            members(
                *ids.values(), machines=machines, settings=SETTINGS + settings, **more
            ) as every,
            trio.open_nursery() as nursery,
        ):
            found = {member.id[-1]: member for member in every}
            for member in every:
                nursery.start_soon(ipam.run, member.context)
                await eventually(partial(keeps_ranges, member))
            yield Natted(**_sites(found, clusters, pods), nats=nats)
            nursery.cancel_scope.cancel()


def _sites(
    found: dict[str, Member], clusters: dict[str, Cluster], pods: dict[str, Pod]
) -> dict[str, Site]:
    return {
        name: Site(found[x], clusters[x].node, pods[x], clusters[x].names.peer_id)
        for name, x in (("rome", "r"), ("milan", "m"), ("hub", "h"))
    }


def _lay(made: Ground, nodes: dict[str, str], nats: dict[str, str]) -> None:
    """The internet, the NATs, and the nodes behind them."""
    inet = f"{made.word}-inet"
    for name in (inet, *nodes.values(), *nats.values()):
        made.lab.make(name)
    bridge(inet)
    plug(inet, "p0", nodes["h"], "wan", f"{HUB}/24")
    for port, (letter, nat) in enumerate(nats.items(), 1):
        plug(inet, f"p{port}", nat, "wan", f"{NATS[letter]}/24")
        wire(nat, "lan", nodes[letter], "wan")
        set_up(nat, "lan", f"{AT_HOME[letter]}.1/24")
        set_up(nodes[letter], "wan", f"{AT_HOME[letter]}.2/24", via=f"{AT_HOME[letter]}.1")
        run("sysctl", "-qw", "net.ipv4.ip_forward=1", namespace=nat)
        run("nft", "-f", "-", stdin=NAT, namespace=nat)


@contextlib.contextmanager
def captured(*places: str) -> Iterator[list[bytes]]:
    """All packets on all interfaces of some namespaces, as long as the block."""

    def opened() -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PACKETS))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        made.settimeout(0.1)
        return made

    sockets = [enter(place, opened) for place in places]
    found: list[bytes] = []
    done = threading.Event()

    def listen(made: socket.socket) -> None:
        while not done.is_set():
            with contextlib.suppress(TimeoutError):
                found.append(made.recv(65536))

    threads = [threading.Thread(target=listen, args=(made,), daemon=True) for made in sockets]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        done.set()
        for thread, made in zip(threads, sockets, strict=True):
            thread.join()
            made.close()
