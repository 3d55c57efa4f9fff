"""The answer about a Service's endpoints at peers, and its text."""

import re
from pathlib import Path

from liqod.model.crossing.thirdclusters import ThirdCluster
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.model.view.serviceways import (
    OwnerAnswer,
    ServiceEndpoints,
    service_ways,
    ways_text,
)

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "explain.md"


def seen(number):
    theirs = ClusterCidrs(pod=("10.244.0.0/16",))
    return PeerRanges(peer=theirs, seen=ClusterCidrs(pod=(f"10.{number}.0.0/16",)))


NODES = {
    "milan": ThirdCluster("milan", "tunnel", seen(71)),
    "turin": ThirdCluster("turin", "tunnel", seen(72)),
}
MAPPED = {"turin": "shop-rome", "milan": "shop-rome"}


def endpoint(address, node, *, ready=True):
    return {"addresses": [address], "nodeName": node, "conditions": {"ready": ready}}


ENDPOINTS = (
    endpoint("10.10.0.5", "worker-1"),
    endpoint("10.10.0.6", "worker-2"),
    endpoint("10.71.0.5", "milan"),
    endpoint("10.72.0.5", "turin", ready=False),
)


def about(*, asked=True, **more):
    return ServiceEndpoints("shop", "web", asked, ENDPOINTS, NODES, MAPPED, **more)


def test_the_page_shows_what_is_printed():
    said = {
        "turin": "at turin: endpoints at milan: this cluster has joined no network with milan "
        "(2026-11-29T14:20:00Z)"
    }
    text = "\n".join(ways_text(service_ways(about(said=said))))
    blocks = re.findall(r"```text\n(.*?)\n```", PAGE.read_text(), re.DOTALL)
    assert text in blocks


def test_what_is_told_by_no_way_has_its_reason():
    milan, turin = service_ways(about(asked=False)).readers
    own, home, third = milan.owners
    assert (own, home) == (OwnerAnswer("milan", 1, 1), OwnerAnswer("", 2, 2))
    assert (third.cluster, third.total, third.ready, third.direct, third.by_way) == (
        *("turin", 1, 0),
        *(0, 0),
    )
    assert "liqo.io/use-direct-connections" in third.why
    assert [each.cluster for each in turin.owners] == ["turin", "", "milan"]


def test_a_way_through_this_cluster_is_of_one_reader():
    transits = {("milan", "turin", "10.72.0.5"): "10.70.0.9"}
    milan, turin = service_ways(about(asked=False, transits=transits)).readers
    assert (milan.owners[2].by_way, milan.owners[2].why) == (1, "")
    assert turin.owners[2].by_way == 0
    text = "\n".join(ways_text(service_ways(about(asked=False, transits=transits))))
    assert "turin: 0 of 1 endpoint ready; 1 through this cluster" in text
    assert "not told: the Service has no annotation" in text


def test_a_service_of_a_namespace_that_no_peer_has():
    found = service_ways(ServiceEndpoints("shop", "web", False, ()))
    assert list(ways_text(found)) == [
        "shop/web: 0 of 0 endpoints ready",
        "  no peer has its namespace",
    ]
