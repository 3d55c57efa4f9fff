"""Policies for requests: accepted without a person, left to the inbox, or refused; and how many."""

import pytest

from liqod.configsections import PeerPolicy
from liqod.errors import ConfigError
from liqod.handshake.requests.policies import (
    PolicySubject,
    bounded,
    decided,
    fits,
    judge,
    judge_invited,
    whole,
)

KEY, OTHER = "a" * 64, "b" * 64
ROME = PolicySubject("rome", KEY, frozenset({"mdns"}), {"region": "eu-south"})
DEFAULTS = {"cpu": "4", "memory": "8Gi", "pods": "110"}


@pytest.mark.parametrize(
    ("named", "fitting"),
    [
        ({}, True),
        ({"cluster_id": "rome"}, True),
        ({"cluster_id": "r*"}, True),
        ({"cluster_id": "ROME"}, False),
        ({"cluster_id": "milan"}, False),
        ({"key": KEY}, True),
        ({"key": OTHER}, False),
        ({"cluster_id": "rome", "key": OTHER}, False),
        ({"discovery": "mdns"}, True),
        ({"discovery": "m*"}, True),
        ({"discovery": "dns_srv"}, False),
        ({"label": "region=eu-*"}, True),
        ({"label": "region=us-*"}, False),
        ({"label": "zone=*"}, False),
        ({"cluster_id": "rome", "label": "region=eu-south", "discovery": "*"}, True),
    ],
)
def test_a_policy_fits_where_all_that_it_names_does(named, fitting):
    assert fits(PeerPolicy("ask", **named), ROME) is fitting


def test_a_key_that_nobody_has_seen_is_of_no_discovery():
    assert not fits(PeerPolicy("auto", discovery="*"), PolicySubject("rome", KEY))


@pytest.mark.parametrize(
    ("policies", "asked", "action", "reason"),
    [
        ((), {}, "ask", "no policy"),
        ((PeerPolicy("auto"),), {"cpu": "2"}, "auto", "policy 1"),
        ((PeerPolicy("deny"),), {}, "deny", "policy 1 denies"),
        ((PeerPolicy("ask"), PeerPolicy("auto")), {}, "ask", "policy 1 leaves"),
        ((PeerPolicy("deny", "milan"), PeerPolicy("auto")), {}, "auto", "policy 2"),
        ((PeerPolicy("auto", key=OTHER),), {}, "ask", "no policy"),
        ((PeerPolicy("auto"),), {"cpu": "5"}, "ask", "at most cpu 4, and cpu 5 is asked for"),
        ((PeerPolicy("auto", max_resources={"cpu": "8"}),), {"cpu": "8"}, "auto", ""),
        ((PeerPolicy("auto", max_resources={"cpu": "8"}),), {"cpu": "8001m"}, "ask", "cpu 8"),
        ((PeerPolicy("auto"),), {"nvidia.com/gpu": "1"}, "ask", "nvidia.com/gpu 0"),
    ],
)
def test_the_first_policy_that_fits_counts_and_caps(policies, asked, action, reason):
    verdict = judge(policies, ROME, asked, DEFAULTS)
    assert verdict.action == action
    assert reason in verdict.reason


def test_what_is_granted_names_every_resource():
    verdict = judge((PeerPolicy("auto"),), ROME, {"cpu": "500m"}, DEFAULTS)
    assert verdict.granted == {"cpu": "500m", "memory": "8Gi", "pods": "110"}


@pytest.mark.parametrize("policy", [PeerPolicy("auto"), PeerPolicy("ask")])
def test_whoever_was_revoked_is_left_to_a_person(policy):
    gone = PolicySubject("rome", KEY, revoked=True)
    assert judge((policy,), gone, {}, DEFAULTS).action == "ask"
    invited = judge_invited((), gone, {}, {"cpu": "1"}, DEFAULTS)
    assert (invited.action, invited.reason) == ("ask", "it was revoked here")


def test_an_invitation_is_good_for_what_it_offers_and_no_more():
    offered = {"cpu": "2", "example.com/x": "1"}
    granted = judge_invited((), ROME, {"cpu": "8", "nvidia.com/gpu": "3"}, offered, DEFAULTS)
    assert granted.action == "auto"
    assert granted.granted == {"cpu": "2", "memory": "8Gi", "pods": "110", "example.com/x": "1"}
    assert judge_invited((), ROME, {"cpu": "1"}, offered, DEFAULTS).granted["cpu"] == "1"


def test_a_policy_that_denies_goes_before_an_invitation():
    verdict = judge_invited((PeerPolicy("deny", "r*"),), ROME, {}, {}, DEFAULTS)
    assert verdict.action == "deny"
    other = judge_invited((PeerPolicy("deny", "milan"),), ROME, {}, {}, DEFAULTS)
    assert other.action == "auto"


@pytest.mark.parametrize(
    ("given", "cpu"), [({}, "8"), ({"cpu": "2"}, "2"), ({"cpu": "99"}, "8"), ({"cpu": 0}, "0")]
)
def test_a_person_may_grant_less_than_was_asked_and_never_more(given, cpu):
    granted = decided({"cpu": "8"}, given, DEFAULTS)
    assert granted == {"cpu": cpu, "memory": "8Gi", "pods": "110"}


def test_a_person_grants_nothing_that_nobody_asked_for():
    assert "nvidia.com/gpu" not in decided({}, {"nvidia.com/gpu": "1"}, DEFAULTS)


@pytest.mark.parametrize("text", ["-1", "many", "1e99"])
def test_nonsense_is_refused(text):
    with pytest.raises(ConfigError):
        whole({"cpu": text}, DEFAULTS)


def test_what_is_not_in_the_bound_is_not_granted():
    assert bounded({"cpu": "1", "x": "1"}, {"cpu": "4", "memory": "1Gi"}) == {
        "cpu": "1",
        "memory": "1Gi",
    }
