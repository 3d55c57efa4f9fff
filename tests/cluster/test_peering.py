"""Peering on real control planes: every shape that two and three clusters can take.

The `clusters` and `peered` fixtures end by unpeering, and then assert that no cluster holds
anything it did not hold before.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import FOREIGN_CLUSTERS, SLICES, Clusters
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Member

pytestmark = pytest.mark.cluster


def foreign(member: Member, peer: str) -> dict[str, str]:
    """The role that a cluster shows for a peer, and the modules' roles."""
    found = member.api.get(f"{FOREIGN_CLUSTERS}/{peer}")
    return {"role": found["status"]["role"], "id": found["spec"]["clusterID"]}


def test_peers_one_way(clusters: Clusters) -> None:
    rome, milan = clusters.rome, clusters.milan
    clusters.peer(rome, milan, cpu="2", memory="4Gi", pods="20")

    node = rome.api.get("/api/v1/nodes/milan")
    assert rome.node_is_ready("milan")
    assert node["status"]["allocatable"]["pods"] == "20"
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] not in {0, 10250}
    assert foreign(rome, "milan") == {"role": "Provider", "id": "milan"}
    wait_until(
        "the role on the other side",
        lambda: foreign(milan, "rome") == {"role": "Consumer", "id": "rome"},
        40,
    )
    # Peering again changes nothing and says so by success.
    uid = node["metadata"]["uid"]
    clusters.peer(rome, milan, cpu="2", memory="4Gi", pods="20")
    assert rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"] == uid

    rome.liqod("unpeer", "milan", "--yes")
    assert not rome.api.exists("/api/v1/nodes/milan")


def test_peers_both_ways_at_once(clusters: Clusters) -> None:
    pairs = [(clusters.rome, clusters.milan), (clusters.milan, clusters.rome)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda pair: clusters.peer(*pair), pairs))
    assert clusters.rome.node_is_ready("milan")
    assert clusters.milan.node_is_ready("rome")
    for member, peer in ((clusters.rome, "milan"), (clusters.milan, "rome")):
        wait_until(
            "both roles",
            lambda member=member, peer=peer: foreign(member, peer)["role"] == "ConsumerAndProvider",
            40,
        )
    clusters.rome.liqod("unpeer", "milan", "--yes")
    assert not clusters.rome.api.exists("/api/v1/nodes/milan")


def test_one_consumer_has_two_providers(clusters: Clusters) -> None:
    clusters.peer(clusters.rome, clusters.milan)
    clusters.peer(clusters.rome, clusters.turin)
    assert clusters.rome.node_is_ready("milan")
    assert clusters.rome.node_is_ready("turin")

    clusters.rome.liqod("unpeer", "turin", "--yes")
    assert clusters.rome.node_is_ready("milan")
    assert not clusters.rome.api.exists("/api/v1/nodes/turin")


def test_one_provider_has_two_consumers(clusters: Clusters) -> None:
    clusters.peer(clusters.rome, clusters.milan)
    clusters.peer(clusters.turin, clusters.milan)
    assert clusters.rome.node_is_ready("milan")
    assert clusters.turin.node_is_ready("milan")
    assert clusters.milan.names("/apis/authentication.liqo.io/v1beta1/tenants") == {"rome", "turin"}

    # Either side may end it.
    clusters.milan.liqod("unpeer", "rome", "--yes")
    wait_until("the node to go", lambda: not clusters.rome.api.exists("/api/v1/nodes/milan"), 30)
    assert clusters.turin.node_is_ready("milan")


def test_a_peering_user_who_was_revoked_cannot_peer(clusters: Clusters) -> None:
    user = clusters.peering_user(clusters.rome, clusters.milan)
    clusters.milan.liqod("delete", "peering-user", "--consumer-cluster-id", "rome", "--yes")
    with pytest.raises(TestbedError, match="ended with"):
        clusters.rome.liqod("peer", "--remote-kubeconfig", str(user), timeout=60)


def identities(member: Member) -> set[str]:
    """The slices for which a cluster has an identity at milan."""
    path = "/apis/authentication.liqo.io/v1beta1/namespaces/liqo-tenant-milan/identities"
    found = member.api.get(path)["items"]
    return {each["metadata"]["name"] for each in found if each["spec"]["type"] == "ResourceSlice"}


def pods_granted(member: Member) -> dict[str, str]:
    """Returns the number of pods that milan grants to each of rome's users; each slice has one."""
    path = "/apis/offloading.liqo.io/v1beta1/namespaces/liqo-tenant-rome/quotas"
    found = member.api.get(path)["items"]
    return {each["spec"]["user"]: each["spec"]["resources"]["pods"] for each in found}


def test_two_slices_to_one_peer_are_two_nodes(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    before, granted = identities(rome), pods_granted(milan)
    first = rome.api.get(SLICES)["items"][0]
    second = {
        "metadata": {
            "name": "milan-more",
            "labels": first["metadata"]["labels"],
            "annotations": {"liqo.io/create-virtual-node": "true"},
        },
        "spec": {
            "class": "default",
            "providerClusterID": "milan",
            "resources": {"cpu": "1", "memory": "1Gi", "pods": "5"},
        },
    }
    namespace = first["metadata"]["namespace"]
    path = f"/apis/authentication.liqo.io/v1beta1/namespaces/{namespace}/resourceslices"
    rome.create(path, {"apiVersion": first["apiVersion"], "kind": "ResourceSlice", **second})
    wait_until("the second node", lambda: rome.node_is_ready("milan-more"), 30)
    node = rome.api.get("/api/v1/nodes/milan-more")
    assert node["status"]["allocatable"]["pods"] == "5"
    assert len(identities(rome) - before) == 1
    now = pods_granted(milan)
    assert now.items() > granted.items()
    assert [now[user] for user in now.keys() - granted.keys()] == ["5"]

    rome.api.call("DELETE", f"{path}/milan-more")
    wait_until(
        "the second node to go",
        lambda: not rome.api.exists("/api/v1/nodes/milan-more"),
        30,
    )
    assert rome.node_is_ready("milan")
    wait_until("its quota to go", lambda: pods_granted(milan) == granted, 30)
    wait_until("its identity to go", lambda: identities(rome) == before, 30)


@pytest.mark.parametrize("killed", ["rome", "milan"])
def test_a_daemon_restarted_in_between_goes_on(peered: Clusters, killed: str) -> None:
    rome = peered.rome
    uid = rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"]
    daemon = peered.members[killed].daemon
    peered.members[killed].crash()
    daemon.start(60)
    wait_until("the node", lambda: rome.node_is_ready("milan"), 30)
    assert rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"] == uid

    assert daemon.stop() < 10
    daemon.start(60)
    assert rome.node_is_ready("milan")


def test_what_it_shows_needs_no_daemon(peered: Clusters) -> None:
    rome = peered.rome
    rome.crash()
    try:
        shown = json.loads(rome.liqod("status", "-o", "json").stdout)
        assert "milan" in json.dumps(shown)
        assert "milan" in rome.liqod("status").stdout
    finally:
        rome.daemon.start(60)


def test_uninstall_refuses_while_peered_and_names_the_peer(peered: Clusters) -> None:
    refused = peered.rome.liqod("uninstall", check=False)
    assert refused.returncode != 0
    assert "milan" in refused.stderr
    assert "Traceback" not in refused.stderr
