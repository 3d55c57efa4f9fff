"""Services of the set as pods call them: by name, from both clusters, and whom kube-proxy leads
connections to, counted: near first, shares, and the last ones."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from math import sqrt
from typing import Any

import pytest

from liqod.model.clusterset.corefileedit import added
from liqod.model.crossing.preference import preference
from liqod.provider.workloads.endpointtranslation import translate
from liqod.resources.multicluster import SOURCE_CLUSTER
from tests.node.shop import ASK, BOTH, NAMESPACE, SERVER, THERE, Shop
from tests.testbed.api import wait_until
from tests.testbed.federation import Member
from tests.testbed.joined import Joined
from tests.testbed.workloads import core, deployment, deployments, group, service, slices
from tests.unit.model.clusterset.test_choosing import pods, published
from tests.unit.model.clusterset.values import export
from tests.unit.provider.test_endpointtranslation import KEEP, cross, down, shadow

pytestmark = pytest.mark.node

MARKET = "market"
KEY = "liqod.io/endpoint-preference"
API = "multicluster.x-k8s.io/v1beta1"
IMPORT = group(API, MARKET, "serviceimports", "web")
MANY, FEWER = 10_000, 2_000
"""Connections that are counted, where the machine makes them within :data:`LONGEST`."""
AT_ONCE, LONGEST = 500, 40.0
"""Connections of one command, and the seconds after which no further one is begun."""
ASKING = r"""
import collections, concurrent.futures, json, socket, sys
address, count, patience = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
def one(_):
    said = b""
    try:
        with socket.create_connection((address, 80), patience) as asked:
            asked.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
            while piece := asked.recv(4096):
                said += piece
    except ConnectionRefusedError:
        return "refused"
    except OSError:
        return ""
    return said.rpartition(b"\n\r\n")[2].decode().strip() or "?"
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(json.dumps(collections.Counter(pool.map(one, range(count)))))
"""
"""New connections, each with one request: how many each server answered; "" for none in time."""
FIND = r"""
busybox nslookup "$1" | busybox awk '/^Name/ { seen = 1 } seen && /^Address/ { print $NF }'
"""
ZONE = f"{MARKET}.svc.clusterset.local"
CLUSTERS = ("rome", "milan")
REFUSED = {"refused"}


@pytest.fixture(scope="module")
def market(clusters: Joined) -> Iterator[Joined]:
    """A namespace that both clusters share, and in it a Service of both."""
    for name, peer in (("rome", "milan"), ("milan", "rome")):
        member = clusters.members[name]
        marks = {"annotations": {"liqod.io/share-services": peer}}
        member.create("/api/v1/namespaces", {"metadata": {"name": MARKET, **marks}})
        made = deployment("web", 2)
        spec = made["spec"]["template"]["spec"]
        spec["containers"][0]["command"] = ["/bin/sh", "-c", SERVER]
        spec["terminationGracePeriodSeconds"] = 0
        member.create(deployments(MARKET), made)
        share(member, "web", **BOTH)
        zone = {"metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}}}
        member.patch(f"/api/v1/nodes/{name}", zone)
    yield clusters
    for member in clusters.members.values():
        member.api.call("DELETE", f"/api/v1/namespaces/{MARKET}")
        member.goes(f"/api/v1/namespaces/{MARKET}", 60)


def share(member: Member, name: str, **spec: Any) -> None:
    """A Service that a cluster exports."""
    made = service(name)
    made["spec"] |= spec
    member.create(core(MARKET, "services"), made)
    wish = {"apiVersion": API, "kind": "ServiceExport", "metadata": {"name": name}}
    member.create(group(API, MARKET, "serviceexports"), wish)


def imported(member: Member, name: str = "web") -> Any:
    """What an import says, once it has an address."""
    path = group(API, MARKET, "serviceimports", name)
    return member.comes_to(path, lambda one: one["spec"].get("ips"))["spec"]


def publish(member: Member, name: str, *manifests: dict[str, Any]) -> str:
    """A Service without a selector, with the endpoints of these EndpointSlices; its address."""
    wanted = service(name)
    del wanted["spec"]["selector"]
    made = member.create(core(MARKET, "services"), wanted)
    for number, each in enumerate(manifests):
        meta = {"name": f"{name}-{number}", "labels": {"kubernetes.io/service-name": name}}
        member.create(slices(MARKET), {**each, "metadata": meta})
    return str(made["spec"]["clusterIP"])


def asked(
    clusters: Joined, name: str, address: str, count: int = MANY, patience: float = 5.0
) -> dict[str, int]:
    """How many new connections from a cluster's node each server has answered; on a busy machine
    of fewer than were asked for."""
    began, found = time.monotonic(), Counter[str]()
    ask = (sys.executable, "-c", ASKING, address)
    while found.total() < count and time.monotonic() < began + LONGEST:
        few = min(AT_ONCE, count - found.total())
        found.update(json.loads(clusters.inside(name, *ask, str(few), str(patience))))
    print(f"connections to {address} in {time.monotonic() - began:.1f} s: {dict(found)}")
    return found


def is_share(found: Mapping[str, int], names: Collection[str], share: float) -> bool:
    """True if these servers have that part of the connections, each of which is led by chance: five
    standard deviations are taken for one."""
    total = sum(found.values())
    got = sum(count for each, count in found.items() if each in names)
    return abs(got - total * share) < 5 * sqrt(total * share * (1 - share))


def prefer(member: Member, namespace: str, wish: str | None) -> None:
    change = {"metadata": {"annotations": {KEY: wish}}}
    member.patch(core(namespace, "services", "web"), change)


def verdict(found: dict[str, Any]) -> tuple[str, str]:
    """Status and reason of what came of a wish."""
    said = found["status"].get("conditions", ())
    of_it = [each for each in said if each["type"] == "liqod.io/EndpointPreference"]
    return (of_it[0]["status"], of_it[0]["reason"]) if of_it else ("", "")


def servers(member: Member) -> set[str]:
    """The pods of a cluster that answer."""
    return member.ready_pods(MARKET)


@pytest.mark.clusterset
def test_connections_go_where_the_service_asks(market: Joined) -> None:
    rome, milan = market.members["rome"], market.members["milan"]
    for member in (rome, milan):
        wait_until(f"the pods of {member.name}", lambda m=member: len(servers(m)) == 2, 60)
    here, there = servers(rome), servers(milan)
    address = imported(rome)["ips"][0]

    def heard(wanted: set[str], count: int = 100) -> bool:
        return set(asked(market, "rome", address, count)) == wanted

    wait_until("all four", lambda: heard(here | there), 60)
    found = asked(market, "rome", address)
    print(f"nothing asked: {found}")
    assert found.keys() == here | there
    assert all(is_share(found, {each}, 1 / 4) for each in found)

    prefer(rome, MARKET, "own-first")
    rome.comes_to(IMPORT, lambda one: verdict(one) == ("True", "OwnFirst"))
    wait_until("its own first", lambda: heard(here), 20)
    found = asked(market, "rome", address)
    print(f"own first: {found}")
    assert set(found) == here

    # kube-proxy goes on to the others as soon as the last own endpoint is not published any more.
    rome.patch(deployments(MARKET, "web"), {"spec": {"replicas": 0}})
    wait_until("its own to end", lambda: not servers(rome), 20)
    began = time.monotonic()
    wait_until("the others", lambda: set(asked(market, "rome", address, 8, 0.5)) <= there, 10)
    print(f"the others answer {time.monotonic() - began:.2f} s after the last own pod has ended")
    assert set(asked(market, "rome", address, 1000)) == there

    rome.patch(deployments(MARKET, "web"), {"spec": {"replicas": 3}})
    wait_until("three of its own", lambda: len(servers(rome)) == 3, 30)
    here = servers(rome)
    wait_until("its own again", lambda: heard(here), 20)
    prefer(rome, MARKET, "milan=25")
    rome.comes_to(IMPORT, lambda one: verdict(one) == ("True", "Shares"))
    wait_until("one of the others", lambda: len(asked(market, "rome", address, 200)) == 4, 20)
    found = asked(market, "rome", address)
    print(f"a share of 25 %: {found}")
    assert not {"", *REFUSED} & found.keys()
    assert is_share(found, there, 1 / 4)


@pytest.mark.clusterset
def test_shares_of_two_peers_are_what_connections_get(market: Joined, shop: Shop) -> None:
    """What is published decides: other pods at milan stand for those of a third cluster."""
    rome = market.members["rome"]
    rome.patch(deployments(MARKET, "web"), {"spec": {"replicas": 3}})
    wait_until("three of its own", lambda: len(servers(rome)) == 3, 60)
    own = {name: str(rome.pods(MARKET)[name]["status"]["podIP"]) for name in servers(rome)}
    prefer(rome, MARKET, None)
    milans: list[str] = []

    def known() -> bool:
        chosen = slices(MARKET) + f"?labelSelector={SOURCE_CLUSTER.replace('/', '%2F')}%3Dmilan"
        told = [each for each in rome.api.get(chosen)["items"] if each["addressType"] == "IPv4"]
        milans[:] = [one["addresses"][0] for each in told for one in each["endpoints"]]
        return len(milans) == 2

    wait_until("both of milan's", known, 20)
    others = [name for name, pod in shop.pods("web").items() if pod["spec"]["nodeName"] == "milan"]
    third = {name: shop.addresses(name)[0] for name in others}
    assert len(third) == 2
    made, _ = published(
        preference({KEY: "milan=20,turin=40"}),
        export("rome", slices=pods(*own.values())),
        export("milan", 1, slices=pods(*milans)),
        export("turin", 2, slices=pods(*third.values())),
    )
    address = publish(rome, "split", *made)
    wait_until("five", lambda: len(asked(market, "rome", address, 100)) == 5, 20)
    found = asked(market, "rome", address, FEWER)
    print(f"shares of 20 and 40 %: {found}")
    for part, names in ((0.4, own), (0.2, servers(market.members["milan"])), (0.4, third)):
        assert is_share(found, names, part)


@pytest.mark.clusterset
def test_clients_at_a_peer_use_what_runs_there_first(market: Joined, shop: Shop) -> None:
    ours = {name for name, pod in shop.pods("web").items() if pod["spec"]["nodeName"] == "milan"}
    every = set(shop.pods("web"))
    assert ours
    assert every - ours
    address = shop.cluster_ips("milan", "web")[0]

    def heard(wanted: set[str]) -> bool:
        return set(asked(market, "milan", address, 100)) == wanted

    wait_until("all", lambda: heard(every), 60)
    prefer(shop.rome, NAMESPACE, "own-first")
    try:
        there = core(THERE, "services", "web")
        shop.milan.comes_to(there, lambda one: one["spec"].get("trafficDistribution"))
        wait_until("what runs there", lambda: heard(ours), 20)
        found = asked(market, "milan", address)
        print(f"at a peer, its own first: {found}")
        assert set(found) == ours
    finally:
        prefer(shop.rome, NAMESPACE, None)
    wait_until("all again", lambda: heard(every), 20)


@pytest.mark.clusterset
def test_own_endpoints_alone_answer_where_the_service_asks_and_nobody_else(market: Joined) -> None:
    rome = market.members["rome"]
    rome.patch(deployments(MARKET, "web"), {"spec": {"replicas": 2}})
    wait_until("two of its own", lambda: len(servers(rome)) == 2, 30)
    address, here = imported(rome)["ips"][0], servers(rome)
    prefer(rome, MARKET, "own-only")
    rome.comes_to(IMPORT, lambda one: verdict(one) == ("True", "OwnOnly"))
    wait_until("its own alone", lambda: set(asked(market, "rome", address, 100)) == here, 20)
    found = asked(market, "rome", address, FEWER)
    print(f"own only: {found}")
    assert set(found) == here
    rome.patch(deployments(MARKET, "web"), {"spec": {"replicas": 0}})
    wait_until("nobody", lambda: set(asked(market, "rome", address, 8, 0.5)) == REFUSED, 20)
    assert set(asked(market, "rome", address, 1000)) == REFUSED


@pytest.mark.clusterset
def test_the_last_endpoints_answer_where_the_service_asks_and_elsewhere_nobody(
    market: Joined,
) -> None:
    """As a provider publishes those of a consumer that nothing gets through to."""
    milan = market.members["milan"]
    wait_until("pods of milan", lambda: len(servers(milan)) == 2, 60)
    (last, other) = sorted(servers(milan))
    first, second = (
        {"addresses": [milan.pods(MARKET)[name]["status"]["podIP"]]} for name in (last, other)
    )
    kept = translate(shadow(first, annotations={KEEP: "true"}), down).manifest
    gone = translate(shadow(first), down).manifest
    at_hand = translate(shadow(second), cross).manifest
    keeps = publish(milan, "kept", kept)
    loses = publish(milan, "lost", gone)
    wait_until("nobody", lambda: set(asked(market, "milan", loses, 8)) == REFUSED, 20)
    wait_until("the last one", lambda: set(asked(market, "milan", keeps, 8)) == {last}, 20)
    assert set(asked(market, "milan", keeps, FEWER)) == {last}
    assert set(asked(market, "milan", loses, 1000)) == REFUSED
    # None of them is used as soon as there is another.
    meta = {"name": "kept-more", "labels": {"kubernetes.io/service-name": "kept"}}
    milan.create(slices(MARKET), {**at_hand, "metadata": meta})
    wait_until("the other", lambda: set(asked(market, "milan", keeps, 8)) == {other}, 20)
    assert set(asked(market, "milan", keeps, FEWER)) == {other}


def test_pods_of_both_clusters_call_each_other_by_the_names_of_the_set(market: Joined) -> None:
    """By CoreDNS with the Corefile that an installation makes; members by host and cluster."""
    rome = market.members["rome"]
    rome.patch(deployments(MARKET, "web"), {"spec": {"replicas": 2}})
    prefer(rome, MARKET, None)
    for name, member in market.members.items():
        corefile = market.clusters[name].folder / "Corefile"
        corefile.write_text(added(corefile.read_text()).text)
        market.clusters[name].restart("coredns")
        made = deployment("db", 2)
        spec = made["spec"]["template"]["spec"]
        says = SERVER.replace("hostname", f'echo "$(hostname) of {name}"')
        spec["containers"][0]["command"] = ["/bin/sh", "-c", says]
        spec["terminationGracePeriodSeconds"] = 0
        made["spec"] |= {"serviceName": "db", "podManagementPolicy": "Parallel"}
        member.create(group("apps/v1", MARKET, "statefulsets"), made)
        share(member, "db", **BOTH, clusterIP="None")
    every = set()
    for member in market.members.values():
        wait_until(f"pods of {member.name}", lambda m=member: len(servers(m)) == 4, 60)
        every |= {each for each in servers(member) if each.startswith("web")}
    for member in market.members.values():
        client = min(each for each in servers(member) if each.startswith("web"))
        calls_by_name(member, client, every)


def calls_by_name(member: Member, client: str, every: set[str]) -> None:
    """A pod calls each member by the only name it has in all clusters, and the Service's pods."""

    def say(*words: str) -> list[str]:
        within = ("exec", "--namespace", MARKET, client, "--", "sh", "-c")
        return member.plane.kubectl(*within, *words).splitlines()

    def find(name: str) -> list[str]:
        return say(FIND, "find", f"{name}.{ZONE}")

    def ask(addresses: list[str], port: str) -> list[str]:
        return say(ASK, "ask", *(word for each in addresses for word in (each, port)))

    families = imported(member)["ipFamilies"]
    assert set(families) == {"IPv4", "IPv6"}
    wait_until("all members", lambda: len(find("db")) == 4 * len(families), 60)
    for cluster in CLUSTERS:
        for host in ("db-0", "db-1"):
            found = find(f"{host}.{cluster}.db")
            assert len(found) == len(families)
            assert set(ask(found, "8080")) == {f"{host} of {cluster}"}
    assert find("db-0.turin.db") == []
    wait_until("the address", lambda: find("web") != [], 20)
    assert set(find("web")) == set(imported(member)["ips"])
    for address in find("web"):
        heard: set[str] = set()

        def all_heard(address: str = address, heard: set[str] = heard) -> bool:
            heard.update(ask([address] * 8, "80"))
            return heard >= every

        wait_until(f"all of them at {address}", all_heard, 60)
