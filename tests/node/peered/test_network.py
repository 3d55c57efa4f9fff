"""Pods of two clusters with the same addresses reach each other, on real kubelets."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_network
from urllib.parse import urlsplit

import pytest

from liqod.model.crossing.addresses import family as family_of
from liqod.model.network.ranges import ClusterCidrs, translate
from tests.netns.lab import echo
from tests.node.shop import NAMESPACE, REPLICAS, THERE, Shop, ips
from tests.testbed.api import wait_until
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Member
from tests.testbed.joined import OUTSIDE, Joined
from tests.testbed.node import node_pod
from tests.testbed.workloads import core

pytestmark = pytest.mark.node

PAIRS = (("rome", "milan"), ("milan", "rome"))
OUTSIDE_PORT = 9100
GETTING = """
import http.client, socket, ssl, statistics, sys, time
address, port, name, authority = sys.argv[1:]
tls = ssl.create_default_context(cafile=authority)
raw = socket.create_connection((address, int(port)), 5)
raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
asked = http.client.HTTPSConnection(name)
asked.sock = tls.wrap_socket(raw, server_hostname=name)
took = []
for _ in range(300):
    began = time.perf_counter()
    asked.request("GET", "/livez")
    answer = asked.getresponse()
    assert (answer.status, answer.read()) == (200, b"ok")
    took.append(time.perf_counter() - began)
print(1000 * statistics.median(took))
"""
"""One connection with TLS by the cluster's own name and authority, wherever it leads."""
IPS = "/apis/ipam.liqo.io/v1alpha1/namespaces"
CONFIGURATION = "/apis/networking.liqo.io/v1beta1/namespaces/liqo-tenant-rome/configurations/rome"
"""The Configuration at milan that holds rome's ranges."""
PING = ("busybox", "ping", "-W", "2")
SEND = """
busybox dd if=/bin/busybox of=/tmp/block bs={block} count=1 2>/dev/null
(
  while [ ! -e /tmp/enough ]; do cat /tmp/block; busybox usleep 20000; done |
    busybox tee /tmp/all | busybox nc -l -p 9000
  busybox md5sum /tmp/all > /tmp/sent
) > /dev/null 2>&1 &
"""
"""Sends blocks until it is enough, and says what all of it was."""
# Who has nothing to say must not say so: it would be taken for the end.
RECEIVE = "(busybox sleep 1000 | busybox nc {server} 9000 > /tmp/got) > /dev/null 2>&1 & true"


@pytest.fixture(scope="module")
def outside(clusters: Joined) -> Iterator[str]:
    """A machine beside rome's node that answers with the address that it sees; its namespace."""
    made = clusters.neighbour("rome")
    with echo(made, OUTSIDE_PORT):
        yield made


def test_networks_are_joined_by_peering(clusters: Joined) -> None:
    for name, peer in PAIRS:
        shown = clusters.members[name].liqod("network", "status", peer).stdout
        assert "Connected" in shown
        found = clusters.members[name].api.get(f"/apis/core.liqo.io/v1beta1/foreignclusters/{peer}")
        networking = found["status"]["modules"]["networking"]
        assert networking["enabled"] is True
        states = {each["type"]: each["status"] for each in networking["conditions"]}
        assert states["NetworkConnectionStatus"] == "Established"
        assert states["NetworkConfigurationStatus"] == "Ready"


def test_each_side_shows_how_the_other_sees_its_ranges(clusters: Joined) -> None:
    for name, peer in PAIRS:
        place = f"namespaces/liqo-tenant-{name}/configurations/{name}"
        path = f"/apis/networking.liqo.io/v1beta1/{place}"
        there = clusters.members[peer].api.get(path)
        theirs, aliases = there["spec"]["remote"]["cidr"], there["status"]["remote"]["cidr"]
        for kind in ("pod", "external"):
            pair = f"{theirs[kind][0]} as {aliases[kind][0]}"
            told = partial(own_ranges, clusters.members[name], peer)
            wait_until(f"{name} shows {pair}", lambda pair=pair, told=told: pair in told(), 5)


