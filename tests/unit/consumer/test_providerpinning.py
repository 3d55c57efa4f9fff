"""When a provider is the one that is known, and how it may move by itself."""

import pytest

from liqod.consumer.identities.providerpinning import (
    address_problem,
    differs,
    may_move,
    pin_of,
    same_authority,
)
from liqod.errors import ProtocolError
from liqod.identity import certificates
from liqod.resources import AuthParams

OLD, NEW = (certificates.make_ca("milan").certificate for _ in range(2))
CAS = {"": b"", "old": OLD, "new": NEW, "both": OLD + NEW}
HERE, THERE = "https://milan:6443", "https://elsewhere:6443"


def test_an_address_is_compared_by_what_it_leads_to():
    assert pin_of("https://MILAN", OLD) == pin_of("https://milan:443/", OLD)
    assert differs(pin_of("https://milan:6443", OLD), pin_of("https://milan", OLD))
    with pytest.raises(ProtocolError):
        pin_of(HERE, b"nonsense")


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
    assert same_authority(pin_of(HERE, CAS[found]), pin_of(HERE, CAS[known])) is same


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


@pytest.mark.parametrize(
    ("server", "proxy", "problem"),
    [
        ("https://192.0.2.9:6443", "", ""),
        ("https://milan.example:6443", "http://proxy.example:3128", ""),
        ("https://10.244.3.7:6443", "", "own network"),
        ("https://10.96.0.1", "", "own network"),
        ("https://127.0.0.1:2379", "", "loopback"),
        ("https://[::1]:2379", "", "loopback"),
        ("https://[::ffff:127.0.0.1]:2379", "", "loopback"),
        ("https://localhost.:2379", "", "loopback"),
        ("https://169.254.169.254", "", "link-local"),
        ("https://192.0.2.7:6443", "http://127.0.0.1:3128", "loopback"),
        ("https://192.0.2.7:6443", "http://10.244.3.7:8118", "own network"),
        # It stays at the host where it is known to be.
        ("https://192.0.2.7:7443", "", ""),
    ],
)
def test_a_provider_does_not_move_into_this_cluster(server: str, proxy: str, problem: str):
    present = AuthParams(api_server="https://192.0.2.7:6443")
    offered = AuthParams(api_server=server, proxy_url=proxy)
    found = address_problem(offered, present, ("10.244.0.0/16", "10.96.0.0/12"))
    assert problem in found
    assert bool(found) == bool(problem)


def test_one_that_is_at_home_on_this_machine_may_stay_there():
    present = AuthParams(api_server="https://127.0.0.1:6443")
    for there in ("https://127.0.0.1:7443", "https://localhost:6443"):
        assert address_problem(AuthParams(api_server=there), present, ()) == ""
    assert address_problem(AuthParams(api_server="https://169.254.169.254"), present, ())
