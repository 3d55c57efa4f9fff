"""Sightings that are kept, and the merging of several of one cluster."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.discovery.sightings import (
    MOST_ADDRESSES,
    MOST_SOURCES,
    AdvertContent,
    KeptSighting,
    SeenCluster,
    SightingRank,
    SightingStore,
)
from liqod.plugins.providers import Sighting

A, B, C = "10.0.0.1:6446", "10.0.0.2:6446", "10.0.0.3:6446"


def entry(
    cluster: str = "milan",
    plugin: str = "mdns",
    where: str = "",
    *,
    key: str = "",
    serial: int = 0,
    signed: tuple[str, ...] = (),
    worth: SightingRank | None = None,
    at: tuple[str, ...] = (),
    **more: Any,
) -> KeptSighting:
    verified = AdvertContent(cluster_id=cluster, key=key, serial=serial, addresses=signed)
    seen = Sighting(cluster_id=cluster, plugin=plugin, where=where, addresses=at)
    return KeptSighting(
        seen=seen,
        since=more.pop("since", 0.0),
        verified=verified if key else None,
        worth=worth
        if worth is not None
        else SightingRank.VERIFIED
        if key
        else SightingRank.CLAIMED,
        **more,
    )


def seen(*entries: KeptSighting) -> SeenCluster:
    return SeenCluster(cluster_id="milan", entries=entries)


@pytest.mark.parametrize(
    ("entries", "keys", "addresses"),
    [
        ([entry(at=(A,))], (), (A,)),
        ([entry(key="k", at=(A,))], ("k",), (A,)),
        # What the cluster says of itself goes first, then where its advert is seen, then the rest.
        ([entry(at=(A,)), entry(key="k", signed=(B,), at=(C,))], ("k",), (B, C, A)),
        # An older advert of the same key, which a source still shows, comes after the newest.
        (
            [entry(key="k", serial=1, signed=(A,), at=(C,)), entry(key="k", serial=2, signed=(B,))],
            ("k",),
            (B, A, C),
        ),
        # One that is replayed elsewhere adds a place at the end, where the key will be missing.
        (
            [entry(key="k", signed=(A,), at=(A,)), entry(key="k", signed=(A,), at=(C,))],
            ("k",),
            (A, C),
        ),
        # Two say that they are milan: neither is used.
        ([entry(key="k", at=(A,)), entry(key="other", at=(B,))], ("k", "other"), ()),
        ([entry(problem="forged", at=(A,))], (), ()),
    ],
    ids=range(7),
)
def test_what_several_sources_come_to(entries, keys, addresses):
    found = seen(*entries)
    assert found.keys == keys
    assert found.conflict == (len(keys) > 1)
    assert found.addresses() == addresses


def test_in_a_conflict_who_knows_the_right_key_finds_its_cluster():
    found = seen(entry(key="k", at=(A,)), entry(key="other", at=(B,)))
    assert found.addresses("k") == (A,)
    assert found.addresses("other") == (B,)
    assert found.addresses("a third") == ()
    assert found.key == ""


def test_one_source_with_many_addresses_does_not_hide_the_others():
    many = tuple(f"10.9.0.{number}:6446" for number in range(8))
    found = seen(entry(key="k", at=many), entry(key="k", where="b", at=(A,)))
    assert A in found.addresses()[:2]
    assert len(found.addresses()) == MOST_ADDRESSES


def test_an_advert_with_many_addresses_leaves_room_for_where_other_sources_see_its_key():
    many = tuple(f"10.9.0.{number}:6446" for number in range(16))
    dns = entry(key="k", serial=1, signed=(A,), where="dns", at=(B,))
    found = seen(entry(key="k", serial=2, signed=many), dns, entry(where="x", at=(C,))).addresses()
    assert found[0] == many[0]
    assert {A, B} < set(found)
    assert len(found) == MOST_ADDRESSES


def test_another_keys_advert_adds_no_address_where_the_key_is_known():
    found = seen(entry(key="k", signed=(A,)), entry(key="other", signed=(B,), at=(C,)))
    assert found.addresses("k") == (A,)


def test_a_sighting_that_changes_keeps_since_when_it_is_seen():
    book = SightingStore()
    book.take(entry(since=1.0))
    book.take(entry(since=2.0, at=(A,)))
    found = book.seen("milan")
    assert found is not None
    assert (found.entries[0].since, found.addresses()) == (1.0, (A,))


def test_each_source_ends_by_itself():
    book = SightingStore()
    book.take(entry(where="a", until=10.0))
    book.take(entry(where="b", until=20.0))
    book.take(entry(where="c"))
    assert book.ends
    assert [each.seen.where for each in book.expired(10.0)] == ["a"]
    assert [each.seen.where for each in book.expired(30.0)] == ["b"]
    assert not book.ends
    assert book.drop(("mdns", "milan", "c")) is not None
    assert book.seen("milan") is None
    assert book.clusters() == ()


def test_a_flood_of_one_plugin_leaves_the_others_their_share():
    book = SightingStore(most=8)
    for number in range(20):
        book.take(entry(f"loud-{number}", "mdns", key=f"k{number}"))
    for number in range(20):
        book.take(entry(f"quiet-{number}", "dns_srv"))
    plugins = [key[0] for key in book.entries]
    assert (plugins.count("mdns"), plugins.count("dns_srv")) == (4, 4)
    # The first stay: who comes in a flood drives out nobody who was there before.
    assert ("mdns", "loud-0", "") in book.entries


def test_what_is_worth_more_goes_first():
    book = SightingStore(most=2)
    assert book.take(entry("a")) == ()
    assert book.take(entry("b")) == ()
    assert book.take(entry("c")) is None
    assert [each.seen.cluster_id for each in book.take(entry("d", key="k")) or ()] == ["b"]
    gone = book.take(entry("e", worth=SightingRank.NAMED))
    assert [each.seen.cluster_id for each in gone or ()] == ["a"]
    assert book.take(entry("f", key="k")) is None


def test_many_sources_of_one_id_do_not_hide_the_one_that_is_signed():
    book = SightingStore()
    for number in range(MOST_SOURCES + 3):
        book.take(entry(where=f"{number}"))
    assert len(book.entries) == MOST_SOURCES
    assert book.take(entry(where="own", key="k")) is not None
    found = book.seen("milan")
    assert found is not None
    assert found.key == "k"
    assert len(book.entries) == MOST_SOURCES


SIGHTINGS = st.lists(
    st.tuples(
        st.sampled_from(["mdns", "dns_srv", "manual"]),
        st.sampled_from(["milan", "rome", "oslo", "bern", "kyoto"]),
        st.sampled_from(["", "a", "b"]),
        st.sampled_from(["", "k", "l"]),
        st.booleans(),
    ),
    max_size=60,
)


@given(SIGHTINGS)
def test_whatever_is_seen_the_book_stays_within_its_bounds_and_is_of_one_piece(sightings):
    book, most = SightingStore(most=6), 6
    for plugin, cluster, where, key, gone in sightings:
        if gone:
            book.drop((plugin, cluster, where))
        else:
            taken = book.take(entry(cluster, plugin, where, key=key))
            assert (taken is None) == ((plugin, cluster, where) not in book.entries)
        assert len(book.entries) <= most
        found = [book.seen(each) for each in book.clusters()]
        kept = list(itertools.chain.from_iterable(each.entries for each in found if each))
        assert {each.key for each in kept} == set(book.entries)
        assert all(each and len(each.addresses()) <= MOST_ADDRESSES for each in found)


@given(SIGHTINGS)
def test_no_plugin_that_has_less_than_its_share_is_turned_away(sightings):
    book = SightingStore(most=6)
    for plugin, cluster, where, key, _ in sightings:
        taken = book.take(entry(cluster, plugin, where, key=key))
        if taken is None:
            counts = [
                sum(each[0] == name for each in book.entries)
                for name in ("mdns", "dns_srv", "manual")
            ]
            mine = sum(each[0] == plugin for each in book.entries)
            assert mine + 1 >= max(counts)
