"""Conditions: the time moves with the status only."""

from liqod.model.objects import conditions

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
    since = [each["lastTransitionTime"] for each in conditions.since_when(wanted, live, NOW)]
    assert since == [OLD, NOW]
