"""Two clusters of one node in network namespaces: pods by the CNI's own plugin, a veth as tunnel.

Everything has a name of its own and goes away with the lab. The ranges of both clusters are the
same, in both families.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.network.dataplane.kernel.apply import change
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.names import INSIDE_TABLE, PeerNames, Side
from liqod.network.dataplane.peerplan import PeerPlan, plan

MTU = 1340
PODS = ("10.244.0.0/16", "fd00:10:244::/64")
EXTERNAL = ("10.70.0.0/16", "fd00:10:70::/112")
SEEN = ClusterCidrs(("10.71.0.0/16", "fd00:10:71::/64"), ("10.72.0.0/16", "fd00:10:72::/112"))
BRIDGE = "/usr/lib/cni/bridge"
LAN_NODE, LAN_HOST = "172.31.0.1", "172.31.0.9"
"""Of the node and of another machine on its network, which has a length of 24."""
LAN_NODE6, LAN_HOST6 = "fd00:31::1", "fd00:31::9"
"""The same in IPv6; its length is 64."""
LAN_OTHER, LAN_OTHER6 = "172.31.0.10", "fd00:31::10"
"""Further addresses of the other machine, which are lent unmasked."""
LENT = {
    "10.70.0.5": LAN_HOST,
    "10.70.0.7": LAN_OTHER,
    "fd00:10:70::5": LAN_HOST6,
    "fd00:10:70::7": LAN_OTHER6,
}


def run(*command: str, stdin: str = "", namespace: str = "", check: bool = True) -> str:
    """Runs a program, in a namespace; its output."""
    if namespace:
        command = ("nsenter", f"--net=/run/netns/{namespace}", *command)
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, (
        f"{' '.join(command)}: {done.stderr}{done.stdout}\n{stdin}"
    )
    return done.stdout


def make(name: str) -> None:
    """Makes a namespace, with its loopback device up."""
    run("ip", "netns", "add", name)
    run("ip", "-n", name, "link", "set", "lo", "up")


def bridge(namespace: str, *options: str) -> None:
    """Gives a namespace a bridge, by which others are on one network."""
    run(*f"ip -n {namespace} link add br0 up type bridge".split(), *options)


def plug(switch: str, port: str, node: str, link: str, *addresses: str, via: str = "") -> None:
    """Leads an interface of a node's to a port of a bridge."""
    wire(switch, port, node, link)
    run("ip", "-n", switch, "link", "set", port, "master", "br0", "up")
    set_up(node, link, *addresses, via=via)


def wire(one: str, link: str, other: str, far: str) -> None:
    """Makes a pair of interfaces, one in each of two namespaces."""
    run(*f"ip -n {one} link add {link} type veth peer name {far} netns {other}".split())


def set_up(node: str, link: str, *addresses: str, via: str = "") -> None:
    """Sets an interface up with its addresses, and a default route where `via` names the router."""
    for each in addresses:
        # An address of IPv6 would be tried first, which takes a second.
        at_once = ("nodad",) if ":" in each else ()
        run("ip", "-n", node, "addr", "add", each, "dev", link, *at_once)
    run("ip", "-n", node, "link", "set", link, "up")
    if via:
        run("ip", "-n", node, "route", "add", "default", "via", via)


