"""The choice between two keys: the one that a listener shows, and the one that a dialler calls."""

import pytest

from liqod.handshake.transport.peerlistener import ListenerKey, chosen
from liqod.handshake.transport.peertls import called, expected_key
from liqod.sharedport import program_of
from tests.unit.handshake.meeting import own

PRESENT, FORMER = ListenerKey.of(own("rome")), ListenerKey.of(own("milan"))


@pytest.mark.parametrize(
    "host", ["milan.example", "192.0.2.1", "2001:db8::1", "h" * 190, "h" * 300]
)
@pytest.mark.parametrize("named", [False, True])
def test_what_is_called_names_the_key_and_is_a_daemon_s_for_versions_before(host, named):
    key = PRESENT.key if named else ""
    name = called(host, key)
    assert expected_key(name) == key[:16]
    assert program_of(name) == "liqod-peering"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (called("milan.example", PRESENT.key), PRESENT),
        (called("milan.example", FORMER.key), FORMER),
        (called("milan.example", "0" * 64), PRESENT),
        (called("milan.example"), PRESENT),
        ("liqod-peering.milan.example", FORMER),
        ("liqod-peering.key-xyz.milan.example", FORMER),
        ("milan.example", FORMER),
        (None, FORMER),
    ],
    ids=range(8),
)
def test_who_expects_a_key_is_shown_it_and_a_version_before_the_former(name, shown):
    assert chosen((PRESENT, FORMER), name) is shown
    assert chosen((PRESENT,), name) is PRESENT
