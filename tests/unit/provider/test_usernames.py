"""Requests that are signed for a consumer, and the names that its rights are bound to."""

from base64 import b64encode

import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.identity import certificaterequests, certificates, keys
from liqod.kube import times
from liqod.model import ids
from liqod.provider.tenants import usernames
from liqod.resources import Renew, ResourceSlice, Tenant
from liqod.resources.authentication import (
    CONTROL_PLANE,
    AuthParams,
    RenewSpec,
    SliceSpec,
    SliceStatus,
    TenantSpec,
)

PRIVATE, OTHER = keys.generate(), keys.generate()
PUBLIC = keys.public_pem(PRIVATE)
KEYED = ids.keyed("rome", keys.print_of(PUBLIC))
LIQO = certificaterequests.make_csr(PRIVATE, "rome", "liqo.io")
GOOD = certificaterequests.make_csr(PRIVATE, KEYED, "liqo.io")
BAD = (
    certificaterequests.make_csr(OTHER, KEYED, "liqo.io"),
    certificaterequests.make_csr(
        PRIVATE, ids.keyed("rome", keys.print_of(keys.public_pem(OTHER))), "liqo.io"
    ),
    certificaterequests.make_csr(PRIVATE, KEYED.replace("rome", "turin"), "liqo.io"),
    certificaterequests.make_csr(PRIVATE, KEYED, "system:masters"),
    certificaterequests.make_csr(PRIVATE, KEYED, KEYED),
    certificaterequests.make_csr(PRIVATE, "kubernetes-admin", "liqo.io"),
    b"none",
    b"",
)
AUTHORITY = certificates.make_ca("authority")


def tenant(annotation: bytes = b"") -> Tenant:
    told = {labels.KEYED_REQUEST: b64encode(annotation).decode()} if annotation else {}
    return Tenant(
        metadata=ObjectMeta(name="rome", annotations=told),
        spec=TenantSpec(cluster_id="rome", public_key=PUBLIC, csr=LIQO),
    )


def renew(csr: bytes, kind: str = CONTROL_PLANE) -> Renew:
    return Renew(spec=RenewSpec(consumer_cluster_id="rome", identity_type=kind, csr=csr))


def test_a_name_with_the_longest_id_fits_a_certificate():
    longest = ids.keyed("x" * ids.ID_LIMIT, "0" * 64)
    assert len(longest) == ids.COMMON_NAME_LIMIT
    assert (
        certificaterequests.inspect(
            certificaterequests.make_csr(PRIVATE, longest, longest)
        ).common_name
        == longest
    )


@pytest.mark.parametrize("evil", BAD, ids=range(len(BAD)))
def test_a_request_for_another_s_name_or_key_is_passed_over_wherever_it_stands(evil):
    assert usernames.request_of(tenant(evil), [renew(evil)]) == LIQO
    assert usernames.request_of(tenant(evil), [renew(evil), renew(GOOD)]) == GOOD


def test_the_name_with_the_key_goes_before_liqo_s():
    assert usernames.request_of(tenant(), []) == LIQO
    assert usernames.request_of(tenant(GOOD), []) == GOOD
    assert usernames.request_of(tenant(), [renew(GOOD)]) == GOOD
    assert usernames.request_of(tenant(), [renew(GOOD, "ResourceSlice")]) == LIQO


def test_rights_are_bound_to_the_id_alone_only_for_who_asks_so_and_for_a_while():
    both = {labels.UNKEYED_NAMES: "true"}
    assert usernames.subjects(tenant(), both, keyed=False) == ("rome",)
    assert usernames.subjects(tenant(), {}, keyed=True) == (KEYED,)
    assert usernames.subjects(tenant(), both, keyed=True) == (KEYED, "rome")


def slice_of(group: str, has: str | None) -> ResourceSlice:
    user = ids.slice_user("milan", "rome")
    given = None
    if has is not None:
        given = AuthParams(signed_crt=certificates.make_client(AUTHORITY, user, (has,)).certificate)
    csr = certificaterequests.make_csr(PRIVATE, user, group)
    return ResourceSlice(spec=SliceSpec(csr=csr), status=SliceStatus(auth_params=given))


@pytest.mark.parametrize(
    ("found", "moved"),
    [
        (slice_of(KEYED, KEYED), True),
        (slice_of(KEYED, None), True),
        (ResourceSlice(), True),
        (slice_of(KEYED, "rome"), False),
        (slice_of("rome", KEYED), False),
        (slice_of("rome", None), False),
    ],
)
def test_a_slice_has_left_the_name_without_a_key_when_it_asks_for_and_has_the_other(found, moved):
    assert usernames.is_moved(found, (KEYED,)) is moved


@pytest.mark.parametrize(
    ("until", "lives"),
    [("", False), ("2020-01-01T00:00:00Z", False), ("soon", True)],
)
def test_the_name_without_a_key_waits_for_the_end_of_revoked_certificates(until, lives):
    marks = {labels.LIVING: until} if until else {}
    assert (usernames.living_problem(tenant(), marks) is not None) is lives
    later = {labels.LIVING: times.of(times.seconds(times.now()) + 3600)}
    assert "--replace-living" in (usernames.living_problem(tenant(), later) or "")
