"""The ledger: who may have more, and who is woken when something is freed."""

from hypothesis import given
from hypothesis import strategies as st

from liqod.model.peering.quotadecision import (
    CORDONED,
    LIMITS_NOT_SET,
    NOT_GRANTED,
    NOTHING_GRANTED,
    OVER_QUOTA,
    UNKNOWN_USER,
)
from liqod.provider.slices.demands import Demand, UserGrant
from liqod.provider.slices.quotas import MOST_JUDGED, MOST_TRIES, Ledger

USER = "slice-0a1b2c3d4e5f"
GI = 2**30 * 1000
MILLI = 10**6


def demand(cpu: int, *, user: str = USER, **more: int) -> Demand:
    """Amounts in thousandths."""
    amounts = {"cpu": cpu, **more}
    return Demand(user, tuple((name, amounts[name] * MILLI) for name in sorted(amounts)))


def ledger(**amounts: int) -> Ledger:
    made = Ledger()
    made.grant(grant(USER, **(amounts or {"cpu": 4000, "memory": 8 * GI})))
    return made


def grant(user, enforcement="None", cordoned=False, **amounts):
    scaled = {name: amount * MILLI for name, amount in amounts.items()}
    return UserGrant(user, scaled, enforcement, cordoned)


def key(number: int) -> tuple[str, str]:
    return ("shop", f"pod-{number}")


def test_a_pod_within_the_grant_is_admitted_once():
    books = ledger()
    assert books.book(key(1), demand(4000)).admitted
    assert books.book(key(1), demand(4000)).admitted
    assert books.usage()[USER] == {"cpu": 4000 * MILLI}


def test_one_over_quota_waits_and_a_smaller_one_does_not():
    books = ledger()
    assert books.book(key(1), demand(3000)).admitted
    verdict = books.book(key(2), demand(2000))
    assert (verdict.admitted, verdict.reason) == (False, OVER_QUOTA)
    assert "cpu" in verdict.message
    assert "1 of 4 left" in verdict.message
    assert books.book(key(3), demand(1000)).admitted


def test_freed_capacity_wakes_as_many_as_fit():
    books = ledger()
    assert books.book(key(1), demand(4000)).admitted
    for number in range(2, 10):
        assert not books.book(key(number), demand(1000)).admitted
    assert books.ready() == []
    assert books.release(key(1))
    assert books.ready() == [key(2), key(3), key(4), key(5)]
    assert books.book(key(2), demand(1000)).admitted
    assert books.ready() == [key(3), key(4), key(5)]


def test_who_no_longer_wants_is_not_woken():
    books = ledger()
    books.hold(key(1), demand(4000))
    books.book(key(2), demand(1000))
    assert not books.release(key(2))
    books.release(key(1))
    assert books.ready() == []
    assert list(books.waiting()) == []


def test_pods_that_exist_are_booked_even_over_the_bound():
    books = ledger()
    books.hold(key(1), demand(9000))
    assert not books.book(key(2), demand(1)).admitted
    assert books.book(key(1), demand(9000)).admitted


def test_reasons():
    assert Ledger().book(key(1), demand(1)).reason == NOTHING_GRANTED
    assert ledger().book(key(1), demand(1, user="other")).reason == UNKNOWN_USER
    assert ledger().book(key(1), demand(1, gpu=1000)).reason == NOT_GRANTED
    books = Ledger()
    books.grant(grant(USER, cordoned=True, cpu=1000))
    assert books.book(key(1), demand(1)).reason == CORDONED
    assert books.book(key(1), demand(1, user="")).reason == CORDONED


def test_enforcement_asks_for_stated_limits():
    books = ledger()
    verdict = books.book(key(1), demand(1), "container web sets no cpu limit")
    assert verdict.reason == LIMITS_NOT_SET
    assert "no cpu limit" in verdict.message
    assert books.ready() == [], "nothing that is freed helps it"
    assert list(books.waiting()) == [key(1)]
    assert books.book(key(1), demand(1)).admitted
    assert books.book(key(1), demand(1), "enforced meanwhile").admitted, "booked is booked"
    assert list(books.waiting()) == []


def test_pods_are_counted_where_the_grant_counts_them():
    books = ledger(cpu=4000)
    assert books.book(key(1), demand(1, pods=1000)).admitted
    books = ledger(cpu=4000, pods=1000)
    assert books.book(key(1), demand(1, pods=1000)).admitted
    assert books.book(key(2), demand(1, pods=1000)).reason == OVER_QUOTA


def test_without_a_label_the_sum_of_all_slices_is_the_bound():
    books = Ledger()
    books.grant(grant("a", cpu=1000))
    books.grant(grant("b", cpu=1000))
    assert books.book(key(1), demand(1500, user="")).admitted
    assert not books.book(key(2), demand(600, user="")).admitted
    verdict = books.book(key(3), demand(600, user="a"))
    assert verdict.reason == OVER_QUOTA
    assert "the consumer" in verdict.message
    assert books.book(key(4), demand(500, user="a")).admitted