def own_ranges(member: Member, peer: str) -> str:
    """The line of them, as the daemon knows them."""
    assert member.daemon is not None
    socket = str(member.daemon.inspector)
    told = member.liqod("network", "status", peer, "--socket", socket).stdout
    return next(line for line in told.splitlines() if "own ranges" in line)


def test_every_pod_has_an_address_that_answers_here(clusters: Joined, shop: Shop) -> None:
    client = shop.one("rome")
    real = {name: ips(pod) for name, pod in shop.milan.pods(THERE).items()}
    assert len(real) == REPLICAS // 2 + 1
    for name in shop.pods():
        shown = shop.addresses(name)
        assert [family_of(each) for each in shown] == ["IPv4", "IPv6"]
        if name in real:
            # An alias, which keeps the host part.
            assert not set(shown) & set(real[name])
            assert shown[0].split(".")[2:] == real[name][0].split(".")[2:]
            assert shown[1].rpartition(":")[2] == real[name][1].rpartition(":")[2]
        for each in shown:
            said = shop.say(client, *PING, "-c", "2", "-i", "0.2", each)
            assert " 0% packet loss" in said, f"{name} at {each}: {said}"
    alias, alias6 = shop.addresses(shop.one("milan"))
    for each in (alias, alias6):
        assert " 0% packet loss" in shop.say(client, *PING, "-c", "2", "-s", "4000", each)


@pytest.mark.parametrize("place", ["rome", "milan"])
def test_a_service_answers_with_every_replica(shop: Shop, place: str) -> None:
    client, replicas = shop.one(place), set(shop.pods("web"))
    assert len(replicas) == REPLICAS
    addresses = shop.cluster_ips(place, "web")
    assert len(addresses) == 2
    for address in addresses:
        heard: set[str] = set()

        def all_heard(address: str = address, heard: set[str] = heard) -> bool:
            heard.update(shop.ask(client, [address] * 2 * REPLICAS, "80"))
            return heard >= replicas

        wait_until(f"all replicas at {address} of {place}", all_heard, 60)


@pytest.mark.network
def test_pods_of_a_statefulset_find_each_other_by_name(shop: Shop) -> None:
    places = {name: pod["spec"]["nodeName"] for name, pod in shop.pods("db").items()}
    assert set(places) == {"db-0", "db-1"}
    assert set(places.values()) == {"rome", "milan"}
    for one, other in (("db-0", "db-1"), ("db-1", "db-0")):
        name = f"{other}.db"
        wait_until(
            f"addresses of {name}", lambda one=one, name=name: len(shop.find(one, name)) == 2, 60
        )
        found = shop.find(one, name)
        if places[one] == "rome":
            assert found == sorted(shop.addresses(other))
        assert shop.ask(one, found) == [other, other]


def lend(shop: Shop, kind: str, address: str) -> str:
    """An IP for a host beside rome; the address under which milan reaches it."""
    name, path = f"outside-{kind.lower()}", f"{IPS}/{NAMESPACE}/ips"
    made = {"apiVersion": "ipam.liqo.io/v1alpha1", "kind": "IP", "metadata": {"name": name}}
    shop.rome.create(path, {**made, "spec": {"ip": address}})
    given = shop.rome.comes_to(f"{path}/{name}", lambda one: one.get("status", {}).get("ip"))
    told = shop.milan.api.get(CONFIGURATION)
    theirs, seen = (
        ClusterCidrs((), tuple(each["cidr"]["external"]))
        for each in (told["spec"]["remote"], told["status"]["remote"])
    )
    return str(translate(given["status"]["ip"], theirs, seen))


