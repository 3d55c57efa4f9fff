"""Next keys of a consumer that are followed, and those that are not."""

from base64 import b64encode

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.consumer.identities.clusterkeys import ClusterKeys, offer_of
from liqod.identity import certificaterequests, certificates, keys, successions
from liqod.model import ids
from liqod.provider.tenants import keysuccession, trust, usernames
from liqod.provider.tenants.keysuccession import NextKey, next_key
from liqod.provider.tenants.tenants import proven
from liqod.resources import Renew, ResourceSlice, Tenant
from liqod.resources.authentication import (
    CONTROL_PLANE,
    RESOURCE_SLICE,
    AuthParams,
    RenewSpec,
    SliceSpec,
    TenantSpec,
    TenantStatus,
)

WAS, COMES, THIEF, OLDER = (keys.generate() for _ in range(4))
AUTHORITY = certificates.make_ca("authority")


def print_of(private: bytes) -> str:
    return keys.print_of(keys.public_pem(private))


def pair(private: bytes, former: bytes, here="rome") -> ClusterKeys:
    before = ClusterKeys(former, keys.public_pem(former))
    stated = successions.state(here, former, private)
    return ClusterKeys(private, keys.public_pem(private), before, stated)


def tenant(private=WAS, **annotations: str) -> Tenant:
    csr = certificaterequests.make_csr(private, "rome", "liqo.io")
    given = certificates.sign_client(AUTHORITY, csr, seconds=600)
    return Tenant(
        metadata=ObjectMeta(name="rome", namespace="liqo-tenant-rome", annotations=annotations),
        spec=TenantSpec(cluster_id="rome", public_key=keys.public_pem(private), csr=csr),
        status=TenantStatus("liqo-tenant-rome", AuthParams(signed_crt=given)),
    )


def renew(text: str, kind: str = CONTROL_PLANE) -> list[Renew]:
    meta = ObjectMeta(name="r", annotations={labels.SUCCESSION: text})
    return [Renew(metadata=meta, spec=RenewSpec(identity_type=kind))]


GOOD = offer_of(pair(COMES, WAS), "rome")


def test_the_next_key_of_the_one_that_is_known_is_offered():
    found = next_key(tenant(), renew(GOOD))
    assert isinstance(found, NextKey)
    assert (found.what.former, found.what.next) == (print_of(WAS), print_of(COMES))
    assert keysuccession.problem(found, print_of(WAS)) == ""
    assert keysuccession.problem(found, "") == ""
    assert keysuccession.problem(found, print_of(COMES)) == ""  # it was noted, and no more done


def swapped(plain: bytes | None = None, keyed: bytes | None = None) -> str:
    """A statement that holds, with other requests beside it."""
    texts = GOOD.split(" ")
    for place, csr in ((1, plain), (2, keyed)):
        if csr is not None:
            texts[place] = b64encode(csr).decode()
    return " ".join(texts)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (offer_of(pair(COMES, THIEF), "rome"), "about the key"),  # forged by who has no key of it
        (offer_of(pair(WAS, OLDER), "rome"), "about the key"),  # sent once more
        (offer_of(pair(COMES, WAS, "turin"), "turin"), "about turin, and not rome"),
        (f"{GOOD} {GOOD}", "no statement with two requests"),  # two steps in one
        (GOOD.split(" ")[0], "no statement with two requests"),
        (GOOD + " " * keysuccession.LIMIT, "no statement with two requests"),
        (f"{GOOD.split(' ')[0]} A A", "exactly one PEM block"),
        (swapped(plain=certificaterequests.make_csr(THIEF, "rome", "liqo.io")), "another key"),
        (
            swapped(plain=certificaterequests.make_csr(COMES, "kubernetes-admin", "liqo.io")),
            "asks for",
        ),
        (swapped(keyed=certificaterequests.make_csr(COMES, "rome", "system:masters")), "asks for"),
        (
            swapped(
                keyed=certificaterequests.make_csr(COMES, ids.keyed("rome", "f" * 64), "liqo.io")
            ),
            "asks",
        ),
    ],
    ids=range(11),
)
def test_another_is_named_and_not_followed(text, why):
    found = next_key(tenant(), renew(text))
    assert isinstance(found, str)
    assert "another key of rome is not followed" in found
    assert why in found


