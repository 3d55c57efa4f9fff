"""Conditions: the time moves with the status only."""

from hypothesis import given
from hypothesis import strategies as st

from liqod.model.objects import conditions
from liqod.model.objects.conditions import Condition

OLD = "2026-11-21T01:57:15Z"
NOW = "2026-11-21T02:00:00Z"


def test_a_new_condition_is_appended():
    before = [{"type": "A", "status": "True"}]
    after = conditions.set_condition(before, "B", "False", now=NOW, reason="Why", message="so")
    assert after == [
        {"type": "A", "status": "True"},
        {
            "type": "B",
            "status": "False",
            "lastTransitionTime": NOW,
            "reason": "Why",
            "message": "so",
        },
    ]
    assert len(before) == 1


def test_time_moves_with_the_status_only():
    before = conditions.set_condition(None, "A", "True", now=OLD, reason="X")
    same = conditions.set_condition(before, "A", "True", now=NOW, reason="Y")
    assert same == [{"type": "A", "status": "True", "lastTransitionTime": OLD, "reason": "Y"}]
    other = conditions.set_condition(before, "A", "False", now=NOW)
    assert other == [{"type": "A", "status": "False", "lastTransitionTime": NOW}]


def test_place_is_kept_and_questions_are_answered():
    before = [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]
    after = conditions.set_condition(before, "A", "False", now=NOW)
    assert [each["type"] for each in after] == ["A", "B"]
    assert conditions.is_status(after, "A", "False")
    assert conditions.is_status(after, "B")
    assert not conditions.is_status(None, "B")
    assert conditions.find(after, "C") is None
    assert conditions.without(after, "A") == [{"type": "B", "status": "True"}]


def test_times_are_taken_over_from_the_live_ones():
    live = [
        {"type": "A", "status": "Ready", "lastTransitionTime": OLD},
        {"type": "B", "status": "Ready", "lastTransitionTime": OLD},
    ]
    wanted = [{"type": "A", "status": "Ready"}, {"type": "B", "status": "NotReady"}]
    since = [each["lastTransitionTime"] for each in conditions.all_dated(wanted, live, NOW)]
    assert since == [OLD, NOW]


def test_structs_are_asked_the_same():
    found = (Condition("A", "True"), Condition("B", "False", "Why", "so"))
    assert conditions.holds(found, "A")
    assert conditions.holds(found, "B", "False")
    assert not conditions.holds(found, "B")
    assert conditions.of_type(found, "B") is found[1]
    assert conditions.of_type(found, "C") is None


CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from("ABC"), "status": st.sampled_from(["True", "False"])},
        optional={"lastTransitionTime": st.sampled_from([OLD, None]), "reason": st.just("Why")},
    ),
    unique_by=lambda each: each["type"],
)


@given(CONDITIONS, CONDITIONS)
def test_every_condition_has_a_time_and_says_what_was_wanted(wanted, before):
    after = conditions.all_dated(wanted, before, NOW)
    assert all(each["lastTransitionTime"] in (OLD, NOW) for each in after)
    timeless = [{**each, "lastTransitionTime": ""} for each in wanted]
    assert [{**each, "lastTransitionTime": ""} for each in after] == timeless
    assert conditions.all_dated(wanted, after, "later") == after


@given(CONDITIONS, st.sampled_from("ABC"), st.sampled_from(["True", "False"]))
def test_setting_a_condition_touches_no_other(before, type_, status):
    after = conditions.set_condition(before, type_, status, now=NOW, reason="Why")
    assert conditions.is_status(after, type_, status)
    assert conditions.without(after, type_) == conditions.without(before, type_)
    assert conditions.set_condition(after, type_, status, now="later", reason="Why") == after
    structs = [Condition(each["type"], each["status"]) for each in after]
    assert conditions.holds(structs, type_, status)