@pytest.mark.network
def test_a_host_outside_is_lent_and_behind_a_service(shop: Shop, outside: str) -> None:
    here, there = shop.one("rome"), shop.one("milan")
    lent = {family: lend(shop, family, address) for family, address in OUTSIDE.items()}
    node = {address.removesuffix("9") + "1" for address in OUTSIDE.values()}
    wait_until(
        "the host to see rome's node",
        lambda: set(shop.ask(there, lent.values(), str(OUTSIDE_PORT))) == node,
        40,
    )
    shop.outside("office", OUTSIDE, OUTSIDE_PORT)
    own = set(shop.addresses(here))
    for place, client, seen in (("rome", here, own), ("milan", there, node)):

        def answers(place: str = place, client: str = client, seen: set[str] = seen) -> bool:
            addresses = shop.cluster_ips(place, "office")
            return len(addresses) == 2 and set(shop.ask(client, addresses, "80")) == seen

        wait_until(f"the host behind a Service of {place}", answers, 40)
    # Unmasked it sees the pod itself, as rome sees it. It knows rome's node as the way there.
    for family in OUTSIDE:
        path = f"{IPS}/{NAMESPACE}/ips/outside-{family.lower()}"
        shop.rome.patch(path, {"spec": {"masquerade": False}})
    wait_until(
        "the host to see milan's pod",
        lambda: shop.ask(there, lent.values(), str(OUTSIDE_PORT)) == shop.addresses(there),
        40,
    )
    with pytest.raises(TestbedError, match="422"):
        lend(shop, "nonsense", "fd00::203::9")


@pytest.mark.network
def test_a_daemon_that_is_killed_loses_no_packet(clusters: Joined, shop: Shop) -> None:
    here, there = shop.one("rome"), shop.one("milan")
    pinged = "/tmp/pinged"
    alias = shop.addresses(there)[0]
    with pinging(shop, here, alias, pinged):
        for name, peer in PAIRS * 2:
            clusters.members[name].crash()
            clusters.members[name].daemon.start()
            wait_until(f"{name} to hear of {peer}", partial(connected, clusters, name, peer), 10)
    said = shop.say(here, "cat", pinged)
    [sent] = re.findall(r"(\d+) packets transmitted", said)
    assert int(sent) > 15, said
    answered = {int(each) for each in re.findall(r" seq=(\d+)", said)}
    # The last one may have been on its way.
    assert answered >= set(range(int(sent) - 1)), said


@contextmanager
def pinging(shop: Shop, pod: str, address: str, said: str) -> Iterator[None]:
    """Pings from a pod all the while, ten times a second, and writes down what came of it."""
    ping = " ".join((*PING, "-i", "0.1", address))
    shop.say(pod, "sh", "-c", f"{ping} > {said} 2>&1 & echo $! > {said}.pid")
    yield
    shop.say(pod, "sh", "-c", f"kill -INT $(cat {said}.pid); busybox sleep 0.3")


@pytest.mark.network
def test_a_download_outlives_a_restart_of_everything(clusters: Joined, shop: Shop) -> None:
    here, there = shop.one("rome"), shop.one("milan")
    block = 64 * 1024
    shop.say(there, "sh", "-c", SEND.format(block=block))
    shop.say(here, "sh", "-c", RECEIVE.format(server=shop.addresses(there)[1]))
    restarts = {
        name: pod["status"]["containerStatuses"][0]["containerID"]
        for name, pod in shop.pods().items()
    }
    for name, member in clusters.members.items():
        got = downloaded(shop, here)
        member.crash()
        member.daemon.start()
        for program in ("kube-proxy", "containerd", "kubelet"):
            clusters.clusters[name].restart(program)
        tunnel = clusters.inside(name, "pgrep", "-f", "wireguard.* -f ").split()
        assert len(tunnel) == 1
        clusters.inside(name, "kill", "-KILL", *tunnel)

        def more(got: int = got) -> bool:
            return downloaded(shop, here) > got + 20 * block

        wait_until(f"the download goes on after {name}", more, 30)
    wait_until(
        "milan's kubelet",
        lambda: shop.tried(there, "busybox", "touch", "/tmp/enough") is not None,
        20,
    )
    wait_until("the end", lambda: bool(shop.tried(there, "cat", "/tmp/sent")), 20)
    sent = shop.say(there, "cat", "/tmp/sent").split()[0]
    wait_until(
        "all of it", lambda: shop.say(here, "busybox", "md5sum", "/tmp/got").split()[0] == sent, 20
    )
    now = {
        name: pod["status"]["containerStatuses"][0]["containerID"]
        for name, pod in shop.pods().items()
    }
    assert now == restarts


