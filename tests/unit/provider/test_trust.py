"""Consumers that a provider signs for."""

from base64 import b64decode

import pytest

from liqod.apimachinery.meta import ObjectMeta
from liqod.identity import certificaterequests, keys
from liqod.model import ids
from liqod.provider.tenants import trust
from liqod.provider.tenants.tenants import accepted, proven
from liqod.provider.tenants.trust import Binding, RoleRef, Subject
from liqod.resources import AuthParams, ResourceSlice, Tenant
from liqod.resources.authentication import SliceSpec, TenantSpec, TenantStatus

PRIVATE = keys.generate()
PUBLIC = keys.public_pem(PRIVATE)
OTHER = keys.generate()
NONCE = b"bm9uY2U=" * 11
NAMESPACE = "liqo-tenant-rome"
GOOD_CSR = certificaterequests.make_csr(PRIVATE, "rome", "liqo.io")


def tenant(name="rome", namespace=NAMESPACE, status=None, **spec):
    given = {
        "cluster_id": "rome",
        "public_key": PUBLIC,
        "csr": GOOD_CSR,
        "signature": keys.sign(PRIVATE, NONCE),
    }
    metadata = ObjectMeta(name=name, namespace=namespace)
    return Tenant(
        metadata=metadata, spec=TenantSpec(**{**given, **spec}), status=status or TenantStatus()
    )


def test_an_honest_tenant_passes():
    assert trust.identity_problem(tenant(), "rome", "milan", NAMESPACE) is None
    assert trust.request_problem(tenant()) is None
    assert trust.handshake_problem(tenant(), NONCE) is None


@pytest.mark.parametrize(
    ("found", "peer", "here"),
    [
        (tenant(cluster_id="turin"), "rome", "milan"),
        (tenant(name="turin"), "rome", "milan"),
        (tenant(namespace="default"), "rome", "milan"),
        (tenant(), "rome", "rome"),
        (tenant(name="Rome!", cluster_id="Rome!"), "Rome!", "milan"),
    ],
)
def test_a_tenant_that_is_not_this_peers_is_refused(found, peer, here):
    assert trust.identity_problem(found, peer, here, NAMESPACE)


@pytest.mark.parametrize(
    ("found", "nonce", "why"),
    [
        (tenant(), b"", "no nonce"),
        (tenant(), b"another", "signature"),
        (tenant(signature=b""), NONCE, "lacks"),
        (tenant(public_key=b""), NONCE, "lacks"),
        (tenant(csr=b""), NONCE, "lacks"),
        (tenant(public_key=b"nonsense"), NONCE, "public key"),
        (tenant(signature=keys.sign(OTHER, NONCE)), NONCE, "signature"),
        (tenant(csr=certificaterequests.make_csr(OTHER, "rome", "liqo.io")), NONCE, "another key"),
        (tenant(csr=certificaterequests.make_csr(PRIVATE, "milan", "liqo.io")), NONCE, "CN=milan"),
        (
            tenant(csr=certificaterequests.make_csr(PRIVATE, "rome", "system:masters")),
            NONCE,
            "O=system",
        ),
        (tenant(csr=GOOD_CSR + b"x"), NONCE, "exactly one PEM"),
    ],
)
def test_a_handshake_that_proves_nothing_is_refused(found, nonce, why):
    problem = trust.request_problem(found) or trust.handshake_problem(found, nonce)
    assert why in (problem or "")


def test_raw_public_keys_of_old_liqo_are_accepted():

    raw = b64decode(b"".join(PUBLIC.splitlines()[1:-1]))[-32:]
    assert trust.handshake_problem(tenant(public_key=raw), NONCE) is None
    assert trust.request_problem(tenant(public_key=raw)) is None


def test_acceptance_is_remembered_by_our_own_status_only(certificate):
    given = TenantStatus(NAMESPACE, AuthParams(signed_crt=certificate))
    assert proven(tenant(status=given))
    assert accepted(tenant(status=given), "rome", "milan", NAMESPACE)
    assert not proven(tenant())
    # The consumer may change its Tenant's key; then it has to prove it anew.
    assert not proven(tenant(status=given, public_key=keys.public_pem(OTHER)))


