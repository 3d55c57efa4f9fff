"""The endpoints of an import that clients get, as its Service asks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.clusterset.choosing import Nodes, choose
from liqod.model.clusterset.exports import Endpoint, Slice
from liqod.model.clusterset.importing import slice_manifests
from liqod.model.crossing.preference import (
    ELSEWHERE,
    NO_PREFERENCE,
    OWN_FIRST,
    OWN_ONLY,
    Preference,
    preference,
    quotas,
)
from tests.unit.model.clusterset.proxying import used
from tests.unit.model.clusterset.values import BOTH, OWNER, TARGETS, endpoints, export, merged

FIRST, ONLY = Preference(order=OWN_FIRST), Preference(order=OWN_ONLY)
ZONED = Nodes(frozenset({"a", "b"}))
OWN = ("10.244.0.1", "10.244.0.2")
FAR = ("10.81.0.1", "10.81.0.2", "10.81.0.3")


def pods(*addresses: str, name: str = "web-x", **more) -> tuple[Slice, ...]:
    return (endpoints(*addresses, name=name, **more),)


ROME = export("rome", slices=pods(*OWN))
MILAN = export("milan", 1, slices=pods(*FAR))


def published(asked, *exports, nodes=ZONED, silent=()):
    """The EndpointSlices of rome, and the verdict."""
    made = merged(*exports)
    by_cluster = {each.cluster: each for each in exports}
    ordered = [by_cluster[each] for each in made.clusters]
    reached = [each for each in by_cluster if each not in silent]
    choice = choose(asked, ordered, reached, "rome", nodes)
    found = [
        manifest
        for each in choice.exports
        for manifest in slice_manifests(
            *(made, each, BOTH, OWNER, choice.hinted),
            reached=each.cluster not in silent,
        )
    ]
    return found, choice.verdict


def test_nothing_is_chosen_where_nothing_is_asked():
    found, verdict = published(NO_PREFERENCE, ROME, MILAN)
    assert verdict is None
    assert used(found, "a") == {*OWN, *FAR}
    assert not any(each["hints"] for made in found for each in made["endpoints"])


@pytest.mark.parametrize("zone", ["a", "b"])
def test_own_endpoints_come_first_in_every_zone_of_the_cluster(zone):
    found, verdict = published(FIRST, ROME, MILAN)
    assert (verdict.fulfilled, verdict.reason) == (True, "OwnFirst")
    assert used(found, zone) == {*OWN}


def test_others_answer_as_soon_as_no_own_endpoint_is_ready():
    dead = export("rome", slices=pods(*OWN, ready=False))
    found, _ = published(FIRST, dead, MILAN)
    assert used(found, "a") == {*FAR}
    found, _ = published(FIRST, export("rome"), MILAN)
    assert used(found, "a") == {*FAR}


def test_a_zone_of_the_same_name_in_two_clusters_is_not_one():
    mine = export("rome", slices=pods(*OWN, zone="a"))
    theirs = export("milan", 1, slices=pods(*FAR, zone="a"))
    found, _ = published(FIRST, mine, theirs)
    assert used(found, "a") == {*OWN}


def test_where_the_service_prefers_its_zone_that_comes_before_the_rest_of_the_cluster():
    apart = pods(OWN[0], zone="a") + pods(OWN[1], name="web-y", zone="b")
    mine = export("rome", slices=apart, traffic_distribution="PreferClose")
    nodes = Nodes(frozenset({"a", "b", "c"}))
    found, _ = published(FIRST, mine, MILAN, nodes=nodes)
    assert [used(found, each) for each in "abc"] == [{OWN[0]}, {OWN[1]}, {*OWN}]


def test_a_pod_of_this_cluster_at_a_peer_is_not_near():
    away = Slice("web-y", "IPv4", TARGETS, (Endpoint(("10.81.9.9",), node="milan"),))
    mine = export("rome", slices=(*pods(*OWN, node="rome-1"), away))
    nodes = Nodes(frozenset({"a"}), virtual={"milan": "milan"})
    assert used(published(FIRST, mine, MILAN, nodes=nodes)[0], "a") == {*OWN}
    assert used(published(ONLY, mine, MILAN, nodes=nodes)[0], "a") == {*OWN}


@pytest.mark.parametrize(
    ("nodes", "reason", "zone", "got"),
    [
        (Nodes(), "NodesWithoutZone", "", {*OWN, *FAR}),
        (Nodes(without=2), "NodesWithoutZone", "", {*OWN, *FAR}),
        (Nodes(frozenset({"a"}), 1), "NodesWithoutZone", "", {*OWN, *FAR}),
        (Nodes(frozenset({"a"}), 1), "NodesWithoutZone", "a", {*OWN}),
        (Nodes(frozenset("abcdefghi")), "TooManyZones", "a", {*OWN, *FAR}),
        (Nodes(frozenset("abcdefgh")), "OwnFirst", "h", {*OWN}),
    ],
)
def test_what_the_nodes_do_not_permit_is_said_and_done_as_far_as_it_goes(nodes, reason, zone, got):
    found, verdict = published(FIRST, ROME, MILAN, nodes=nodes)
    assert (verdict.reason, verdict.fulfilled) == (reason, reason == "OwnFirst")
    assert used(found, zone) == got
    assert max(len((each["hints"] or {}).get("forZones", ())) for each in _all(found)) <= 8


def _all(found):
    return [each for made in found for each in made["endpoints"]]


def test_own_endpoints_first_needs_an_export_and_an_address():
    assert published(FIRST, MILAN)[1].reason == "NotExported"
    headless = [export("rome", type="Headless", slices=pods(*OWN)), MILAN]
    assert published(FIRST, *headless)[1].reason == "Headless"
    found, verdict = published(Preference(shares={"milan": 10}), *headless)
    assert (verdict.fulfilled, verdict.reason) == (False, "Headless")
    assert used(found, "a") == {*OWN, *FAR}


def test_own_endpoints_only_are_published_alone():
    found, verdict = published(ONLY, ROME, MILAN)
    assert verdict.fulfilled
    assert used(found, "a") == {*OWN}
    assert len(found) == 1
    found, verdict = published(ONLY, MILAN)
    assert (found, verdict.fulfilled) == ([], False)
    assert "no endpoint is used" in verdict.message


def test_an_annotation_that_is_not_understood_changes_nothing_and_is_said():
    asked = preference({"liqod.io/endpoint-preference": "nearest"})
    found, verdict = published(asked, ROME, MILAN)
    assert (verdict.fulfilled, verdict.reason) == (False, "InvalidPreference")
    assert "'nearest'" in verdict.message
    assert used(found, "a") == {*OWN, *FAR}


def numbered(count, base):
    return tuple(f"{base}.{each // 250}.{each % 250 + 1}" for each in range(count))


@pytest.mark.parametrize(
    ("own", "far", "percent", "reason", "kept"),
    [
        (9, 9, 10, "Shares", (9, 1)),
        (4, 4, 50, "Shares", (4, 4)),
        (2, 6, 25, "TooFewEndpoints", (2, 1)),
        (30, 30, 25, "Shares", (30, 10)),
        (1, 20, 90, "Shares", (1, 9)),
        (2, 2, 100, "Shares", (0, 2)),
        (2, 2, 0, "Shares", (2, 0)),
        (0, 3, 10, "TooFewEndpoints", (0, 3)),
        (3, 0, 10, "TooFewEndpoints", (3, 0)),
        (3, 0, 100, "TooFewEndpoints", (3, 0)),
    ],
)
def test_a_share_is_made_by_the_number_of_endpoints(own, far, percent, reason, kept):
    mine = export("rome", slices=pods(*numbered(own, "10.244")))
    theirs = export("milan", 1, slices=pods(*numbered(far, "10.81")))
    found, verdict = published(Preference(shares={"milan": percent}), mine, theirs)
    got = used(found, "a")
    assert (sum(each.startswith("10.244.") for each in got), len(got)) == (kept[0], sum(kept))
    assert (verdict.fulfilled, verdict.reason) == (reason == "Shares", reason)
    if not verdict.fulfilled:
        share = 100 * kept[1] / sum(kept)
        assert f"milan gets {share:.0f} % in place of {percent} %" in verdict.message


def test_the_share_of_a_silent_cluster_goes_to_the_others():
    asked = Preference(shares={"milan": 50, "turin": 25})
    turin = export("turin", 2, slices=pods("10.91.0.1"))
    found, verdict = published(asked, ROME, MILAN, turin, silent=("milan",))
    assert used(found, "a") == {OWN[0], "10.91.0.1"} or used(found, "a") == {OWN[1], "10.91.0.1"}
    assert "milan gets 0 % in place of 50 %" in verdict.message


def test_an_endpoint_that_is_in_two_slices_counts_once():
    twice = (*pods(*OWN), *pods(*OWN, name="web-y"))
    asked = Preference(shares={"milan": 50})
    found, verdict = published(asked, export("rome", slices=twice), MILAN)
    got = used(found, "a")
    assert (len(got & {*OWN}), len(got & {*FAR}), verdict.fulfilled) == (2, 2, True)


def test_the_endpoints_of_a_share_stay_the_same_when_another_one_goes():
    asked = Preference(shares={"milan": 50})
    mine = export("rome", slices=pods(*numbered(5, "10.244")))
    all_ = numbered(40, "10.81")
    first = used(published(asked, mine, export("milan", 1, slices=pods(*all_)))[0], "a")
    gone = next(each for each in all_ if each not in first)
    rest = tuple(each for each in all_ if each != gone)
    again = used(published(asked, mine, export("milan", 1, slices=pods(*rest)))[0], "a")
    assert again == first


GROUPS = ("", "a", "b")


@given(
    shares=st.tuples(st.integers(0, 50), st.integers(0, 50)),
    ready=st.tuples(*[st.integers(0, 400)] * 3),
)
def test_shares_are_as_near_as_endpoints_permit(shares, ready):
    wanted = dict(zip(GROUPS, (100 - sum(shares), *shares), strict=True))
    there = dict(zip(GROUPS, ready, strict=True))
    found = quotas(wanted, there)
    assert all(0 <= found[each] <= there[each] for each in GROUPS)
    assert sum(found.values()) > 0 or not any(ready)
    using = {each: share for each, share in wanted.items() if share and there[each]}
    for each, share in using.items():
        assert found[each] >= 1
        # The scarcest group is whole, and the others miss theirs by half an endpoint or the one
        # that each has.
        least = min(there[one] / using[one] for one in using)
        assert abs(found[each] - least * share) <= 1


SLICES = st.lists(
    st.builds(
        Endpoint,
        addresses=st.integers(1, 250).map(lambda each: (f"10.81.0.{each}",)),
        zone=st.sampled_from(("", "a", "b", "x", ELSEWHERE)),
        ready=st.booleans(),
        node=st.just(""),
    ),
    max_size=6,
    unique_by=lambda each: each.addresses,
).map(lambda found: (Slice("web-x", "IPv4", TARGETS, tuple(found)),))


@given(
    own=SLICES,
    far=SLICES,
    close=st.sampled_from(("", "PreferClose", "PreferSameNode")),
    zones=st.frozensets(st.sampled_from("abcdefgh"), min_size=1),
    foreign_oldest=st.booleans(),
)
def test_no_client_leaves_its_cluster_while_an_own_endpoint_is_ready(
    own, far, close, zones, foreign_oldest
):
    mine = _moved(own, "10.244")
    ages = (1, 0) if foreign_oldest else (0, 1)
    rome = export("rome", ages[0], slices=mine, traffic_distribution=close)
    milan = export("milan", ages[1], slices=far, traffic_distribution=close)
    found, verdict = published(FIRST, rome, milan, nodes=Nodes(zones))
    assert verdict.fulfilled
    here, there = (
        {one.addresses[0] for each in some for one in each.endpoints if one.ready}
        for some in (mine, far)
    )
    for zone in zones:
        got = used(found, zone)
        assert got <= here if here else got == there
        assert got or not here | there


def _moved(found, base):
    return tuple(
        Slice(
            each.name,
            each.family,
            each.ports,
            tuple(
                Endpoint(
                    (f"{base}.0.{one.addresses[0].rsplit('.', 1)[1]}",),
                    "",
                    one.zone,
                    ready=one.ready,
                )
                for one in each.endpoints
            ),
        )
        for each in found
    )
