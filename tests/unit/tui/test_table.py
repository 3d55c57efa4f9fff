"""Sheets: filtering, sorting, fitting, and strings that are not to be trusted."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui import text
from tui.filtering import predicate
from tui.table import BETWEEN, Cell, Column, Order, Row, Table, arrange, fitted, folded, widths


def table(*names: str) -> Table:
    """Rows whose second column is the length of the first."""
    rows = (Row(name, (Cell(name), Cell(str(len(name)), "", len(name)))) for name in names)
    return Table((Column("NAME"), Column("SIZE", rank=1, right=True)), tuple(rows))


def keys(made: Table) -> list[str]:
    """The keys of its rows, in order."""
    return [row.key for row in made.rows]


@given(st.text(), st.integers(4, 40), st.integers(1, 6))
def test_a_folded_text_is_whole_and_fits_but_for_its_last_line(text_, width, most) -> None:
    lines = folded(text_, width, most)
    assert 1 <= len(lines) <= most
    assert all(cell_len(line) <= width for line in lines[:-1])
    assert "".join("".join(lines).split()) == "".join(text_.split())
    if len(lines) < most:
        assert cell_len(lines[-1]) <= width


def test_a_text_is_folded_between_words() -> None:
    assert folded("the tenant of milan goes", 12, 3) == ["the tenant", "of milan", "goes"]
    assert folded("x" * 30, 12, 9) == ["x" * 12, "x" * 12, "x" * 6]
    assert folded("short", 12, 3) == ["short"]


@pytest.mark.parametrize(
    ("expression", "left"),
    [
        ("", ["milan", "Turin", "oslo"]),
        ("i", ["milan", "Turin"]),
        ("T", ["Turin"]),
        ("!i", ["oslo"]),
        ("^o|an", ["milan", "oslo"]),
        ("!", ["milan", "Turin", "oslo"]),
        ("[", []),
    ],
)
def test_a_filter_is_a_regular_expression(expression: str, left: list[str]) -> None:
    assert keys(arrange(table("milan", "Turin", "oslo"), expression)) == left


def test_what_is_no_expression_yet_is_searched_for_literally() -> None:
    found = predicate("a[b")
    assert found is not None
    assert found("xa[bx")
    assert not found("ab")


def test_order_goes_through_the_columns_and_back_to_the_views_own() -> None:
    made = table("ccc", "a", "bb")
    order = Order()
    assert keys(arrange(made, "", order)) == ["ccc", "a", "bb"]
    order = order.next(2)
    assert keys(arrange(made, "", order)) == ["a", "bb", "ccc"]
    assert keys(arrange(made, "", order.reverse())) == ["ccc", "bb", "a"]
    order = order.next(2)
    assert order.column == 1
    assert order.next(2) == Order()


def test_what_is_unknown_sorts_last() -> None:
    rows = (Row("a", (Cell(),)), Row("b", (Cell("2 s", "", 2.0),)), Row("c", (Cell("x"),)))
    made = Table((Column("A"),), rows)
    assert keys(arrange(made, "", Order(0))) == ["b", "c", "a"]


def test_children_stay_with_their_parent() -> None:
    rows = (
        Row("b", (Cell("b"),)),
        Row("b1", (Cell("zebra"),), child=True),
        Row("a", (Cell("a"),)),
        Row("a1", (Cell("horse"),), child=True),
    )
    made = Table((Column("A"),), rows)
    assert keys(arrange(made, "", Order(0))) == ["a", "a1", "b", "b1"]
    assert keys(arrange(made, "zebra")) == ["b", "b1"]


def test_columns_go_by_rank_and_what_must_stay_is_squeezed() -> None:
    columns = (Column("AAAA"), Column("BBBB", rank=2), Column("CCCC", rank=1))
    made = Table(columns, (Row("r", (Cell("a" * 8), Cell("b" * 8), Cell("c" * 8))),))
    assert widths(made, 80) == [8, 8, 8]
    assert widths(made, 20) == [8, 0, 8]
    assert widths(made, 10) == [8, 0, 0]
    assert widths(made, 4) == [4, 0, 0]


@given(st.integers(1, 200), st.lists(st.text(max_size=40), min_size=1, max_size=6))
def test_whatever_is_shown_fits(room: int, words: list[str]) -> None:
    columns = tuple(Column(f"C{index}", rank=index) for index in range(len(words)))
    made = Table(columns, (Row("r", tuple(Cell(text.clean(word)) for word in words)),))
    shown = [width for width in widths(made, room) if width]
    assert sum(shown) + BETWEEN * (len(shown) - 1) <= max(room, 1)


@given(st.text(), st.integers(0, 40))
def test_a_cell_takes_its_width_exactly(word: str, width: int) -> None:
    assert cell_len(fitted(text.clean(word), width)) == width


@given(st.text())
@example("\xa00\u2028")
def test_nothing_that_a_terminal_obeys_is_shown(word: str) -> None:
    shown = {unicodedata.category(each) for each in text.clean(f"\x1b[2J{word}\n")}
    assert not [kind for kind in shown if kind.startswith("C") or kind in ("Zl", "Zp")]


def test_figures_are_short() -> None:
    assert text.round_trip(0.0031) == "3.1 ms"
    assert text.round_trip(0.031) == "31 ms"
    assert text.round_trip(2.5) == "2.5 s"
    assert text.round_trip(None) == text.UNKNOWN
    assert text.size(1_500) == "1.5 kB"
    assert text.size(57_000_000) == "57 MB"
    assert text.share(0.004) == "<1%"
    assert text.rate(0) == text.UNKNOWN


def test_a_spark_has_a_bar_for_each_value_and_a_gap_for_each_missing_one() -> None:
    assert text.spark([0.0, 1.0, None, 2.0], 4) == "▁▅ █"
    assert text.spark([0.0, 0.0], 3) == " ▁▁"
    assert text.spark([None], 5) == ""
    assert len(text.spark([1.0] * 100, 20)) == 20
