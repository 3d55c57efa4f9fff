"""A provider's kubeconfig is validated before our key is used with it."""

import time
from base64 import b64decode

import pytest

from liqod.apimachinery.meta import ObjectMeta
from liqod.consumer.identities.clusterkeys import ClusterKeys
from liqod.consumer.identities.kubeconfigs import auth_patch, is_newer, problem_of, secret_of
from liqod.identity import certificaterequests, certificates, keys
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.resources import AuthParams, Identity
from liqod.resources.authentication import AwsConfig, IdentitySpec

CA = certificates.make_ca("milan")
PRIVATE = keys.generate()
OWN = ClusterKeys(PRIVATE, keys.public_pem(PRIVATE))
CSR = certificaterequests.make_csr(PRIVATE, "rome", "liqo.io")


def given(seconds=600, csr=CSR, server="https://milan:6443", **more):
    crt = certificates.sign_client(CA, csr, seconds=seconds)
    return AuthParams(**{"ca": CA.certificate, "signed_crt": crt, "api_server": server, **more})


def test_a_good_way_in_has_no_problem():
    assert problem_of(given(), OWN.public) is None
    assert problem_of(given(ca=b""), OWN.public) is None


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (given(signed_crt=b""), "not given a certificate"),
        (given(signed_crt=b"nonsense"), "cannot be used"),
        (given(ca=b"nonsense"), "cannot be used"),
        (given(server="http://milan"), "https"),
        (given(server="https://"), "https"),
        (given(server="https://milan:x"), "not a URL"),
        (given(server="https://milan..example:6443"), "no host's name"),
        (given(server="https://user@milan"), "plain URL"),
        (given(server=""), "https"),
        (
            given(csr=certificaterequests.make_csr(keys.generate(), "rome", "liqo.io")),
            "this cluster's key",
        ),
        (given(aws_config=AwsConfig("a", "b", "c", "d", "e")), "AWS"),
    ],
)
def test_a_bad_one_is_named(found, why):
    assert why in (problem_of(found, OWN.public) or "")


def test_a_newer_certificate_replaces_an_older_and_not_the_other_way():
    old, new = given(600), given(1200)
    assert is_newer(new, old)
    assert not is_newer(old, new)
    assert not is_newer(old, old)
    assert is_newer(given(60, server="https://elsewhere"), new)
    assert is_newer(old, AuthParams())


def test_what_was_given_before_the_peer_was_made_anew_does_not_come_back():
    signed = certificates.sign_client(CA, CSR, seconds=600, now=time.time() - 60)
    before = given(signed_crt=signed, ca=certificates.make_ca("milan").certificate)
    assert not is_newer(before, given(60))
    assert is_newer(given(60), before)


def test_the_patch_takes_away_what_is_not_given():
    patch = auth_patch(given())
    assert patch["proxyURL"] is None
    assert patch["awsConfig"] is None
    assert patch["apiServer"] == "https://milan:6443"
    assert b64decode(patch["ca"]) == CA.certificate


@pytest.mark.parametrize("type_", ["ControlPlane", "ResourceSlice"])
def test_the_secret_has_the_marks_of_a_real_one_and_a_usable_kubeconfig(type_):
    name = "controlplane-milan" if type_ == "ControlPlane" else "resourceslice-gpu"
    spec = IdentitySpec("milan", type_, given(), "liqo-tenant-rome")
    metadata = ObjectMeta(name=name, namespace="liqo-tenant-milan")
    secret = secret_of(Identity(metadata=metadata, spec=spec), OWN)
    meta = secret["metadata"]
    assert meta["name"] == f"kubeconfig-{name}"
    assert meta["labels"]["liqo.io/identity-type"] == type_
    assert meta["labels"]["liqo.io/remote-cluster-id"] == "milan"
    if type_ == "ControlPlane":
        assert meta["annotations"] == {"liqo.io/remote-tenant-namespace": "liqo-tenant-rome"}
    else:
        assert meta["labels"]["liqo.io/resourceslice-name"] == "gpu"
    found = from_kubeconfig(b64decode(secret["data"]["kubeconfig"]))
    assert found.server == "https://milan:6443"
    assert found.namespace == "liqo-tenant-rome"
    assert found.client_key == PRIVATE
    assert "PRIVATE" not in repr(OWN)
