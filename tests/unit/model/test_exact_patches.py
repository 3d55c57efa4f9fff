"""JSON merge patches: those of RFC 7386, and properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.objects.patches import exact_patch, merged

VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(-2, 2), st.sampled_from(["", "a"]), st.just([1])),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_examples_of_the_standard(target, patch, result):
    assert merged(target, patch) == result


@given(OBJECTS, OBJECTS)
def test_the_patch_leads_from_one_to_the_other(live, wanted):
    patch = exact_patch(live, wanted)
    assert merged(live, patch) == wanted
    assert exact_patch(wanted, wanted) == {}


def test_a_key_that_is_not_wanted_is_taken_away():
    assert exact_patch({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}) == {"a": {"c": None}}