class Cluster:
    """One cluster of the lab: a node, which is its gateway, and pods.

    Attributes:
        node: the namespace of the node; ``host``, of a machine on its network.
        plan: the peer's data path, as applied.
    """

    def __init__(self, lab: Lab, own: str, peer: str, side: Side) -> None:
        self.names = PeerNames(own, peer)
        self.node = f"{own}-node"
        self.host = f"{own}-host"
        self._lab = lab
        self._own = own
        ranges = ClusterCidrs(PODS, EXTERNAL)
        unmasked = (LAN_OTHER, LAN_OTHER6)
        self.ranges = PeerRanges(own=ranges, peer=ranges, seen=SEEN, lent=LENT, unmasked=unmasked)
        self.plan: PeerPlan = plan(self.names, self.ranges, side, MTU)

    def make(self) -> None:
        """Makes the node and its network."""
        for name in (self.node, self.host, self.names.namespace):
            self._lab.make(name)
        wire(self.node, "lan0", self.host, "eth0")
        set_up(self.node, "lan0", f"{LAN_NODE}/24", f"{LAN_NODE6}/64")
        others = (f"{LAN_HOST}/24", f"{LAN_OTHER}/24", f"{LAN_OTHER6}/64", f"{LAN_HOST6}/64")
        set_up(self.host, "eth0", *others)
        # A real node has a way to everywhere: what is not for us must not be taken for an alias.
        run("ip", "-n", self.node, "route", "add", "default", "via", LAN_HOST)

    def changes(self) -> list[str]:
        """Applies the plan; what had to be changed for that."""
        node, inside = self.plan.node, self.plan.inside
        done = (
            *enter(self.node, partial(change, node, self.plan.node_owned)),
            *enter(self.names.namespace, partial(change, inside, self.plan.inside_owned)),
        )
        return [each.text for each in done]

    def pod(self, name: str, last: int, *, node: str = "", network: int = 0) -> Pod:
        """A pod by the CNI's bridge plugin, masquerading as it does by default.

        Args:
            name: ends the name of its namespace.
            last: ends its addresses.
            node: the namespace of its node; empty for the gateway's.
            network: which of the cluster's ranges of a node it is in.
        """
        namespace = f"{self._own}-{name}"
        self._lab.make(namespace)
        folder = self._lab.folder / self._own
        folder.mkdir(exist_ok=True)
        networks = [f"10.244.{network}.", f"fd00:10:244:0:{network:x}::"]
        addresses = [str(ipaddress.ip_address(f"{each}{last:x}")) for each in networks]
        settings = {
            "cniVersion": "0.4.0", "name": "lab", "type": "bridge", "bridge": "cni0",
            "isGateway": True, "ipMasq": True, "mtu": 1500,
            "ipam": {
                "type": "static",
                "addresses": [
                    {"address": f"{addresses[0]}/24", "gateway": f"{networks[0]}1"},
                    {"address": f"{addresses[1]}/80", "gateway": f"{networks[1]}1"},
                ],
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
            },
        }  # fmt: skip
        environment = {
            "CNI_COMMAND": "ADD", "CNI_CONTAINERID": namespace, "CNI_IFNAME": "eth0",
            "CNI_NETNS": f"/run/netns/{namespace}", "CNI_PATH": str(Path(BRIDGE).parent),
        }  # fmt: skip
        variables = [f"{key}={value}" for key, value in environment.items()]
        run("env", *variables, BRIDGE, stdin=json.dumps(settings), namespace=node or self.node)
        return Pod(namespace, addresses[0], addresses[1])

    def dropped(self, counter: str) -> int:
        """How many packets a counter of the peer's namespace has."""
        return packets(self.names.namespace, INSIDE_TABLE, counter)

    def refused(self) -> int:
        """Packets from the peer that were for the node itself."""
        return packets(self.node, self.names.nftables, "strangers")


class Pod:
    """A pod: its namespace and its addresses in its own cluster."""

    def __init__(self, namespace: str, address: str, address6: str) -> None:
        self.namespace = namespace
        self.address = address
        self.address6 = address6


class Lab:
    """Both clusters, with overlapping ranges, their gateways joined by a veth as tunnel.

    Args:
        folder: for files.
        word: begins the names of this lab's namespaces.
    """

    def __init__(self, folder: Path, word: str) -> None:
        self.folder = folder
        self._made: list[str] = []
        self.rome = Cluster(self, f"{word}-rome", f"{word}-milan", "server")
        self.milan = Cluster(self, f"{word}-milan", f"{word}-rome", "client")

    def join(self) -> None:
        """Makes all of it; what was made goes by :meth:`close` also where this fails."""
        for cluster in (self.rome, self.milan):
            cluster.make()
        self.join_made()

    def join_made(self) -> None:
        """Joins both, once they are made."""
        one, other = self.rome.names, self.milan.names
        wire(one.namespace, one.tunnel, other.namespace, other.tunnel)
        self.rome.changes()
        self.milan.changes()

    def make(self, name: str) -> None:
        """Makes a namespace that goes away with the lab."""
        make(name)
        self._made.append(name)

    def close(self) -> None:
        """Takes all namespaces away."""
        for name in self._made:
            run("ip", "netns", "del", name)


