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