def test_a_grant_that_shrinks_evicts_nobody():
    books = ledger()
    books.book(key(1), demand(4000))
    books.grant(grant(USER, cpu=1000))
    assert books.holds(key(1))
    assert not books.book(key(2), demand(1)).admitted
    books.revoke(USER)
    assert books.book(key(2), demand(1)).reason == NOTHING_GRANTED


def test_a_changed_wish_is_judged_anew():
    books = ledger()
    assert books.book(key(1), demand(1000)).admitted
    assert not books.book(key(1), demand(5000)).admitted
    assert books.usage() == {}
    assert books.book(key(1), demand(2000)).admitted


def test_a_user_who_uses_nothing_any_more_is_forgotten():
    books = Ledger()
    for number in range(50):
        books.grant(grant(f"slice-{number}", cpu=1000))
        assert books.book(key(number), demand(1000, user=f"slice-{number}")).admitted
        books.release(key(number))
        books.revoke(f"slice-{number}")
    assert books.usage() == {}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "hold", "release"]),
            st.integers(0, 8),
            st.integers(0, 3000),
            st.sampled_from(["", USER, "second"]),
        ),
        max_size=60,
    )
)
def test_sums_are_those_of_the_booked_and_asking_never_exceeds(steps):
    books = Ledger()
    books.grant(grant(USER, cpu=4000))
    books.grant(grant("second", cpu=2000))
    booked: dict[tuple[str, str], Demand] = {}
    forced = False
    for verb, number, cpu, user in steps:
        wish = demand(cpu, user=user)
        if verb == "ask":
            if books.book(key(number), wish).admitted:
                booked[key(number)] = wish
            else:
                booked.pop(key(number), None)
        elif verb == "hold":
            books.hold(key(number), wish)
            booked[key(number)] = wish
            forced = True
        else:
            books.release(key(number))
            booked.pop(key(number), None)
        sums: dict[str, int] = {}
        for one in booked.values():
            sums[one.user] = sums.get(one.user, 0) + dict(one.amounts)["cpu"] // MILLI
        assert {u: s.get("cpu", 0) // MILLI for u, s in books.usage().items() if s} == {
            u: s for u, s in sums.items() if s
        }
        if not forced:
            assert sums.get(USER, 0) <= 4000
            assert sums.get("second", 0) <= 2000
            assert sum(sums.values()) <= 6000
        for woken in books.ready():
            assert not books.holds(woken)


def test_one_that_grows_takes_what_is_left_and_keeps_what_it_had_where_it_may_not():
    books = ledger()
    books.book(key(1), demand(1000))
    books.book(key(2), demand(1000))
    assert books.grow(key(1), demand(3000).amounts).admitted
    assert books.usage()[USER] == {"cpu": 4000 * MILLI}
    verdict = books.grow(key(2), demand(1001).amounts)
    assert (verdict.admitted, verdict.reason) == (False, OVER_QUOTA)
    assert books.usage()[USER] == {"cpu": 4000 * MILLI}
    assert books.grow(key(2), demand(1000).amounts).admitted
    assert not books.grow(key(3), demand(1).amounts).admitted


def test_one_that_shrinks_has_what_it_had_until_it_was_seen_with_less():
    books = ledger()
    books.book(key(1), demand(4000))
    assert books.grow(key(1), demand(1000).amounts).admitted
    assert not books.book(key(2), demand(1000)).admitted
    assert books.hold(key(1), demand(1000))
    assert books.ready() == [key(2)]
    assert not books.hold(key(1), demand(1000))


def test_nothing_grows_on_a_cordoned_slice_or_without_the_limits_that_are_enforced():
    books = ledger()
    books.book(key(1), demand(1000))
    assert books.grow(key(1), demand(2000).amounts, "no limits").reason == LIMITS_NOT_SET
    books.grant(grant(USER, cordoned=True, cpu=4000))
    assert books.grow(key(1), demand(2000).amounts).reason == CORDONED
    assert books.grow(key(1), demand(500).amounts).admitted
    assert books.booked_on(key(1)) == USER


def unplaced(books: Ledger, *numbers: int) -> None:
    for number in numbers:
        books.mark_unplaced(key(number), unplaced=True)


def test_a_pod_without_a_node_gives_way_to_a_smaller_one_and_to_no_other():
    books = ledger()
    assert books.book(key(1), demand(3000)).admitted
    assert not books.book(key(2), demand(2000)).admitted
    assert not books.book(key(3), demand(3000)).admitted
    assert books.displaced(key(2)) == []
    assert books.mark_unplaced(key(1), unplaced=True)
    assert not books.mark_unplaced(key(1), unplaced=True)
    assert books.ready() == [key(2)]
    assert books.displaced(key(2)) == [key(1)]
    assert books.displaced(key(3)) == []
    assert not books.mark_unplaced(key(1), unplaced=False)
    assert (books.ready(), books.displaced(key(2))) == ([], [])


