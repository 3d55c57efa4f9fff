"""Borrowing more, and offloading, without liqod's commands: applied with kubectl.

A whole peering that is written by hand is tried on embedded clusters
(`simulated/peering/test_peering_odd.py`), one from a repository in `cluster/test_gitops.py`.
"""

from __future__ import annotations

import json

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.federation import Member
from tests.testbed.workloads import Manifest, deployment, deployments

pytestmark = pytest.mark.cluster

AUTHENTICATION = "authentication.liqo.io/v1beta1"
OFFLOADING = "offloading.liqo.io/v1beta1"


def apply(member: Member, *objects: Manifest) -> None:
    """`kubectl apply -f` of these objects."""
    path = member.folder / "applied.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    member.plane.kubectl("apply", "-f", str(path))


SLICE: Manifest = {
    "apiVersion": AUTHENTICATION,
    "kind": "ResourceSlice",
    "metadata": {
        "name": "by-hand",
        "namespace": "liqo-tenant-milan",
        "labels": {
            "liqo.io/remote-cluster-id": "milan",
            "liqo.io/remoteID": "milan",
            "liqo.io/replication": "true",
        },
        "annotations": {"liqo.io/create-virtual-node": "true"},
    },
    "spec": {
        "class": "default",
        "providerClusterID": "milan",
        "resources": {"cpu": "2", "memory": "2Gi", "pods": "10"},
    },
}


def offloading(namespace: str) -> Manifest:
    """The NamespaceOffloading of a namespace."""
    return {
        "apiVersion": OFFLOADING,
        "kind": "NamespaceOffloading",
        "metadata": {"name": "offloading", "namespace": namespace},
        "spec": {
            "podOffloadingStrategy": "Remote",
            "namespaceMappingStrategy": "DefaultName",
            "clusterSelector": {"nodeSelectorTerms": []},
        },
    }


def test_applied_manifests_give_the_same_result(peered: Clusters) -> None:
    rome, milan = peered.rome, peered.milan
    apply(rome, SLICE)
    try:
        wait_until("the virtual node", lambda: rome.node_is_ready("by-hand"), 40)
        node = rome.api.get("/api/v1/nodes/by-hand")
        assert node["status"]["allocatable"]["pods"] == "10"
        shop = peered.namespace(rome)
        apply(rome, offloading(shop))
        made = deployment("web", 2)
        made["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "by-hand"}
        rome.create(deployments(shop), made)
        wait_until("two ready pods", lambda: len(rome.ready_pods(shop)) == 2, 40)
        assert len(milan.pods(f"{shop}-rome")) == 2
        # Applied again, it changes nothing.
        apply(rome, SLICE, offloading(shop))
        assert rome.api.get("/api/v1/nodes/by-hand")["metadata"]["uid"] == node["metadata"]["uid"]
    finally:
        kind = "resourceslices.authentication.liqo.io"
        rome.plane.kubectl("delete", kind, "by-hand", "-n", "liqo-tenant-milan")
    wait_until("the node to go", lambda: not rome.api.exists("/api/v1/nodes/by-hand"), 40)