def test_who_has_the_former_key_cannot_state_another_next_one_after_the_first():
    fork = next_key(tenant(), renew(offer_of(pair(THIEF, WAS), "rome")))
    assert isinstance(fork, NextKey)  # the statement holds: a thief's key signs as well
    assert "has followed" in keysuccession.problem(fork, print_of(COMES))
    after = tenant(COMES, **{labels.SUCCESSION: GOOD.split(" ")[0]})
    assert isinstance(next_key(after, renew(offer_of(pair(THIEF, WAS), "rome"))), str)


def test_what_was_followed_is_followed_once_and_nothing_of_a_slice_s_renew():
    after = tenant(COMES, **{labels.SUCCESSION: GOOD.split(" ")[0]})
    assert next_key(after, renew(GOOD)) is None
    assert next_key(tenant(), renew(GOOD, RESOURCE_SLICE)) is None
    assert next_key(tenant(), []) is None


def test_a_certificate_of_the_former_key_proves_the_next_one_by_the_statement_alone():
    def moved(**annotations: str) -> Tenant:
        before = tenant(WAS, **annotations)
        spec = msgspec.structs.replace(before.spec, public_key=keys.public_pem(COMES))
        return msgspec.structs.replace(before, spec=spec)

    assert proven(moved(**{labels.SUCCESSION: GOOD.split(" ")[0]}))
    assert not proven(moved())
    for stated in (
        successions.state("rome", WAS, THIEF),
        successions.state("rome", THIEF, COMES),
        successions.state("turin", WAS, COMES),
        "nonsense",
    ):
        assert not proven(moved(**{labels.SUCCESSION: stated}))


def test_rights_are_bound_to_both_names_while_the_former_one_is_noted():
    who, former = ids.keyed("rome", print_of(COMES)), ids.keyed("rome", print_of(WAS))
    found = tenant(COMES)
    assert usernames.subjects(found, {}, keyed=True) == (who,)
    for note in (print_of(WAS), f"{print_of(WAS)} 2026-01-01T00:00:00Z"):
        assert usernames.subjects(found, {labels.FORMER_KEY: note}, keyed=True) == (who, former)
    assert keysuccession.until({labels.FORMER_KEY: print_of(WAS)}) is None
    assert keysuccession.until({labels.FORMER_KEY: f"{print_of(WAS)} nonsense"}) == 0.0


@pytest.mark.parametrize(
    ("private", "group", "former", "good"),
    [
        (COMES, ids.keyed("rome", print_of(COMES)), "", True),
        (WAS, ids.keyed("rome", print_of(WAS)), print_of(WAS), True),
        (WAS, ids.keyed("rome", print_of(WAS)), "", False),
        (WAS, ids.keyed("rome", print_of(COMES)), print_of(WAS), False),
        (THIEF, ids.keyed("rome", print_of(WAS)), print_of(WAS), False),
        (COMES, ids.keyed("rome", print_of(WAS)), print_of(WAS), False),
    ],
    ids=range(6),
)
def test_a_slice_may_stay_with_the_former_key_as_long_as_that_is_noted(
    private, group, former, good
):
    csr = certificaterequests.make_csr(private, ids.slice_user("s", "rome"), group)
    wanted = ResourceSlice(
        metadata=ObjectMeta(name="s"), spec=SliceSpec(consumer_cluster_id="rome", csr=csr)
    )
    problem = trust.slice_problem(wanted, tenant(COMES), "rome", "milan", former)
    assert (problem is None) is good
