"""The ways from pods at one peer to an endpoint at another, as both sides decide them."""

import msgspec
import pytest

from liqod.model.crossing.thirdclusters import (
    MOST_LETTERS,
    MOST_OWNERS,
    Chosen,
    Facts,
    ThirdAddresses,
    ThirdCluster,
    Transit,
    Way,
    annotations_for,
    another_key,
    as_its_own,
    chosen,
    offered,
    permits,
    third_addresses,
)
from liqod.model.ids import cluster_id_problem
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.model.network.remapping import Remapped

POD = "10.244.0.0/16"
RANGES = PeerRanges(
    own=ClusterCidrs(pod=(POD,), external=("10.70.0.0/16",)),
    peer=ClusterCidrs(pod=(POD, "fd00::/64"), external=("10.70.0.0/16",)),
    seen=ClusterCidrs(pod=("10.71.0.0/16", "fd01::/64"), external=("10.72.0.0/16",)),
)
TURIN = ThirdCluster("turin", "tunnel", RANGES)
THROUGH = Transit("10.70.0.9")
CLOSED = Transit(refusal="[network] transit does not name milan and turin")


def way(address="10.71.0.5", owner=TURIN, *, asked=True, transit=CLOSED):
    return offered(owner, "milan", address, asked=asked, transit=transit)


def test_a_reader_is_told_the_address_that_the_cluster_itself_uses():
    """Both have the same pod network, and Liqo looks the address up in that cluster's own range."""
    assert way() == Way(direct="10.244.0.5")
    assert way("fd01::5") == Way(direct="fd00::5")


def test_both_ways_are_offered_where_both_may_be():
    assert way(transit=THROUGH) == Way("10.244.0.5", "10.70.0.9")


def test_without_the_annotation_the_way_is_through_the_consumer():
    assert way(asked=False, transit=THROUGH) == Way(by_way="10.70.0.9")
    found = way(asked=False)
    assert found.problem.startswith("the Service has no annotation liqo.io/use-direct-connections")
    assert CLOSED.refusal in found.problem


def test_while_the_way_through_the_consumer_is_awaited_nothing_is_wrong():
    waits = Transit(refusal="it has no address for milan yet", awaited=True)
    assert way(asked=False, transit=waits) == Way(problem=waits.refusal, awaited=True)
    assert way(transit=waits) == Way(direct="10.244.0.5")


@pytest.mark.parametrize(
    ("owner", "address", "word"),
    [
        (ThirdCluster("turin"), "10.71.0.5", "joined no network with turin"),
        (ThirdCluster("turin", "tunnel"), "10.71.0.5", "joined no network with turin"),
        (ThirdCluster("turin", "none"), "10.71.0.5", "joined no network with turin"),
        # What turin lends, and this cluster's own pods, are no pods of turin's.
        (TURIN, "10.72.0.5", "is no pod's of turin"),
        (TURIN, "10.244.0.5", "is no pod's of turin"),
        (TURIN, "nonsense", "is no pod's of turin"),
    ],
)
def test_no_address_is_told_that_is_no_pods_of_that_cluster(owner, address, word):
    assert as_its_own(owner, address).address == ""
    found = way(address, owner)
    assert found[:2] == ("", "")
    assert word in found.problem
    assert CLOSED.refusal in found.problem


def test_a_routed_pod_has_one_address_everywhere():
    assert way("10.9.0.5", ThirdCluster("turin", "routed")) == Way(direct="10.9.0.5")


DIRECT, THERE = Remapped("10.81.0.5"), Remapped("10.82.0.9")


def choice(*, permitted=True, joined="", reaches=True, direct=DIRECT, by_way=None):
    return chosen("turin", "rome", Facts(permitted, joined, reaches, direct, by_way))


@pytest.mark.parametrize("reaches", [True, None])
def test_the_direct_way_is_taken_while_it_carries(reaches):
    assert choice(reaches=reaches, by_way=THERE) == Chosen("10.81.0.5", direct=True)


def test_the_way_through_the_consumer_is_taken_where_the_direct_one_is_none():
    assert choice(reaches=False, by_way=THERE) == Chosen("10.82.0.9")
    assert choice(permitted=False, by_way=THERE) == Chosen("10.82.0.9")
    assert choice(joined="no network", direct=Remapped("", "no"), by_way=THERE).address
    assert choice(direct=Remapped("", "not of its ranges"), by_way=THERE) == Chosen("10.82.0.9")


def test_one_that_is_down_alone_stays_and_is_shown_as_down():
    assert choice(reaches=False) == Chosen("10.81.0.5", direct=True)
    assert choice(reaches=False, by_way=Remapped("", "none of its own")).direct