def connected(clusters: Joined, name: str, peer: str) -> bool:
    """True if a cluster reports that its tunnel to a peer is connected."""
    return "Connected" in clusters.members[name].liqod("network", "status", peer).stdout


def downloaded(shop: Shop, pod: str) -> int:
    """Bytes so far; 0 while nobody can be asked."""
    return int(shop.tried(pod, "busybox", "stat", "-c", "%s", "/tmp/got") or 0)


def test_a_private_api_server_is_reached_in_band(clusters: Joined, shop: Shop) -> None:
    """Nothing but the tunnel leads to it, and pods are made there all the same."""
    rome, milan = shop.rome, shop.milan
    server = urlsplit(milan.plane.server)
    alias = in_band(rome, "milan")
    name, authority = str(server.hostname), str(milan.plane.folder / "pki" / "ca.crt")
    direct = getting(clusters, name, str(server.port), name, authority)
    through = getting(clusters, alias, "6443", name, authority)
    print(f"GET /livez: direct {direct:.2f} ms, in-band {through:.2f} ms")
    # The filter lets nothing else in, and rome's own has not let milan in.
    assert not connects(clusters, "rome", alias, "10250")
    assert not connects(clusters, "milan", in_band(milan, "rome"), "6443")

    wall = f"ip daddr {name} tcp dport {server.port} drop"
    clusters.inside("rome", "nft", "add table ip wall")
    clusters.inside("rome", "nft", "add chain ip wall out { type filter hook output priority 0; }")
    clusters.inside("rome", "nft", f"add rule ip wall out {wall}")
    try:
        assert not connects(clusters, "rome", name, str(server.port))
        wait_until("in-band", lambda: "reached in-band" in rome.daemon.log.read_text(), 30)
        late = node_pod("late")
        spec = late["spec"]
        assert isinstance(spec, dict)
        spec |= {
            "nodeSelector": {"kubernetes.io/hostname": "milan"},
            "tolerations": [{"operator": "Exists"}],
        }
        rome.create(core(NAMESPACE, "pods"), late)
        wait_until("a pod by way of it", lambda: "late" in rome.ready_pods(NAMESPACE), 60)
        assert "late" in milan.pods(THERE)
    finally:
        clusters.inside("rome", "nft", "delete table ip wall")


def in_band(member: Member, peer: str) -> str:
    """Where the peer's API server is looked for: the second address of its external range."""
    path = "/apis/networking.liqo.io/v1beta1/namespaces"
    found = member.api.get(f"{path}/liqo-tenant-{peer}/configurations/{peer}")
    return str(ip_network(found["status"]["remote"]["cidr"]["external"][0])[1])


def getting(clusters: Joined, address: str, port: str, name: str, authority: str) -> float:
    """Milliseconds of a small GET from rome's node, the median of many on one connection."""
    words = (sys.executable, "-I", "-c", GETTING, address, port, name, authority)
    return float(clusters.inside("rome", *words))


def connects(clusters: Joined, place: str, address: str, port: str) -> bool:
    """True if a server accepts a TCP connection at this address and port."""
    words = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"
    try:
        clusters.inside(place, sys.executable, "-I", "-c", words, address, port)
    except TestbedError:
        return False
    return True
