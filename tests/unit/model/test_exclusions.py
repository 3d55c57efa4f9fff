"""Namespaces and objects that may leave this cluster, by table."""

import pytest

from liqod.model.crossing.exclusions import namespace_stays, object_stays

TENANT = {"liqo.io/tenant-namespace": "true"}


@pytest.mark.parametrize(
    ("name", "marks", "own", "why"),
    [
        ("liqo", {}, "liqo", "this cluster's keys"),
        ("liqo", {}, "liqod-system", "this cluster's keys"),
        ("liqod-system", {}, "liqod-system", "this cluster's keys"),
        ("liqo-nodes", {}, "liqo", "root on this cluster's nodes"),
        ("liqod-system-nodes", {}, "liqod-system", "root on this cluster's nodes"),
        ("liqo-tenant-turin", {}, "liqo", "the credentials of a peer"),
        ("shop-turin", {"liqo.io/remote-cluster-id": "turin"}, "liqo", "the peer turin's"),
        ("peers-of-rome", TENANT, "liqo", "the credentials of a peer"),
        ("kube-system", {}, "liqo", "Kubernetes' own"),
        ("kube-public", {}, "liqo", "Kubernetes' own"),
        ("kube-node-lease", {}, "liqo", "Kubernetes' own"),
        ("openshift-etcd", {}, "liqo", "OpenShift's own"),
    ],
)
def test_namespaces_that_never_leave(name, marks, own, why):
    found = namespace_stays(name, marks, own)
    assert name in found
    assert why in found


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("shop", {}),
        ("default", {}),
        ("kubernetes-dashboard", {}),
        ("my-kube-system", {}),
        ("liqo-demo", {}),
        ("shop-nodes", {}),
        ("shop", {"liqo.io/tenant-namespace": "false"}),
    ],
)
def test_namespaces_that_may(name, marks):
    assert namespace_stays(name, marks, "liqo") == ""


def secret(name="cred", type_="Opaque"):
    return {"metadata": {"name": name, "labels": {}}, "type": type_}


@pytest.mark.parametrize(
    "found",
    [
        *(
            {"metadata": {"name": "copy", "labels": {key: "x"}}}
            for key in (
                "liqo.io/managed",
                "liqod.io/managed",
                "liqo.io/identity-type",
                "liqo.io/nonce",
                "liqo.io/signed-nonce",
                "liqo.io/peering-user-name",
                "liqo.io/remote-cluster-id",
                "liqo.io/webhook",
            )
        ),
        secret("authentication-keys"),
        secret("liqod-webhook"),
        secret("liqo-webhook-certs"),
        secret("liqo-nonce"),
        secret("liqo-signed-nonce"),
        secret("kubeconfig-controlplane-turin"),
        secret("kubeconfig-resourceslice-turin"),
        secret("liqo-remote-certificate"),
        secret("liqo-remote-certificate-turin"),
        secret("bootstrap-token-abcdef", "bootstrap.kubernetes.io/token"),
    ],
    ids=lambda found: "".join([found["metadata"]["name"], *found["metadata"]["labels"]]),
)
def test_secrets_of_trust_never_cross(found):
    assert object_stays("Secret", found)


def test_other_objects_may():
    for found in (secret(), secret("kubeconfig"), secret("registry", "kubernetes.io/dockercfg")):
        assert object_stays("Secret", found) == ""
    marked = {"metadata": {"name": "authentication-keys", "labels": {"liqo.io/managed": "true"}}}
    assert object_stays("ConfigMap", marked) == ""
    assert object_stays("Secret", {}) == ""