@pytest.fixture(name="certificate")
def issued():
    from liqod.identity import certificates

    return certificates.sign_client(certificates.make_ca("milan"), GOOD_CSR, seconds=600)


def binding(name, namespace, role, subject, peer="", kind="ClusterRole"):
    labels = {"liqo.io/remote-cluster-id": peer} if peer else {}
    return Binding(
        ObjectMeta(name=name, namespace=namespace, labels=labels),
        RoleRef(kind, role),
        (Subject(*subject),),
    )


OURS = [
    binding(
        "liqo-binding-liqo-remote-controlplane",
        NAMESPACE,
        "liqo-remote-controlplane",
        ("User", "rome"),
        "rome",
    ),
    binding(
        ids.cluster_wide_binding("rome"),
        "",
        "liqo-virtual-kubelet-remote-clusterwide",
        ("Group", "rome"),
        "rome",
    ),
    binding(NAMESPACE, "shop-rome", "liqo-virtual-kubelet-remote", ("Group", "rome"), "rome"),
]


def test_our_own_bindings_do_not_stand_in_the_way():
    assert trust.taken(OURS, "rome", NAMESPACE, ["rome"]) is None
    strangers = [binding("a", "", "view", ("ServiceAccount", "rome")), Binding()]
    assert trust.taken(strangers, "rome", NAMESPACE, ["rome"]) is None


@pytest.mark.parametrize(
    "foreign",
    [
        binding("admins", "", "cluster-admin", ("Group", "rome")),
        binding("dev", "shop", "edit", ("User", "rome")),
        # With our label, but another role; with our role, but another name; with a Role.
        binding("admins", "", "cluster-admin", ("Group", "rome"), "rome"),
        binding("x", NAMESPACE, "liqo-remote-controlplane", ("User", "rome"), "rome"),
        binding(
            NAMESPACE, "shop", "liqo-virtual-kubelet-remote", ("Group", "rome"), "rome", "Role"
        ),
    ],
)
def test_any_other_binding_of_the_name_is_named(foreign):
    problem = trust.taken([*OURS, foreign], "rome", NAMESPACE, ["rome"])
    assert problem is not None
    assert foreign.metadata.name in problem


def wanted(name="milan", user=None, group="rome", private=PRIVATE, **spec):
    csr = certificaterequests.make_csr(private, user or ids.slice_user(name, "rome"), group)
    given = {"consumer_cluster_id": "rome", "provider_cluster_id": "milan", "csr": csr}
    return ResourceSlice(metadata=ObjectMeta(name=name), spec=SliceSpec(**{**given, **spec}))


def test_an_honest_slice_passes():
    assert trust.slice_problem(wanted(), tenant(), "rome", "milan") is None


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (wanted(consumer_cluster_id="turin"), "turin"),
        (wanted(provider_cluster_id="turin"), "turin"),
        (wanted(user="admin"), "CN=admin"),
        (wanted(group="system:masters"), "O=system:masters"),
        (wanted(private=OTHER), "another key"),
        (wanted(csr=b""), "exactly one PEM"),
        (wanted(name="x" * 51, user="x"), "50 characters"),
    ],
)
def test_a_slice_that_asks_for_somebody_elses_name_is_refused(found, why):
    assert why in (trust.slice_problem(found, tenant(), "rome", "milan") or "")


def test_a_slice_without_a_tenant_is_refused():
    assert "no accepted tenant" in (trust.slice_problem(wanted(), None, "rome", "milan") or "")


def test_without_a_handshake_there_is_no_key_to_compare():
    trusted = tenant(authz_policy="TolerateNoHandshake", public_key=b"")
    assert trust.slice_problem(wanted(private=OTHER), trusted, "rome", "milan") is None
