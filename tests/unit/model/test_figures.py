"""How figures are written for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.view.figures import BARS, GAP, bars, counted, measured

VALUES = st.lists(st.none() | st.floats(0, 1e12), min_size=1)


def test_one_is_not_several():
    assert [counted(number, "pod") for number in (0, 1, 2)] == ["0 pods", "1 pod", "2 pods"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.000776, "seconds", "0.776 ms"),
        (0.9999, "seconds", "1000 ms"),
        (75.25, "seconds", "75.2 s"),
        (0.0, "ratio", "0 %"),
        (0.0215, "ratio", "2.15 %"),
        (12.0, "bytes/s", "12 B/s"),
        (60_416_000.0, "bytes", "60.4 MB"),
        (6.2e12, "bytes", "6200 GB"),
        (1234.0, "", "1234"),
    ],
)
def test_a_value_has_the_size_that_people_read(value: float, unit: str, text: str):
    assert measured(value, unit) == text


def test_bars_reach_from_the_least_to_the_greatest():
    assert bars([0.0, 1.0, None, 2.0], 0.0, 2.0) == "▁▅ █"
    assert bars([100.0, 101.0, 102.0], 100.0, 102.0) == "▁▅█"
    assert bars([3.0, 3.0], 3.0, 3.0) == "▁▁"


@given(VALUES)
def test_a_greater_value_has_no_lower_bar(values: list[float | None]):
    known = [value for value in values if value is not None]
    drawn = bars(values, min(known, default=0.0), max(known, default=0.0))
    assert [bar == GAP for bar in drawn] == [value is None for value in values]
    heights = [
        BARS.index(bar) for value, bar in zip(values, drawn, strict=True) if value is not None
    ]
    order = sorted(range(len(known)), key=lambda index: known[index])
    assert [heights[index] for index in order] == sorted(heights)