def test_without_a_permission_nothing_of_another_cluster_is_published():
    found = choice(permitted=False)
    assert (found.address, found.expected) == ("", True)
    assert "direct_connections of [[peers]] rome does not name turin" in found.problem
    bad = choice(permitted=False, by_way=Remapped("", "it lies in none of the ranges"))
    assert bad.address == ""


def test_what_is_missing_is_said_and_a_wrong_address_is_no_expected_thing():
    missing = choice(joined="no network with turin", direct=Remapped("", "x"))
    assert missing == Chosen(problem="no network with turin", expected=True)
    wrong = choice(direct=Remapped("", "it lies in none of the ranges"))
    assert wrong == Chosen(problem="it lies in none of the ranges")


def test_a_permission_names_clusters_or_all():
    assert permits(("turin",), "turin")
    assert permits(("*",), "turin")
    assert not permits(("turin",), "genoa")
    assert not permits((), "turin")


def test_what_one_side_writes_the_other_reads():
    notes = annotations_for("turin", {"10.244.0.6": "10.70.0.9", "10.244.0.5": ""})
    assert msgspec.json.decode(notes["liqo.io/direct-connections-data"]) == {
        "clusterAddresses": {"turin": ["10.244.0.5", "10.244.0.6"]}  # as Liqo has it
    }
    found = third_addresses(notes)
    assert found.owners == dict.fromkeys(("10.244.0.5", "10.244.0.6"), frozenset({"turin"}))
    assert found.by_way == {"10.244.0.6": "10.70.0.9"}
    assert "liqod.io/transit-addresses" not in annotations_for("turin", {"10.244.0.5": ""})
    assert third_addresses({}) == ThirdAddresses()


def test_the_keys_by_which_a_third_cluster_is_known_cross_with_its_addresses():
    found = third_addresses(annotations_for("turin", {"10.244.0.5": ""}, {"b" * 64, "a" * 64}))
    assert found.keys == {"turin": frozenset({"a" * 64, "b" * 64})}
    wrong = annotations_for("turin", {"10.244.0.5": ""}) | {"liqod.io/direct-connections-keys": "7"}
    assert "cannot be read" in third_addresses(wrong).problem


@pytest.mark.parametrize(
    ("told", "known", "refused"),
    [
        (["a"], ["b"], True),
        (["a", "b"], ["b"], False),  # one of the two has not followed yet
        ([], ["b"], False),
        (["a"], [], False),
        (["a"], None, True),
        ([], None, False),
    ],
    ids=["another", "one-follows", "not-told", "not-known", "not-read", "neither"],
)
def test_clusters_of_one_id_are_two_where_both_sides_know_other_keys(told, known, refused):
    assert bool(another_key("turin", told, known)) == refused


@pytest.mark.parametrize(
    "data", ["", "nonsense", "[]", '{"clusterAddresses": []}', '{"clusterAddresses": {"x": [7]}}']
)
def test_what_cannot_be_read_is_nobodys(data):
    found = third_addresses({"liqo.io/direct-connections-data": data})
    assert "cannot be read" in found.problem
    good = '{"clusterAddresses": {"turin": ["10.244.0.5"]}}'
    notes = {"liqo.io/direct-connections-data": good, "liqod.io/transit-addresses": data or "no"}
    assert "cannot be read" in third_addresses(notes).problem


def test_an_address_of_two_clusters_is_of_both():
    data = '{"clusterAddresses": {"turin": ["10.0.0.5"], "genoa": ["10.0.0.5"]}}'
    found = third_addresses({"liqo.io/direct-connections-data": data})
    assert found.owners == {"10.0.0.5": frozenset({"turin", "genoa"})}


def test_of_an_address_of_many_clusters_no_more_is_kept_than_shows_that():
    many = {"clusterAddresses": {f"c{n}": ["10.0.0.5"] for n in range(10_000)}}
    data = msgspec.json.encode(many).decode()
    found = third_addresses({"liqo.io/direct-connections-data": data})
    assert len(found.owners["10.0.0.5"]) == MOST_OWNERS == 2


def test_a_long_text_in_place_of_an_id_is_cut_and_is_no_clusters():
    """The reason of each address would have it, and there may be thousands."""
    data = msgspec.json.encode({"clusterAddresses": {"c" * 60_000: ["10.0.0.5"]}}).decode()
    found = third_addresses({"liqo.io/direct-connections-data": data})
    [[owner]] = found.owners.values()
    assert len(owner) == MOST_LETTERS
    assert cluster_id_problem(owner) is not None
    assert cluster_id_problem(owner[1:]) is None
