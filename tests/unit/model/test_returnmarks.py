"""Marks of controllers whose pods a peer could not start: how long they hold, what drops them."""

import msgspec
import pytest

from liqod.model.objects import returnmarks
from liqod.model.objects.returnmarks import LONGEST, MOST, ReturnMark

NOON = "2026-01-02T12:00:00Z"
MARK = ReturnMark("uid-1", "ReplicaSet", "web-5d8", "milan", "Refused", "no room", NOON, NOON)


def added(*times: str, first: float = 600.0) -> ReturnMark:
    """The mark after returns at these times."""
    marks: tuple[ReturnMark, ...] = ()
    for time in times:
        new = msgspec.structs.replace(MARK, since=time, until=time)
        marks = returnmarks.added(marks, new, first)
    (found,) = marks
    return found


def test_it_holds_for_its_time_and_twice_as_long_the_next_time():
    first = added(NOON)
    assert (first.until, first.times) == ("2026-01-02T12:10:00Z", 1)
    assert first.holds("2026-01-02T12:09:59Z")
    assert not first.holds(first.until)
    second = added(NOON, "2026-01-02T12:15:00Z")
    assert (second.until, second.times) == ("2026-01-02T12:35:00Z", 2)


def test_it_is_forgotten_after_as_long_again():
    assert added(NOON).forgotten == "2026-01-02T12:20:00Z"
    later = added(NOON, "2026-01-02T12:20:00Z")
    assert (later.until, later.times) == ("2026-01-02T12:30:00Z", 1)


def test_it_holds_for_no_longer_than_hours():
    assert added(NOON, first=1e9).until == "2026-01-02T18:00:00Z"
    assert LONGEST == 6 * 3600


@pytest.mark.parametrize(
    ("now", "owners", "clusters", "stays"),
    [
        ("2026-01-02T12:19:59Z", {"uid-1"}, {"milan"}, True),
        ("2026-01-02T12:20:00Z", {"uid-1"}, {"milan"}, False),
        (NOON, set(), {"milan"}, False),
        (NOON, {"uid-1"}, {"turin"}, False),
    ],
)
def test_it_goes_with_its_time_its_controller_and_its_peer(now, owners, clusters, stays):
    marks = (added(NOON),)
    assert returnmarks.kept(marks, now, owners, clusters) == (marks if stays else ())


def test_what_is_written_is_read_and_is_bounded():
    days = ("2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z")
    many = [
        msgspec.structs.replace(added(NOON), owner=f"uid-{number}", since=day, until=day)
        for day in days
        for number in range(MOST)
    ]
    read = returnmarks.read({"liqod.io/returned": returnmarks.render(many) or ""})
    assert len(read) == MOST
    assert {each.until for each in read} == {"2026-01-03T00:00:00Z"}
    assert returnmarks.render(()) is None


@pytest.mark.parametrize(
    "wrong",
    [{"times": 0}, {"times": -1000000}, {"times": 10**18}, {"since": "2020-01-01T12:00:00Z"}],
)
def test_a_mark_with_nonsense_does_not_count_and_the_others_do(wrong):
    bad = msgspec.structs.replace(added(NOON), **wrong)
    text = msgspec.json.encode([bad, added(NOON)]).decode()
    assert returnmarks.read({"liqod.io/returned": text}) == (added(NOON),)


@pytest.mark.parametrize("text", ["", "x", "{}", "[1]", '[{"owner": "a"}]', "[" * 3000, None])
def test_what_is_none_does_not_count(text):
    assert returnmarks.read({} if text is None else {"liqod.io/returned": text}) == ()
    bad = msgspec.structs.replace(MARK, until="soon")
    assert returnmarks.read({"liqod.io/returned": msgspec.json.encode([bad]).decode()}) == ()


def test_it_ends_once_the_peer_has_room_and_counts_in_the_next_one():
    now = "2026-01-02T12:05:00Z"
    waits = msgspec.structs.replace(added(NOON), asked={"cpu": "4"})
    [lifted] = returnmarks.lifted([waits], now, lambda _: True)
    assert not lifted.holds(now)
    assert lifted.is_sound
    new = msgspec.structs.replace(MARK, since=now, until=now)
    [again] = returnmarks.added([lifted], new, 600.0)
    assert (again.times, again.until) == (2, "2026-01-02T12:25:00Z")
    assert returnmarks.lifted([waits], now, lambda _: False) == (waits,)
    [soon] = returnmarks.lifted([waits], NOON, lambda _: True)
    for mark in (lifted, soon):  # remembered for as long as if it had not been lifted
        assert mark.forgotten == waits.forgotten
        assert returnmarks.read({"liqod.io/returned": returnmarks.render([mark]) or ""}) == (mark,)
    late = "2026-01-02T12:19:00Z"
    new = msgspec.structs.replace(MARK, since=late, until=late)
    [again] = returnmarks.added([soon], new, 600.0)
    assert (again.times, again.until, again.due) == (2, "2026-01-02T12:39:00Z", "")
    for other in (added(NOON), msgspec.structs.replace(waits, until=NOON)):
        assert returnmarks.lifted([other], now, lambda _: True) == (other,)


def test_one_without_a_first_end_is_read_and_a_wrong_one_is_not():
    fields = msgspec.to_builtins(added(NOON))
    del fields["due"]
    for due, sound in ((None, True), ("2026-01-02T12:11:00Z", True), (NOON, False), ("x", False)):
        told = {**fields, **({} if due is None else {"due": due})}
        read = returnmarks.read({"liqod.io/returned": msgspec.json.encode([told]).decode()})
        assert bool(read) == sound


def test_its_end_is_told():
    mark = added(NOON)
    assert returnmarks.end(mark) == "2026-01-02T12:10:00Z"
    asked = msgspec.structs.replace(mark, asked={"cpu": "4", "pods": "1"})
    text = "2026-01-02T12:10:00Z, or soon after it says that a node has cpu 4 free"
    assert returnmarks.end(asked) == text
    assert returnmarks.sentence(asked).endswith(f"and is tried again after {text}")
    broken = msgspec.structs.replace(mark, asked={"cpu": "nonsense"})
    assert returnmarks.read({"liqod.io/returned": returnmarks.render([broken]) or ""}) == ()


def test_where_there_is_no_other_place_none_lasts_longer_than_the_first_time():
    late = "2026-01-02T12:15:00Z"
    mark = added(NOON, late)
    assert mark.until == "2026-01-02T12:35:00Z"
    assert returnmarks.shortened((mark,), late, {"milan", "turin"}, 600.0) == (mark,)
    (short,) = returnmarks.shortened((mark,), late, {"milan"}, 600.0)
    assert (short.until, short.due) == ("2026-01-02T12:25:00Z", mark.until)
    assert short.forgotten == mark.forgotten  # it counts as before
    assert short.is_sound
    assert returnmarks.shortened((short,), late, {"milan"}, 600.0) == (short,)
    # The other place was marked, or went, later on.
    later = "2026-01-02T12:30:00Z"
    (ended,) = returnmarks.shortened((mark,), later, {"milan"}, 600.0)
    assert not ended.holds(later)
    other = msgspec.structs.replace(mark, cluster="turin")
    both = returnmarks.shortened((mark, other), late, {"milan", "turin"}, 600.0)
    assert {each.until for each in both} == {short.until}
    of_another = msgspec.structs.replace(other, owner="uid-2")
    some = (mark, of_another)
    assert returnmarks.shortened(some, late, {"milan", "turin"}, 600.0) == some
