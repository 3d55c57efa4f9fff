"""Peering on real control planes, one way; the other shapes are tried on embedded clusters.

The `clusters` fixture ends by unpeering, and then asserts that no cluster holds anything it did
not hold before.
"""

from __future__ import annotations

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import FOREIGN_CLUSTERS, Clusters
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


def test_an_administrators_kubeconfig_ends_both_sides_and_a_peering_users_says_what_is_left(
    clusters: Clusters,
) -> None:
    rome, milan = clusters.rome, clusters.milan
    tenant = "/api/v1/namespaces/liqo-tenant-rome"
    clusters.peer(rome, milan)
    user = clusters.peering_user(rome, milan)
    wrong = ("--remote-kubeconfig", str(clusters.turin.plane.kubeconfig), "--yes")
    refused = rome.liqod("unpeer", "milan", *wrong, check=False)
    assert "the kubeconfig leads to the cluster turin, not to milan" in refused.stderr
    assert rome.node_is_ready("milan")
    said = rome.liqod("unpeer", "milan", "--remote-kubeconfig", str(user), "--yes").stdout
    assert said.startswith("unpeered from milan; cleared there: Tenant rome; milan keeps the ")
    assert "namespace liqo-tenant-rome with the key that it has accepted until" in said
    assert milan.api.exists(tenant)

    clusters.peer(rome, milan)
    assert "liqod.io/accepted-key" in milan.api.get(tenant)["metadata"]["annotations"]
    administrator = ("--remote-kubeconfig", str(milan.plane.kubeconfig))
    asked = rome.liqod("unpeer", "milan", *administrator, check=False)
    assert "Namespace liqo-tenant-rome at milan" in asked.stderr
    said = rome.liqod("unpeer", "milan", *administrator, "--yes").stdout
    assert said.startswith("unpeered from milan; cleared there: ")
    assert said.rstrip().endswith("Namespace liqo-tenant-rome")
    assert not milan.api.exists(tenant)
    assert not rome.api.exists("/api/v1/namespaces/liqo-tenant-milan")
    milan.liqod("delete", "peering-user", "--consumer-cluster-id", "rome", "--yes")
