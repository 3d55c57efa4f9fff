"""The clusters that are seen, as `liqod discover` shows them."""

import pytest

from liqod.model.view.daemonfacts import SightingFacts
from liqod.model.view.seen import clusters

KEY, OTHER = "ab" * 32, "cd" * 32
AT = ("10.0.0.1:6446",)


@pytest.mark.parametrize(
    ("rows", "verified", "says"),
    [
        (
            [SightingFacts("milan", "mdns", key=KEY, addresses=AT)],
            "signed",
            "`liqod peer milan` asks it",
        ),
        ([SightingFacts("milan", "dns-srv", addresses=AT)], "unsigned", "compare the words"),
        ([SightingFacts("milan", "mdns", unverified="forged", addresses=AT)], "forged", "leave it"),
        (
            [
                SightingFacts("milan", "mdns", key=KEY, addresses=AT, conflict=True),
                SightingFacts("milan", "mdns", key=OTHER, where="milan-2", conflict=True),
            ],
            "conflict",
            "ask its operator for its key",
        ),
        ([SightingFacts("milan", "mdns", key=KEY, own=True)], "signed", "this cluster's id"),
        (
            [SightingFacts("milan", "manual", kubeconfig=True, waits=True)],
            "unsigned",
            "[[peers]] entry",
        ),
        ([SightingFacts("milan", "manual", problem="no route")], "unsigned", "no route"),
        ([SightingFacts("milan", "manual", step="greet")], "unsigned", "being peered with: greet"),
        ([SightingFacts("milan", "manual")], "unsigned", "invitation"),
    ],
    ids=range(9),
)
def test_each_cluster_is_one_with_what_to_do_about_it(rows, verified, says):
    (found,) = clusters(rows)
    assert found.verified == verified
    assert says in found.next


def test_a_peer_needs_nothing():
    (found,) = clusters([SightingFacts("milan", "mdns", key=KEY, addresses=AT, peered=True)])
    assert (found.peer, found.next) == (True, "")


def test_sources_of_one_cluster_are_shown_each_and_the_oldest_first():
    rows = [
        SightingFacts("milan", "mdns", seen=20.0, where="milan", key=KEY, free={"cpu": "4"}),
        SightingFacts("milan", "dns-srv", seen=10.0, where="example.org/milan", proof="DNSSEC"),
        SightingFacts("bern", "mdns", seen=30.0),
    ]
    bern, milan = clusters(rows)
    assert (bern.id, milan.id, milan.since, milan.key) == ("bern", "milan", 10.0, KEY)
    assert [each.plugin for each in milan.sources] == ["dns-srv", "mdns"]
    assert milan.offers == {"cpu": "4"}


def test_of_a_cluster_whose_key_is_configured_no_words_are_to_be_compared():
    (found,) = clusters([SightingFacts("milan", "manual", addresses=AT, named=True)])
    assert (found.verified, found.next) == ("unsigned", "`liqod peer milan` asks it")
