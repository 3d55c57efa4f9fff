"""When a Configuration's ranges may be gone by."""

from typing import Any

import msgspec

from liqod.network.ipam.peercidrs import PeerIP, ranges_of, waited_for
from liqod.resources import Configuration


def configuration(**status: Any) -> Configuration:
    """One of generation 3, with a range of each kind."""
    return msgspec.convert(
        {
            "metadata": {"name": "milan", "generation": 3},
            "spec": {
                "local": {"cidr": {"pod": ["10.244.0.0/16"], "external": ["10.70.0.0/20"]}},
                "remote": {"cidr": {"pod": ["10.244.0.0/16"], "external": ["10.70.0.0/20"]}},
            },
            "status": {
                "remote": {"cidr": {"pod": ["10.64.0.0/16"], "external": ["10.65.0.0/20"]}},
                **status,
            },
        },
        Configuration,
    )


def told(generation: int, status: str = "True") -> dict[str, Any]:
    """The condition, as of a generation."""
    return {
        "type": "NetworkCIDRsConfigured",
        "status": status,
        "reason": "Because",
        "message": "10.0.0.0/33 is no range",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": generation,
    }


def test_a_whole_configuration_is_gone_by() -> None:
    assert waited_for(configuration(conditions=[told(3)])) == ""


def test_aliases_of_ranges_that_have_changed_are_not() -> None:
    """They stand in the order of the ranges: another range would get a wrong one."""
    assert "have changed" in waited_for(configuration(conditions=[told(2)]))


def test_each_range_has_an_alias() -> None:
    short = {"cidr": {"pod": ["10.64.0.0/16"]}}
    assert "does not have aliases" in waited_for(configuration(remote=short, conditions=[told(3)]))


def test_a_refusal_is_passed_on() -> None:
    refusal = {**told(3, "False"), "reason": "RangesRefused"}
    assert "10.0.0.0/33 is no range" in waited_for(configuration(conditions=[refusal]))


def lent(stand_in: str, real: str, masquerade: bool | None = None) -> PeerIP:
    """An IP that has its address."""
    spec = {"ip": real, "masquerade": masquerade}
    return msgspec.convert({"spec": spec, "status": {"ip": stand_in}}, PeerIP)


def test_what_is_lent_is_told_with_who_sees_the_peers_pods() -> None:
    found = ranges_of(
        configuration(),
        [
            lent("10.70.0.1", "192.0.2.1"),
            lent("10.70.0.2", "192.0.2.2", masquerade=False),
            lent("10.70.0.3", "192.0.2.3", masquerade=True),
            lent("10.70.0.4", "192.0.2.4", masquerade=False),
            lent("10.70.0.5", "192.0.2.4"),
            lent("fd00:70::1", "FD00:0:0::9", masquerade=False),
        ],
    )
    assert found.lent["fd00:70::1"] == "fd00::9"
    assert found.lent["10.70.0.5"] == "192.0.2.4"
    assert found.unmasked == ("192.0.2.2", "fd00::9")
