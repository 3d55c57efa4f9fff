"""Requests by policy to clusters that are seen: only to those that a policy names."""

import pytest

from liqod import config
from liqod.configsections import PeerPolicy
from liqod.discovery.sightings import AdvertContent, KeptSighting, SeenCluster
from liqod.errors import ConfigError
from liqod.handshake.requests.policyrequests import request_for
from liqod.plugins.providers import Sighting

KEY, OTHER = "a" * 64, "b" * 64


def seen(*keys: str, plugin: str = "mdns") -> SeenCluster:
    """A cluster that announces itself with these keys, one after the other."""
    entries = tuple(
        KeptSighting(
            seen=Sighting(cluster_id="milan", plugin=plugin, where=str(place)),
            since=0.0,
            verified=AdvertContent(cluster_id="milan", key=key) if key else None,
        )
        for place, key in enumerate(keys)
    )
    return SeenCluster(cluster_id="milan", entries=entries)


def policy(**more: object) -> PeerPolicy:
    return PeerPolicy(action="ask", **more)  # type: ignore[arg-type]


BORROW = {"cpu": "4"}
NAMED = policy(key=KEY, borrow=BORROW)
LOCAL = policy(cluster_id="mil*", discovery="mdns", borrow=BORROW)


@pytest.mark.parametrize("policies", [(), (policy(),), (policy(key=KEY),), (policy(label="a=*"),)])
def test_a_sighting_begins_nothing_where_no_policy_borrows(policies):
    assert request_for(policies, seen(KEY)) is None


@pytest.mark.parametrize(
    ("policies", "keys", "asked"),
    [
        ((NAMED,), (KEY,), KEY),
        ((NAMED,), (OTHER,), None),
        ((NAMED,), ("",), None),
        ((LOCAL,), (KEY,), KEY),
        ((LOCAL,), ("",), None),
        ((NAMED,), (OTHER, KEY), KEY),
        ((LOCAL,), (OTHER, KEY), None),
        ((policy(), LOCAL), (KEY,), KEY),
        ((PeerPolicy(action="deny", cluster_id="m*"), LOCAL), (KEY,), None),
        ((LOCAL, PeerPolicy(action="deny", cluster_id="m*")), (KEY,), KEY),
        ((policy(cluster_id="rome"), LOCAL), (KEY,), KEY),
        ((policy(label="site=*", cluster_id="milan", discovery="*", borrow=BORROW),), (KEY,), None),
    ],
)
def test_the_first_that_fits_says_who_is_asked_and_by_which_key(policies, keys, asked):
    found = request_for(policies, seen(*keys))
    assert (found.key if found is not None else None) == asked
    if found is not None:
        assert (found.name, found.cluster_id, found.resources) == ("milan", "milan", BORROW)


def test_another_plugin_than_the_named_one_is_no_word():
    assert request_for((LOCAL,), seen(KEY, plugin="dns_srv")) is None


@pytest.mark.parametrize(
    "text",
    [
        'borrow = {cpu = "4"}',
        'borrow = {cpu = "4"}\ncluster_id = "*"',
        'borrow = {cpu = "4"}\ndiscovery = "*"',
        f'borrow = {{cpu = "much"}}\nkey = "{KEY}"',
        f'borrow = {{cpu = "4"}}\nkey = "{KEY}"\naction = "deny"',
    ],
)
def test_whoever_is_to_be_asked_is_named_and_not_denied(text):
    action = "" if "action" in text else 'action = "ask"\n'
    with pytest.raises(ConfigError, match="policies, entry 1"):
        config.parse(f"[[policies]]\n{action}{text}\n")
