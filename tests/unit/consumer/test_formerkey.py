"""Peers that know this cluster by its former key alone, and the key pair for a signed request."""

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.consumer.identities.clusterkeys import ClusterKeys
from liqod.consumer.identities.formerkey import Bound, listener_of, needing
from liqod.identity import certificaterequests, certificates, keys
from liqod.kube.http import proxies
from liqod.model import ids
from liqod.procedures.rotating import bonds
from liqod.resources import Identity, Renew, ResourceSlice, Tenant
from liqod.resources.authentication import (
    CONTROL_PLANE,
    AuthParams,
    IdentitySpec,
    SliceSpec,
    TenantSpec,
)

CA = certificates.make_ca("milan")
WAS, COMES = keys.generate(), keys.generate()
FORMER = ClusterKeys(WAS, keys.public_pem(WAS))
OWN = ClusterKeys(COMES, keys.public_pem(COMES), FORMER)
HERE = {"liqo.io/replication": "true", "liqo.io/remoteID": "milan"}
THERE = {"liqo.io/replicated": "true", "liqo.io/originID": "rome"}


def signed(private: bytes) -> bytes:
    return certificates.sign_client(
        CA, certificaterequests.make_csr(private, "rome", "liqo.io"), seconds=60
    )


def identity(private: bytes) -> Identity:
    given = AuthParams(signed_crt=signed(private))
    spec = IdentitySpec(cluster_id="milan", type=CONTROL_PLANE, auth_params=given)
    return Identity(metadata=ObjectMeta(name="i", namespace="n"), spec=spec)


def asked(private: bytes) -> ResourceSlice:
    csr = certificaterequests.make_csr(private, ids.slice_user("s", "rome"), "rome")
    spec = SliceSpec(consumer_cluster_id="rome", provider_cluster_id="milan", csr=csr)
    return ResourceSlice(metadata=ObjectMeta(name="s", labels=HERE), spec=spec)


def tenant(key: bytes, addresses=("milan.example:6446",)) -> Tenant:
    url = proxies.listener_url(keys.print_of(key), addresses)
    meta = ObjectMeta(name="rome", namespace="t")
    return Tenant(metadata=meta, spec=TenantSpec(cluster_id="rome", proxy_url=url))


def told(key: bytes = b"") -> Renew:
    note = {labels.PROVIDER_KEY: keys.print_of(key)} if key else {}
    return Renew(metadata=ObjectMeta(name="r", namespace="t", labels=THERE, annotations=note))


def test_a_certificate_and_a_request_go_with_the_pair_that_they_are_for():
    stranger = keys.generate()
    assert OWN.of(signed(WAS)) is FORMER
    assert OWN.of(signed(COMES)) is OWN
    for other in (signed(stranger), b"nonsense", b""):
        assert OWN.of(other) is OWN
    assert OWN.requested_with(certificaterequests.make_csr(WAS, "rome", "liqo.io")) is FORMER
    assert OWN.requested_with(b"nonsense") is OWN
    alone = msgspec.structs.replace(OWN, former=None)
    assert alone.of(signed(WAS)) is alone


@pytest.mark.parametrize(
    ("found", "who"),
    [
        (Bound(identities=(identity(WAS),)), {"milan"}),
        (Bound(identities=(identity(COMES),)), set()),
        (Bound(identities=(identity(COMES),), slices=(asked(WAS),)), {"milan"}),
        (Bound(slices=(asked(COMES),)), set()),
        (Bound(tenants=(tenant(FORMER.public),)), {"rome"}),
        (Bound(tenants=(tenant(FORMER.public, ()),)), {"rome"}),
        (Bound(tenants=(tenant(FORMER.public),), renews=(told(FORMER.public),)), {"rome"}),
        (Bound(tenants=(tenant(FORMER.public),), renews=(told(OWN.public),)), set()),
        (Bound(tenants=(tenant(OWN.public),)), set()),
        (Bound(), set()),
    ],
    ids=range(10),
)
def test_a_former_key_is_needed_while_something_is_bound_to_it(found, who):
    assert needing(OWN, found) == who
    assert needing(msgspec.structs.replace(OWN, former=None), found) == set()


@pytest.mark.parametrize("url", ["", "http://proxy:3128", "liqod://nonsense", "liqod://a:1"])
def test_what_leads_to_no_key_of_a_listener_is_bound_to_none(url):
    assert listener_of(url) == ""


def test_who_says_nothing_of_keys_does_not_follow():
    known = {labels.KNOWN_KEY: keys.print_of(FORMER.public)}
    says = Renew(metadata=ObjectMeta(name="r", namespace="n", labels=HERE, annotations=known))
    renews: tuple[Renew, ...] = ()
    for renews, state in (((), "never"), ((says,), "follows")):
        found = Bound(identities=(identity(WAS),), renews=renews)
        assert [each.state for each in bonds(FORMER, found)] == [state]
        assert [each.state for each in bonds(OWN, found)] == [state]
    done = Bound(identities=(identity(COMES),))
    assert [each.state for each in bonds(OWN, done)] == ["followed"]
    by = Bound(tenants=(tenant(FORMER.public),))
    assert [(each.role, each.state) for each in bonds(FORMER, by)] == [("consumer", "never")]
    by = Bound(tenants=(tenant(FORMER.public),), renews=(told(FORMER.public),))
    assert [(each.role, each.state) for each in bonds(OWN, by)] == [("consumer", "follows")]
