"""When a provider is the one that is known, and how it may move by itself."""

import pytest

from liqod.consumer.identities.places import may_move, place_of, strange, vouched
from liqod.errors import ProtocolError
from liqod.identity import certificates
from liqod.resources import AuthParams

OLD, NEW = (certificates.make_ca("milan").certificate for _ in range(2))
CAS = {"": b"", "old": OLD, "new": NEW, "both": OLD + NEW}
HERE, THERE = "https://milan:6443", "https://elsewhere:6443"


def test_an_address_is_compared_by_what_it_leads_to():
    assert place_of("https://MILAN", OLD) == place_of("https://milan:443/", OLD)
    assert strange(place_of("https://milan:6443", OLD), place_of("https://milan", OLD))
    with pytest.raises(ProtocolError):
        place_of(HERE, b"nonsense")


@pytest.mark.parametrize(
    ("found", "known", "same"),
    [
        ("old", "old", True),
        ("old", "both", True),
        ("both", "old", False),  # an impostor adds its own to what everybody may know
        ("new", "old", False),
        ("", "old", False),
        ("", "", True),
        ("old", "", False),
    ],
)
def test_no_other_authority_may_vouch(found: str, known: str, same: bool):
    assert vouched(place_of(HERE, CAS[found]), place_of(HERE, CAS[known])) is same


@pytest.mark.parametrize(
    ("server", "ca", "proxy", "may"),
    [
        (THERE, "old", "", True),
        (HERE, "new", "", True),
        (HERE, "both", "", True),
        (THERE, "new", "", False),
        (THERE, "both", "", False),
        (HERE, "old", "http://proxy", True),
        (HERE, "new", "http://proxy", False),
    ],
)
def test_address_and_authority_do_not_change_at_once(server: str, ca: str, proxy: str, may: bool):
    present = AuthParams(ca=OLD, api_server=HERE)
    assert may_move(AuthParams(ca=CAS[ca], api_server=server, proxy_url=proxy), present) is may
