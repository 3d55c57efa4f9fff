"""Quantities: texts of Kubernetes' own tests, and properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.errors import ConfigError
from liqod.model.objects import quantities

SUFFIXES = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
TEXTS = st.builds(
    lambda number, suffix: f"{number}{suffix}",
    st.decimals(min_value=0, max_value=10**6, places=3).map(str),
    st.sampled_from(SUFFIXES),
)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1", 1),
        ("1000m", 1),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1Gi", "1024Mi"),
        ("1.5Gi", "1536Mi"),
        ("2k", 2000),
        ("1e3", "1k"),
        ("1E3", 1000),
        ("1E", "1000P"),
        ("12e-1", "1200m"),
        ("-1", -1),
        ("+4", 4),
        ("1024Gi", "1Ti"),
        ("0.1n", "1n"),
        (0.5, "500m"),
    ],
)
def test_equal(left, right):
    assert quantities.parse(left) == quantities.parse(right)


@pytest.mark.parametrize(
    "text", ["", "m", "1 ", "1KiB", "1 Gi", "1.2.3", "0x10", "e3", "1e999", "9" * 65, "NaN", "١"]
)
def test_nonsense(text):
    assert not quantities.is_quantity(text)
    assert not quantities.equal(text, text)
    with pytest.raises(ConfigError, match="not a quantity"):
        quantities.parse(text)


def test_truth_is_no_quantity():
    assert not quantities.is_quantity(True)
    assert not quantities.is_quantity(None)


@pytest.mark.parametrize(
    ("text", "binary", "canonical"),
    [
        ("0.1", False, "100m"),
        ("1500m", False, "1500m"),
        ("2000m", False, "2"),
        ("2000", False, "2k"),
        ("1024Mi", True, "1Gi"),
        ("1536Mi", True, "1536Mi"),
        ("1000", True, "1000"),
        ("0", True, "0"),
        ("-3000", False, "-3k"),
        ("1n", False, "1n"),
    ],
)
def test_canonical(text, binary, canonical):
    assert quantities.render(quantities.parse(text), binary=binary) == canonical


@given(TEXTS, st.booleans())
def test_rendering_keeps_the_amount(text, binary):
    amount = quantities.parse(text)
    assert quantities.parse(quantities.render(amount, binary=binary)) == amount


def test_sets_of_amounts():
    one = quantities.parse_all({"cpu": "500m", "memory": "1Gi"})
    two = quantities.parse_all({"cpu": 1, "pods": 1})
    assert quantities.render_all(quantities.total([one, two])) == {
        "cpu": "1500m",
        "memory": "1Gi",
        "pods": "1",
    }
    assert quantities.render_all(quantities.largest([one, two]))["cpu"] == "1"
    assert quantities.over(one, two) == ["memory"]
    assert quantities.parse_all(None) == {}