@contextlib.contextmanager
def lab(folder: Path) -> Iterator[Lab]:
    """A lab for the length of the block."""
    made = Lab(folder, f"lab{os.getpid()}")
    try:
        made.join()
        yield made
    finally:
        made.close()


def possible() -> str:
    """Returns the requirement that this machine does not meet; empty if it meets all."""
    if os.geteuid():
        return "needs root"
    if not Path(BRIDGE).exists():
        return f"needs {BRIDGE} (containernetworking-plugins)"
    done = subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False)
    return "" if done.returncode == 0 else "network namespaces cannot be made"


def packets(namespace: str, table: str, counter: str) -> int:
    """How many packets a counter of a table has."""
    command = ("nft", "-j", "list", "counter", *table.split(), counter)
    found = json.loads(run(*command, namespace=namespace))
    return int(*(each["counter"]["packets"] for each in found["nftables"] if "counter" in each))


def ask(
    namespace: str,
    address: str,
    port: int,
    kind: str = "tcp",
    *,
    source: str = "",
    timeout: float = 3,
) -> str:
    """Asks an :func:`echo`, and returns its answer: the source address that it observed.

    Raises:
        OSError: nothing answers; which error is part of the answer.
    """

    def work() -> str:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        how = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
        with socket.socket(family, how) as made:
            made.settimeout(timeout)
            if source:
                made.bind((source, 0))
            made.connect((address, port))
            made.send(b"?")
            return made.recv(100).decode()

    return enter(namespace, work)


@contextlib.contextmanager
def echo(namespace: str, port: int, kind: str = "tcp") -> Iterator[None]:
    """Something that answers with the address from which it was asked."""

    def opened() -> socket.socket:
        how = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
        made = socket.socket(socket.AF_INET6, how)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind(("::", port))
        if kind == "tcp":
            made.listen()
        return made

    listening = enter(namespace, opened)

    def serve() -> None:
        with contextlib.suppress(OSError, TypeError):
            while True:
                if kind == "udp":
                    _, peer = listening.recvfrom(100)
                    listening.sendto(_plain(peer[0]), peer)
                    continue
                connection, peer = listening.accept()
                with connection:
                    connection.recv(100)
                    connection.send(_plain(peer[0]))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(0.2)


def _plain(address: str) -> bytes:
    return address.removeprefix("::ffff:").encode()


def ping(
    namespace: str,
    address: str,
    *,
    size: int = 56,
    ttl: int = 64,
    timeout: float = 2,
    source: str = "",
) -> str:
    """Sends an echo request that may not be split, and returns ``reply from …`` or an error.

    An error has its type and code, and where it names one the MTU.
    """
    six = ":" in address
    token = os.urandom(4)

    def work() -> str:
        family, protocol = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if six else (socket.AF_INET, 1)
        with socket.socket(family, socket.SOCK_RAW, protocol) as made:
            level = socket.IPPROTO_IPV6 if six else socket.IPPROTO_IP
            made.setsockopt(level, socket.IPV6_UNICAST_HOPS if six else socket.IP_TTL, ttl)
            # PMTUDISC_PROBE: what is too large for a route here is sent all the same.
            made.setsockopt(level, 23 if six else 10, 3)
            if source:
                made.bind((source, 0))
            kind = 128 if six else 8
            body = token + bytes(size - 4)
            head = struct.pack("!BBHHH", kind, 0, 0, 7, 1)
            head = struct.pack("!BBHHH", kind, 0, checksum(head + body), 7, 1)
            deadline = time.monotonic() + timeout
            made.sendto(head + body, (address, 0))
            while (left := deadline - time.monotonic()) > 0:
                made.settimeout(left)
                try:
                    packet, origin = made.recvfrom(65536)
                except TimeoutError:
                    break
                icmp = packet if six else packet[(packet[0] & 15) * 4 :]
                if (token not in icmp and icmp[0] not in (2, 3, 11)) or icmp[0] == kind:
                    continue
                if icmp[0] in (0, 129):
                    return f"reply from {origin[0]}"
                mtu = struct.unpack("!HH" if not six else "!I", icmp[4:8])[-1]
                return f"{icmp[0]}/{icmp[1]} from {origin[0]} mtu {mtu}"
        return "nothing"

    return enter(namespace, work)


def checksum(data: bytes) -> int:
    """The internet's, of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    total += total >> 16
    return ~total & 0xFFFF
