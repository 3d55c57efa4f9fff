"""The endpoints that kube-proxy leads connections to, counted: near first, and shares."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.node.shop import NAMESPACE, SERVER, THERE, Shop
from tests.testbed.api import wait_until
from tests.testbed.federation import Member
from tests.testbed.joined import Joined
from tests.testbed.workloads import core, deployment, deployments, group, service

pytestmark = pytest.mark.node

MARKET = "market"
KEY = "liqod.io/endpoint-preference"
API = "multicluster.x-k8s.io/v1beta1"
IMPORT = group(API, MARKET, "serviceimports", "web")
MANY = 10_000
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
    except OSError:
        return ""
    return said.rpartition(b"\n\r\n")[2].decode().strip() or "?"
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(json.dumps(collections.Counter(pool.map(one, range(count)))))
"""
"""New connections, each with one request: how many each server answered; "" for none."""


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
        member.create(core(MARKET, "services"), service("web"))
        wish = {"apiVersion": API, "kind": "ServiceExport", "metadata": {"name": "web"}}
        member.create(group(API, MARKET, "serviceexports"), wish)
        zone = {"metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}}}
        member.patch(f"/api/v1/nodes/{name}", zone)
    yield clusters
    for member in clusters.members.values():
        member.api.call("DELETE", f"/api/v1/namespaces/{MARKET}")
        member.goes(f"/api/v1/namespaces/{MARKET}", 60)


def asked(
    clusters: Joined, name: str, address: str, count: int = MANY, patience: float = 5.0
) -> dict[str, int]:
    """How many new connections from a cluster's node each server has answered."""
    output = clusters.inside(name, sys.executable, "-c", ASKING, address, str(count), str(patience))
    return dict(json.loads(output))


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


def test_connections_go_where_the_service_asks(market: Joined) -> None:
    rome, milan = market.members["rome"], market.members["milan"]
    for member in (rome, milan):
        wait_until(f"the pods of {member.name}", lambda m=member: len(servers(m)) == 2, 60)
    here, there = servers(rome), servers(milan)
    address = rome.comes_to(IMPORT, lambda one: one["spec"].get("ips"))["spec"]["ips"][0]

    def heard(wanted: set[str], count: int = 100) -> bool:
        return set(asked(market, "rome", address, count)) == wanted

    wait_until("all four", lambda: heard(here | there), 60)
    found = asked(market, "rome", address)
    print(f"nothing asked: {found}")
    assert all(abs(each - MANY / 4) < MANY / 50 for each in found.values())

    prefer(rome, MARKET, "own-first")
    rome.comes_to(IMPORT, lambda one: verdict(one) == ("True", "OwnFirst"))
    wait_until("its own first", lambda: heard(here), 20)
    found = asked(market, "rome", address)
    print(f"own first: {found}")
    assert set(found) == here
    assert sum(found.values()) == MANY

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
    assert "" not in found
    share = sum(count for each, count in found.items() if each in there)
    assert abs(share - MANY / 4) < MANY / 50


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
        assert sum(found.values()) == MANY
    finally:
        prefer(shop.rome, NAMESPACE, None)
    wait_until("all again", lambda: heard(every), 20)
