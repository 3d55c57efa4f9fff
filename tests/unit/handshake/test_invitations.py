"""For whom an invitation is good, and until when; what anyone who brings another one is told."""

import msgspec
import pytest

from liqod.handshake.protocol.invitationtokens import secret_hash
from liqod.handshake.requests.incomingrecord import is_full
from liqod.handshake.requests.invitations import Bearer, over, problem
from liqod.resources import Invitation
from liqod.resources.peering import InvitationSpec, InvitationStatus, Use
from liqod.runtime.connectionlimit import source_of

NOW, LATER, BEFORE = "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z", "2026-01-01T11:59:59Z"
SECRET, KEY, OTHER = b"s" * 16, "a" * 64, "b" * 64
ROME = Bearer(name="i", secret=SECRET, cluster_id="rome", key=KEY, request="r1")


def invitation(used: tuple[Use, ...] = (), **spec) -> Invitation:
    given = {"secret_hash": secret_hash(SECRET), "expires": LATER, **spec}
    return Invitation(
        spec=InvitationSpec(**given), status=InvitationStatus(len(used), used_by=used)
    )


BY_ROME = Use("rome", KEY, "r1", NOW)
BY_TURIN = Use("turin", OTHER, "r2", NOW)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (invitation(), None),
        (None, "invitation-unknown"),
        (invitation(secret_hash=secret_hash(b"t" * 16)), "invitation-unknown"),
        (invitation(expires=BEFORE), "invitation-expired"),
        (invitation(expires=NOW), "invitation-expired"),
        (invitation(expires="tomorrow"), "invitation-expired"),
        (invitation((BY_TURIN,)), "invitation-used"),
        (invitation((BY_TURIN,), uses=2), None),
        (invitation((BY_ROME,)), None),
        (invitation((BY_ROME,), expires=BEFORE), None),
        (invitation((msgspec.structs.replace(BY_ROME, request="r9"),)), "invitation-used"),
        (invitation((msgspec.structs.replace(BY_ROME, key=OTHER),)), "invitation-used"),
        (invitation(cluster_id="rome", key=KEY), None),
        (invitation(cluster_id="turin"), "invitation-other"),
        (invitation(key=OTHER), "invitation-other"),
        (invitation(borrow=True), "invitation-other"),
        (invitation((BY_ROME,), borrow=True), "invitation-other"),
    ],
)
def test_who_may_use_an_invitation(found, code):
    refused = problem(found, ROME, NOW)
    assert (refused.code if refused is not None else None) == code


def test_an_invitation_to_lend_is_for_who_lends_alone():
    lender = msgspec.structs.replace(ROME, lends=True)
    assert problem(invitation(borrow=True), lender, NOW) is None
    refused = problem(invitation(), lender, NOW)
    assert refused is not None
    assert "for who is to borrow" in refused.reason


def test_who_has_no_secret_is_told_nothing_of_an_invitation_that_is_there():
    for found in (
        *(invitation(expires=BEFORE), invitation((BY_TURIN,))),
        *(invitation(key=OTHER), invitation(borrow=True)),
    ):
        thief = msgspec.structs.replace(ROME, secret=b"x" * 16)
        assert problem(found, thief, NOW) == problem(None, thief, NOW)


def test_no_secret_is_shown_by_who_brings_it():
    assert "s" * 8 not in repr(ROME)


def test_an_invitation_is_over_when_it_is_used_up_or_late():
    assert over(invitation(), NOW) == ""
    assert over(invitation((BY_ROME,)), NOW) == "Used"
    assert over(invitation((BY_ROME,)), LATER) == "Expired"


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("unix", "unix"),
    ],
)
def test_what_counts_as_one_place(source, place):
    assert source_of(source) == place


def test_one_place_fills_no_inbox_and_all_together_have_an_end():
    one = ["192.0.2.1"] * 16
    assert is_full(one, "192.0.2.1")
    assert not is_full(one, "192.0.2.2")
    assert not is_full(one[1:], "192.0.2.1")
    many = [f"10.{number // 8}.0.1" for number in range(256)]
    assert is_full(many, "192.0.2.2")
    assert not is_full(many[1:], "192.0.2.2")


@pytest.mark.parametrize("one", ["2001:db8:7:{}::/64", "192.0.2.{}"])
def test_one_network_fills_no_inbox(one: str):
    known = [one.format(number // 4) for number in range(64)]
    assert is_full(known, one.format(99))
    assert not is_full(known[1:], one.format(99))
    assert not is_full(known, "2001:db8:8:1::/64")
    assert not is_full(known, "192.0.3.1")