def test_no_more_give_way_than_have_to_and_the_largest_first():
    books = ledger(cpu=8000, gpu=2000)
    asked = {1: demand(2000, gpu=1000), 2: demand(3000), 3: demand(2500), 4: demand(500, gpu=1000)}
    for number, each in asked.items():
        assert books.book(key(number), each).admitted
    unplaced(books, 1, 2, 3)
    assert not books.book(key(5), demand(1000)).admitted
    assert books.displaced(key(5)) == [key(1)]
    assert not books.book(key(6), demand(100, gpu=900)).admitted
    assert books.displaced(key(6)) == [key(1)]
    assert not books.book(key(7), demand(2400)).admitted
    books.mark_unplaced(key(1), unplaced=False)
    assert books.displaced(key(7)) == [key(2)]


def test_two_that_have_no_node_never_take_each_other_s_place():
    books = ledger()
    assert books.book(key(1), demand(4000)).admitted
    unplaced(books, 1)
    assert not books.book(key(2), demand(2000)).admitted
    assert books.displaced(key(2)) == [key(1)]
    books.release(key(1))
    assert books.book(key(2), demand(2000)).admitted
    unplaced(books, 2)
    assert not books.book(key(1), demand(4000)).admitted
    assert books.displaced(key(1)) == []
    assert books.ready() == []


def test_fifty_that_fit_nowhere_leave_the_grant_to_small_ones_and_nothing_exceeds_it():
    books = ledger(cpu=100_000)
    for number in range(50):
        books.book(key(number), demand(20_000))
    unplaced(books, *range(50))
    run = 0
    for number in range(100, 200):
        if not books.book(key(number), demand(1000)).admitted:
            for each in books.displaced(key(number)):
                books.release(each)
            assert books.book(key(number), demand(1000)).admitted
        run += 1
        assert books.usage()[USER]["cpu"] <= 100_000 * MILLI
    assert run == 100
    assert not books.book(key(300), demand(1000)).admitted
    assert books.displaced(key(300)) == []


def test_one_that_lacks_limits_displaces_nobody():
    books = ledger()
    assert books.book(key(1), demand(4000)).admitted
    unplaced(books, 1)
    assert not books.book(key(2), demand(1000), "no limits").admitted
    assert books.displaced(key(2)) == []


def test_a_pod_made_anew_under_a_name_has_a_node_until_it_is_known_that_it_has_none():
    books = ledger()
    assert books.book(key(1), demand(3000)).admitted
    unplaced(books, 1)
    assert not books.book(key(1), demand(9000)).admitted
    assert books.book(key(2), demand(4000)).admitted
    assert not books.book(key(3), demand(1000)).admitted
    assert (books.ready(), books.displaced(key(3))) == ([], [])
    books.release(key(2))
    assert books.book(key(1), demand(2000)).admitted
    assert not books.book(key(4), demand(3000)).admitted
    assert books.displaced(key(3)) == []


def crowded(*waiting: Demand) -> Ledger:
    """All CPUs are used, and pods without a node hold memory only."""
    books = ledger(cpu=10_000, memory=100_000)
    books.hold(key(0), demand(10_000))
    for number in range(1, 65):
        books.hold(key(number), demand(0, memory=90_000))
    unplaced(books, *range(1, 65))
    for number, each in enumerate(waiting, 100):
        assert not books.book(key(number), each).admitted
    return books


def test_one_call_tries_few_demands_and_the_next_ones_come_to_all():
    smaller = [demand(2000 - number, memory=10) for number in range(100)]
    books = crowded(*smaller, demand(0, memory=20))
    found, calls = list(books.ready()), 1
    assert (found, books.unfinished) == ([], True)
    while books.unfinished:
        found += books.ready()
        calls += 1
    assert found == [key(200)]
    assert calls == 101 // MOST_TRIES + 1


def test_one_that_requests_no_less_than_one_tried_in_vain_is_not_tried():
    larger = [demand(1000 + number, memory=10) for number in range(100)]
    books = crowded(*larger, demand(0, memory=20))
    assert books.ready() == [key(200)]
    assert not books.unfinished


def test_a_round_that_something_was_freed_in_is_followed_by_another():
    books = crowded(*(demand(2000 - number, memory=10) for number in range(100)))
    assert books.ready() == []
    assert books.unfinished
    assert books.release(key(0))
    found = list[tuple[str, str]]()
    for _ in range(20):
        found += books.ready()
        if not books.unfinished:
            break
    assert not books.unfinished
    assert key(100) in found


def test_a_great_many_demands_are_judged_by_turns():
    books = ledger(cpu=10_000)
    books.hold(key(0), demand(10_000))
    for number in range(1, MOST_JUDGED + 100):
        books.book(key(number), demand(number))
    books.release(key(0))
    books.hold(key(0), demand(10_000))
    assert books.ready() == []
    assert books.unfinished
    assert books.ready() == []
    assert not books.unfinished
