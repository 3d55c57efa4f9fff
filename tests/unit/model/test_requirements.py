"""Label selectors as people type them."""

import pytest

from liqod.errors import ConfigError
from liqod.model.objects.requirements import node_selector, requirements


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [{"key": "a", "operator": "In", "values": ["b"]}]),
        ("a==b", [{"key": "a", "operator": "In", "values": ["b"]}]),
        ("a!=b", [{"key": "a", "operator": "NotIn", "values": ["b"]}]),
        ("a in (b, c)", [{"key": "a", "operator": "In", "values": ["b", "c"]}]),
        ("a notin (b)", [{"key": "a", "operator": "NotIn", "values": ["b"]}]),
        ("!a", [{"key": "a", "operator": "DoesNotExist"}]),
        (
            "x.io/zone in (b,c),gpu",
            [
                {"key": "x.io/zone", "operator": "In", "values": ["b", "c"]},
                {"key": "gpu", "operator": "Exists"},
            ],
        ),
    ],
)
def test_each_form(text, expected):
    assert requirements(text) == expected


@pytest.mark.parametrize("text", ["", "a in ()", "a in b", "=b", "a=b=c", "a b", "a,,b", "a in (b"])
def test_nonsense_is_named(text):
    with pytest.raises(ConfigError, match="is no requirement"):
        requirements(text)


def test_several_selectors_are_alternatives():
    assert len(node_selector(["a=b", "c=d"])["nodeSelectorTerms"]) == 2
