"""The programs that keep CoreDNS as it is are known by their marks."""

from typing import Any

import pytest

from liqod.install.clustersetdns import keeper_of

ADDON = "addonmanager.kubernetes.io/mode"
KUBEADM = {
    "name": "coredns",
    "labels": {"k8s-app": "kube-dns"},
    "annotations": {
        "deployment.kubernetes.io/revision": "1",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    },
}
OWNED = {"ownerReferences": [{"kind": "HelmChart", "name": "rke2-coredns"}]}


@pytest.mark.parametrize(
    ("metadata", "keeper"),
    [
        (KUBEADM, ""),
        ({}, ""),
        ({"labels": {ADDON: "EnsureExists"}}, ""),
        ({"labels": {ADDON: "Reconcile"}}, "the cluster's addon manager"),
        ({"labels": {"eks.amazonaws.com/component": "coredns"}}, "EKS"),
        ({"labels": {"kubernetes.azure.com/managedby": "aks"}}, "AKS"),
        ({"labels": {"objectset.rio.cattle.io/hash": "x"}}, "K3s or RKE2"),
        ({"annotations": {"k0s.k0sproject.io/stack-checksum": "x"}}, "k0s"),
        ({"annotations": {"meta.helm.sh/release-name": "coredns"}}, "Helm"),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "infra"}}, "Flux"),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "x"}}, "Argo CD"),
        ({"labels": {"app.kubernetes.io/managed-by": "tanzu"}}, "tanzu"),
        (OWNED, "HelmChart"),
    ],
)
def test_a_keeper_is_known_by_its_marks(metadata: dict[str, Any], keeper: str):
    assert keeper_of(metadata) == keeper
