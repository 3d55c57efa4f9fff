"""Node selectors: Kubernetes' table of operators, and the law of the product."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.objects import selectors

LABELS = {"region": "eu", "size": "10"}


@pytest.mark.parametrize(
    ("key", "operator", "values", "holds"),
    [
        ("region", "In", ["eu", "us"], True),
        ("region", "In", ["us"], False),
        ("zone", "In", ["a"], False),
        ("region", "NotIn", ["us"], True),
        ("region", "NotIn", ["eu"], False),
        ("zone", "NotIn", ["a"], True),
        ("region", "Exists", [], True),
        ("zone", "Exists", [], False),
        ("zone", "DoesNotExist", [], True),
        ("size", "Gt", ["9"], True),
        ("size", "Gt", ["10"], False),
        ("size", "Lt", ["11"], True),
        ("region", "Lt", ["11"], False),
        ("zone", "Gt", ["1"], False),
        ("region", "Like", ["eu"], False),
    ],
)
def test_operators(key, operator, values, holds):
    requirement = {"key": key, "operator": operator, "values": values}
    assert selectors.requirement_holds(requirement, LABELS) is holds


def test_terms_and_fields():
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["milan"]}]}
    assert selectors.selects([named], "milan", {})
    assert not selectors.selects([named], "turin", {})
    assert selectors.selects([], "turin", {})
    assert not selectors.selects([{}], "turin", {})


expressions = st.builds(
    lambda key, operator, values: {"key": key, "operator": operator, "values": values},
    st.sampled_from(["a", "b"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(st.sampled_from(["1", "2"]), min_size=1, max_size=2),
)
term_lists = st.lists(
    st.builds(lambda each: {"matchExpressions": each}, st.lists(expressions, max_size=2)),
    max_size=3,
)


@given(term_lists, term_lists, st.dictionaries(st.sampled_from("ab"), st.sampled_from("12")))
def test_product_matches_what_both_match(left, right, labels):
    def matches(terms):
        return any(selectors.term_matches(term, "n", labels) for term in terms)

    assert matches(selectors.product(left, right)) == (matches(left) and matches(right))
