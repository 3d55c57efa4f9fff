"""The Service of the set that several clusters' exports make."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.clusterset.exports import Export, Port
from liqod.model.clusterset.importing import import_manifest, slice_manifests
from liqod.model.clusterset.merging import merge, precedence
from tests.unit.model.clusterset.values import BOTH, HTTP, OWNER, export, exports, merged, sets


def test_without_an_export_there_is_no_service():
    assert merge(()) is None


@given(st.data(), sets())
def test_the_order_in_which_exports_arrive_does_not_matter(data, found):
    other = data.draw(st.permutations(found))
    assert merge(other) == merge(found)


@given(sets(least=2))
def test_an_export_that_comes_and_goes_leaves_nothing_behind(found):
    *rest, last = found
    before = merged(*rest)
    between = merged(*rest, last)
    assert last.cluster in between.clusters
    assert merged(*(each for each in found if each is not last)) == before


@given(sets(), exports("zurich"))
def test_a_younger_export_changes_nothing_for_running_traffic(found, young):
    young = msgspec.structs.replace(young, created="2026-11-28T11:00:00Z")
    before, after = merged(*found), merged(*found, young)
    assert after.oldest == before.oldest
    numbers = [(each.protocol, each.port) for each in after.ports]
    assert numbers[: len(before.ports)] == [(each.protocol, each.port) for each in before.ports]


@given(sets())
def test_no_two_ports_have_a_name_or_a_number_in_common(found):
    ports = merged(*found).ports
    assert len({each.name for each in ports}) == len(ports)
    assert len({(each.protocol, each.port) for each in ports}) == len(ports)
    assert len(ports) == 1 or all(each.name for each in ports)


@given(sets())
def test_each_number_of_an_exporter_is_a_port_of_the_set_or_its_name_is(found):
    ports = merged(*found).ports
    names = {each.name for each in ports}
    numbers = {(each.protocol, each.port) for each in ports}
    for port in (port for each in found for port in each.ports):
        kept = (port.protocol, port.port) in numbers or port.name in names
        assert kept or (not port.name and len(ports) > 1)


@given(sets())
def test_slices_have_ports_of_the_set_only_each_once_and_of_the_same_protocol(found):
    made = merged(*found)
    known = {(each.name, each.protocol) for each in made.ports}
    for each in found:
        for manifest in slice_manifests(made, each, BOTH, OWNER, reached=True):
            ports = [(port.get("name", ""), port["protocol"]) for port in manifest["ports"]]
            assert len(set(ports)) == len(ports)
            assert set(ports) <= known


@given(sets())
def test_there_are_conflicts_only_where_exporters_differ(found):
    made = merged(*found)
    alike = [msgspec.structs.replace(made.oldest, cluster=each.cluster) for each in found]
    assert merged(*alike).conflicts == ()
    for each in made.conflicts:
        assert each.winner == min(found, key=precedence).cluster
        assert set(each.others) <= set(made.clusters) - {each.winner}


def test_the_oldest_export_wins_and_the_first_id_of_the_same_second():
    assert merged(export("rome", 2), export("milan", 1)).clusters == ("milan", "rome")
    assert merged(export("rome", 1), export("milan", 1)).clusters == ("milan", "rome")


DIFFERENT = [
    ("PortConflict", {"ports": (Port(81, "http"),)}),
    ("TypeConflict", {"type": "Headless"}),
    ("SessionAffinityConflict", {"session_affinity": "ClientIP", "affinity_timeout": 60}),
    ("InternalTrafficPolicyConflict", {"internal_traffic_policy": "Local"}),
    ("TrafficDistributionConflict", {"traffic_distribution": "PreferClose"}),
    ("IPFamilyConflict", {"families": ("IPv6",)}),
    ("LabelsConflict", {"labels": {"a": "1"}}),
    ("AnnotationsConflict", {"annotations": {"a": "1"}}),
]


@pytest.mark.parametrize(("reason", "more"), DIFFERENT, ids=[each for each, _ in DIFFERENT])
def test_a_difference_is_a_conflict_with_its_reason(reason, more):
    (found,) = merged(export("rome", 1), export("milan", 2, **more)).conflicts
    assert found.reason == reason
    assert (found.winner, found.others, found.total) == ("rome", ("milan",), 2)
    # And the oldest has won, whichever it is.
    assert merged(export("rome", 2), export("milan", 1, **more)).oldest == export(
        "milan", 1, **more
    )


def test_the_timeout_of_an_affinity_conflicts_only_where_both_have_one():
    long = {"session_affinity": "ClientIP", "affinity_timeout": 10800}
    short = {"session_affinity": "ClientIP", "affinity_timeout": 60}
    (found,) = merged(export("rome", 1, **long), export("milan", 2, **short)).conflicts
    assert found.reason == "SessionAffinityConfigConflict"
    (found,) = merged(export("rome", 1, **long), export("milan", 2)).conflicts
    assert found.reason == "SessionAffinityConflict"


def test_the_affinity_of_a_headless_service_is_no_conflict():
    sticky = {"session_affinity": "ClientIP", "affinity_timeout": 60}
    headless = export("rome", 1, type="Headless"), export("milan", 2, type="Headless", **sticky)
    assert merged(*headless).conflicts == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"ports": (HTTP, Port(90, "b"))}, {"ports": (Port(90, "b"), HTTP)}),
        ({"labels": {"a": "1", "b": "2"}}, {"labels": {"b": "2", "a": "1"}}),
        ({"families": ("IPv4",)}, {"families": BOTH}),
        ({"families": BOTH}, {"families": BOTH[::-1]}),
    ],
    ids=["ports", "labels", "wider", "families"],
)
def test_an_order_alone_is_no_conflict(one, other):
    assert merged(export("rome", 1, **one), export("milan", 2, **other)).conflicts == ()


def ports_of(*found: Export) -> list[tuple[str, str, int]]:
    return [(each.name, each.protocol, each.port) for each in merged(*found).ports]


def test_ports_are_those_of_all_and_each_exporter_keeps_its_own():
    old = export("rome", 1, ports=(HTTP,))
    young = export("milan", 2, ports=(HTTP, Port(142, "sctp", "SCTP")))
    assert ports_of(old, young) == [("http", "TCP", 80), ("sctp", "SCTP", 142)]
    assert merged(old, young).names == {
        "rome": {"http": "http"},
        "milan": {"http": "http", "sctp": "sctp"},
    }


def test_a_port_of_another_number_is_reached_by_its_name():
    old, young = export("rome", 1), export("milan", 2, ports=(Port(81, "http"),))
    assert ports_of(old, young) == [("http", "TCP", 80)]
    assert merged(old, young).names["milan"] == {"http": "http"}


def test_a_port_of_another_name_is_reached_by_its_number():
    old, young = export("rome", 1), export("milan", 2, ports=(Port(80, "web"),))
    assert ports_of(old, young) == [("http", "TCP", 80)]
    assert merged(old, young).names["milan"] == {"web": "http"}


def test_the_name_counts_before_the_number():
    old = export("rome", 1)
    young = export("milan", 2, ports=(Port(80, "web"), Port(8080, "http")))
    assert ports_of(old, young) == [("http", "TCP", 80)]
    assert merged(old, young).names["milan"] == {"http": "http"}


def test_a_port_of_another_protocol_under_the_same_name_is_not_reached():
    old, young = export("rome", 1), export("milan", 2, ports=(Port(80, "http", "UDP"),))
    assert ports_of(old, young) == [("http", "TCP", 80)]
    assert merged(old, young).names["milan"] == {}


def test_a_port_without_a_name_gets_one_beside_others():
    old = export("rome", 1, ports=(Port(80),))
    young = export("milan", 2, ports=(Port(81, "tcp-80"),))
    assert ports_of(old) == [("", "TCP", 80)]
    assert ports_of(old, young) == [("tcp-80-x", "TCP", 80), ("tcp-80", "TCP", 81)]
    assert merged(old, young).names == {"rome": {"": "tcp-80-x"}, "milan": {"tcp-80": "tcp-80"}}


def test_a_conflict_is_said_in_words_with_few_names():
    many = [export(f"c{number}", 2, labels={"a": "1"}) for number in range(7)]
    (found,) = merged(export("rome", 1), *many).conflicts
    assert str(found) == (
        "exported labels: that of rome is used; 7 of 8 clusters have another "
        "(c0, c1, c2, c3, c4 and 2 more)"
    )


def test_a_family_does_not_go_when_a_cluster_without_it_joins():
    old, young = export("rome", 1, families=BOTH), export("milan", 2)
    made = merged(old, young)
    assert import_manifest(made, BOTH)["spec"]["ipFamilies"] == list(BOTH)
    assert [each.reason for each in made.conflicts] == ["IPFamilyConflict"]
