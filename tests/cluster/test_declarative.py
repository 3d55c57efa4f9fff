"""Peering without liqod's commands: what a git repository would hold, applied with kubectl."""

from __future__ import annotations

import json

import pytest

from tests.testbed.api import wait_until
from tests.testbed.clusters import FOREIGN_CLUSTERS, Clusters
from tests.testbed.federation import Member
from tests.testbed.pki import kubeconfig
from tests.testbed.workloads import Manifest, deployment, deployments

pytestmark = pytest.mark.cluster

AUTHENTICATION = "authentication.liqo.io/v1beta1"
OFFLOADING = "offloading.liqo.io/v1beta1"


def apply(member: Member, *objects: Manifest) -> None:
    """`kubectl apply -f` of these objects."""
    path = member.folder / "applied.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    member.plane.kubectl("apply", "-f", str(path))


def tenant_namespace(peer: str) -> Manifest:
    """The tenant namespace of a peer."""
    labels = {"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": peer}
    metadata: Manifest = {"name": f"liqo-tenant-{peer}", "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def provider_objects(consumer: str) -> list[Manifest]:
    """At the provider: the tenant, trusted without a handshake, and its rights by hand."""
    namespace = f"liqo-tenant-{consumer}"
    tenant: Manifest = {
        "apiVersion": AUTHENTICATION,
        "kind": "Tenant",
        "metadata": {
            "name": consumer,
            "namespace": namespace,
            "labels": {"liqo.io/remote-cluster-id": consumer},
        },
        "spec": {"clusterID": consumer, "authzPolicy": "TolerateNoHandshake"},
    }
    binding: Manifest = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "by-hand", "namespace": namespace},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "liqo-remote-controlplane",
        },
        "subjects": [{"kind": "User", "name": consumer, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    return [tenant_namespace(consumer), tenant, binding]


def consumer_objects(provider: str, consumer: str, config: str) -> list[Manifest]:
    """At the consumer: the kubeconfig for the provider, and what to borrow with it."""
    namespace = f"liqo-tenant-{provider}"
    secret: Manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": f"kubeconfig-controlplane-{provider}",
            "namespace": namespace,
            "labels": {
                "liqo.io/identity-type": "ControlPlane",
                "liqo.io/remote-cluster-id": provider,
            },
            "annotations": {"liqo.io/remote-tenant-namespace": f"liqo-tenant-{consumer}"},
        },
        "stringData": {"kubeconfig": config},
    }
    resource_slice: Manifest = {
        "apiVersion": AUTHENTICATION,
        "kind": "ResourceSlice",
        "metadata": {
            "name": provider,
            "namespace": namespace,
            "labels": {
                "liqo.io/remote-cluster-id": provider,
                "liqo.io/remoteID": provider,
                "liqo.io/replication": "true",
            },
            "annotations": {"liqo.io/create-virtual-node": "true"},
        },
        "spec": {
            "class": "default",
            "providerClusterID": provider,
            "resources": {"cpu": "2", "memory": "2Gi", "pods": "10"},
        },
    }
    return [tenant_namespace(provider), secret, resource_slice]


def test_applied_manifests_give_the_same_result(clusters: Clusters) -> None:
    rome, milan = clusters.rome, clusters.milan
    pair = milan.plane.authority.client("rome-by-hand", "rome", ["liqo.io"])
    config = kubeconfig("milan", milan.plane.server, milan.plane.authority.pair.certificate, pair)
    apply(milan, *provider_objects("rome"))
    apply(rome, *consumer_objects("milan", "rome", config))
    wait_until("the virtual node", lambda: rome.node_is_ready("milan"), 40)
    assert rome.api.get("/api/v1/nodes/milan")["status"]["allocatable"]["pods"] == "10"
    assert rome.api.get(f"{FOREIGN_CLUSTERS}/milan")["status"]["role"] == "Provider"

    shop = clusters.namespace(rome)
    offloading: Manifest = {
        "apiVersion": OFFLOADING,
        "kind": "NamespaceOffloading",
        "metadata": {"name": "offloading", "namespace": shop},
        "spec": {
            "podOffloadingStrategy": "Remote",
            "namespaceMappingStrategy": "DefaultName",
            "clusterSelector": {"nodeSelectorTerms": []},
        },
    }
    apply(rome, offloading)
    rome.create(deployments(shop), deployment("web", 2))
    wait_until("two ready pods", lambda: len(rome.ready_pods(shop)) == 2, 40)
    assert len(milan.pods(f"{shop}-rome")) == 2

    rome.liqod("unpeer", "milan", "--yes")
    assert not rome.api.exists("/api/v1/nodes/milan")
    # What was applied by hand is taken back by hand.
    rome.plane.kubectl("delete", "namespace", "liqo-tenant-milan", "--ignore-not-found")
    milan.plane.kubectl("delete", "namespace", "liqo-tenant-rome", "--ignore-not-found")
