"""Sharing between the slices of one consumer: grants stay, and growth is denied by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.config import GuestSettings
from liqod.model.objects import quantities
from liqod.provider.slices.allocation import Allocation, SliceRequest, allocate, within_number

EIGHT = GuestSettings(max_resources={"cpu": "8"})


def request(name: str, since: str, **resources: str) -> SliceRequest:
    return SliceRequest(name, since, resources)


def had(name: str, since: str, granted: dict[str, str], **resources: str) -> SliceRequest:
    return SliceRequest(name, since, resources, granted)


def test_the_oldest_slices_are_kept():
    requests = [request("new", "2026-03"), request("b", "2026-01"), request("a", "2026-01")]
    assert within_number(requests, GuestSettings(max_slices=2)) == {"a", "b"}


def test_slices_share_what_one_consumer_may_have_in_the_order_of_their_age():
    requests = [
        request("third", "2026-03", cpu="2", memory="1Ti"),
        request("first", "2026-01", cpu="4"),
        request("second", "2026-02", cpu="6"),
    ]
    found = allocate(requests, EIGHT)
    assert {name for name, allocation in found.items() if allocation.excess} == {"second"}
    assert found["second"].kept is None
    assert "cpu 8 in all its slices" in found["second"].excess
    assert "max_resources under [guests]" in found["second"].excess


def test_nothing_is_gained_by_asking_for_less_than_nothing():
    requests = [
        request("a", "1", cpu="-100"),
        request("b", "2", cpu="nonsense"),
        request("c", "3", cpu="9"),
    ]
    assert [
        name for name, allocation in allocate(requests, EIGHT).items() if allocation.excess
    ] == ["c"]
    assert allocate([SliceRequest("gold", "1", None)], EIGHT) == {}


def test_what_another_class_granted_leaves_less_to_grow_and_takes_nothing_away():
    gold = SliceRequest("gold", "1", None, {"cpu": "6"})
    found = allocate([gold, request("a", "2", cpu="2"), request("b", "3", cpu="1")], EIGHT)
    assert not found["a"].excess
    assert found["b"].excess
    found = allocate([gold, had("a", "2", {"cpu": "4"}, cpu="5")], EIGHT)
    assert found["a"].kept == {"cpu": "4"}


def test_who_asks_for_too_much_more_keeps_what_it_has():
    found = allocate([had("a", "1", {"cpu": "4", "memory": "1Gi"}, cpu="100", memory="2Gi")], EIGHT)
    assert found["a"].kept == {"cpu": "4", "memory": "2Gi"}
    assert "cpu 8 in all its slices" in found["a"].excess


def test_the_growth_of_an_older_slice_takes_nothing_from_a_younger_one():
    found = allocate(
        [had("a", "1", {"cpu": "4"}, cpu="8"), had("b", "2", {"cpu": "4"}, cpu="4")], EIGHT
    )
    assert found["a"].kept == {"cpu": "4"}
    assert not found["b"].excess


def test_who_asks_for_less_gives_it_to_the_next():
    found = allocate([had("a", "1", {"cpu": "8"}, cpu="2"), request("b", "2", cpu="6")], EIGHT)
    assert not any(allocation.excess for allocation in found.values())


def test_what_was_granted_goes_where_the_bound_itself_was_lowered():
    found = allocate([had("a", "1", {"cpu": "16"}, cpu="16")], EIGHT)
    assert found["a"].excess
    assert found["a"].kept is None


def test_nonsense_is_asked_by_one_that_keeps_what_it_has():
    found = allocate([had("a", "1", {"cpu": "4"}, cpu="lots"), request("b", "2", cpu="5")], EIGHT)
    assert found["a"] == Allocation(kept={"cpu": "4"})
    assert found["b"].excess


def test_a_resource_that_it_never_had_is_left_out():
    gpus = GuestSettings(max_resources={"gpu": "0"})
    assert allocate([had("a", "1", {"cpu": "4"}, cpu="4", gpu="1")], gpus)["a"].kept == {"cpu": "4"}


@given(
    st.lists(st.tuples(st.integers(0, 12), st.none() | st.integers(0, 12)), min_size=1, max_size=4)
)
def test_there_is_never_more_than_the_bound_and_nobody_loses_to_a_growth(rows):
    requests = [
        SliceRequest(str(n), str(n), {"cpu": asked}, None if held is None else {"cpu": held})
        for n, (asked, held) in enumerate(rows)
    ]
    found = allocate(requests, EIGHT)
    sums = 0
    for each, (asked, held) in zip(requests, rows, strict=True):
        allocation = found[each.name]
        given = {"cpu": asked} if not allocation.excess else allocation.kept or {}
        sums += quantities.parse_all(given).get("cpu", 0)
        if sum(h or 0 for _, h in rows) <= 8 and held is not None:
            assert given["cpu"] >= min(asked, held)
    assert sums <= 8 * quantities.NANO


@pytest.mark.parametrize("asked", ["2", "100"])
def test_the_answer_is_the_same_the_second_time(asked):
    first = allocate([had("a", "1", {"cpu": "4"}, cpu=asked)], EIGHT)["a"]
    given = first.kept if first.excess else {"cpu": asked}
    assert (
        allocate([SliceRequest("a", "1", {"cpu": asked}, given)], EIGHT)["a"].excess == first.excess
    )
