"""The keys that a provider has had: which one leads to which."""

from liqod.model.peering.providerkeys import MOST, added, follow


def test_every_key_before_leads_to_the_one_that_there_is():
    note = added(None, "a", "b")
    assert note is not None
    assert (follow(note, "a"), follow(note, "b"), follow(note, "x")) == ("b", "b", "x")
    longer = added(note, "b", "c")
    assert longer is not None
    assert [follow(longer, each) for each in "abcx"] == ["c", "c", "c", "x"]
    assert added(longer, "b", "c") == longer  # sent once more


def test_of_two_that_follow_one_key_the_second_is_refused():
    note = added(added(None, "a", "b"), "b", "c")
    assert added(note, "b", "thief") is None
    assert added(note, "a", "thief") is None


def test_nothing_leads_back_and_no_chain_has_no_end():
    note = added(None, "a", "b")
    assert added(note, "b", "a") is None
    for step in range(MOST - 1):
        note = added(note, f"b{step}" if step else "b", f"b{step + 1}")
        assert note is not None
    assert added(note, f"b{MOST - 1}", "more") is None


def test_a_note_that_is_none_leads_nowhere():
    for note in (None, "", "nonsense", "> >a a>"):
        assert follow(note, "a") == "a"
