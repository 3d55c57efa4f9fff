"""The table of short cells that every view makes; filters, sorts and fits it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from rich.cells import cell_len

from tui.filtering import predicate

Tone = Literal["", "good", "fair", "bad", "dim", "name"]
"""The meaning of a cell beyond its words; never alone, for there are terminals without colour."""

BETWEEN = 2
"""Columns of the terminal between two columns of a table."""


class Cell(NamedTuple):
    """One cell; ``key`` is what it sorts by, where that is not its text."""

    text: str = ""
    tone: Tone = ""
    key: Any = None


class Column(NamedTuple):
    """One column.

    Attributes:
        title: its heading.
        rank: 0 is always there; where there is no room, the highest rank goes first.
        right: whether it is set to the right, as figures are.
        most: cells that it takes at most; 0 takes what is left over.
    """

    title: str
    rank: int = 0
    right: bool = False
    most: int = 24


class Place(NamedTuple):
    """Where one is: a view, whom or what it is about, and which part of that."""

    view: str
    subject: str = ""
    part: str = ""


class Row(NamedTuple):
    """One row.

    Attributes:
        key: identifies it; the cursor and the selection stay with it.
        cells: as many as the table has columns.
        into: where ``enter`` leads.
        child: belongs to the row above: it is kept next to that one, whatever the order.
    """

    key: str
    cells: tuple[Cell, ...]
    into: Place | None = None
    child: bool = False


@dataclass(frozen=True)
class Table:
    """A view at one moment.

    Attributes:
        columns: what is in it.
        rows: in the view's own order, which is the worst or newest first.
        notes: lines above the table.
        empty: what is said where there is no row.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[Cell, ...] = ()
    empty: str = "nothing here"


@dataclass(frozen=True)
class Order:
    """How the user wants it: a column, or None for the view's own order; and which way round."""

    column: int | None = None
    descending: bool = False

    def next(self, columns: int) -> "Order":
        """By the next column, after the last one the view's own order again."""
        if self.column is None:
            return Order(0)
        following = self.column + 1
        return Order(following) if following < columns else Order()

    def reverse(self) -> "Order":
        """The other way round."""
        return replace(self, descending=not self.descending)


def arrange(table: Table, expression: str = "", order: Order | None = None) -> Table:
    """The table with the rows that a filter leaves, in the order that was asked for."""
    families = _families(table.rows)
    shown = predicate(expression)
    if shown is not None:
        if families:
            table = replace(table, empty=f"nothing here matches {expression}; esc shows all again")
        families = [family for family in families if any(shown(_words(row)) for row in family)]
    if order is not None and order.column is not None:
        column = order.column
        families.sort(key=lambda family: _sort_key(family[0], column), reverse=order.descending)
    elif order is not None and order.descending:
        families.reverse()
    return replace(table, rows=tuple(row for family in families for row in family))


def widths(table: Table, room: int) -> list[int]:
    """How wide each column is within ``room`` cells; 0 leaves it out."""
    wanted = [_natural(table, index) for index in range(len(table.columns))]
    while _total(wanted) > room:
        dropped = max(
            (index for index, width in enumerate(wanted) if width),
            key=lambda index: (table.columns[index].rank, index),
        )
        if table.columns[dropped].rank == 0:
            return _squeezed(wanted, room)
        wanted[dropped] = 0
    return _stretched(table, wanted, room)


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly ``width`` cells, cut with an ellipsis where it is longer."""
    length = cell_len(text)
    if length > width:
        text, length = _cut(text, width)
    pad = " " * (width - length)
    return pad + text if right else text + pad


def _cut(text: str, width: int) -> tuple[str, int]:
    kept, length = [], 0
    for letter in text:
        wide = cell_len(letter)
        if length + wide > width - 1:
            break
        kept.append(letter)
        length += wide
    return ("".join(kept) + "…", length + 1) if width else ("", 0)


def folded(text: str, width: int, most: int) -> list[str]:
    """A text in at most ``most`` lines of ``width`` cells, broken between words where that goes."""
    lines: list[str] = []
    while cell_len(text) > width > 0 and len(lines) < most - 1:
        kept = _cut(text, width + 1)[0].removesuffix("…")
        head = kept.rpartition(" ")[0] if not text[len(kept)].isspace() else kept
        # A word of more than half a line is broken, so that no line is nearly empty.
        kept = head if cell_len(head) > width // 2 else kept
        lines.append(kept.rstrip())
        text = text[len(kept) :].lstrip()
    return [*lines, text]


def _families(rows: Sequence[Row]) -> list[list[Row]]:
    families: list[list[Row]] = []
    for row in rows:
        if row.child and families:
            families[-1].append(row)
        else:
            families.append([row])
    return families


def _words(row: Row) -> str:
    return " ".join(cell.text for cell in row.cells)


def _sort_key(row: Row, column: int) -> tuple[int, Any, str]:
    """Numbers before words; a cell that is unknown goes last."""
    cell = row.cells[column]
    value = cell.key if cell.key is not None else cell.text
    if isinstance(value, (int, float)):
        return (0, value, row.key)
    return (1 if value else 2, str(value).lower(), row.key)


def _natural(table: Table, index: int) -> int:
    """The widest cell; at least the heading, with room for the mark of the sort order."""
    column = table.columns[index]
    widest = max((cell_len(row.cells[index].text) for row in table.rows), default=0)
    heading = cell_len(column.title) + 1 if column.title else 0
    return max(1, heading, min(widest, column.most) if column.most else min(widest, 12))


def _total(wanted: Sequence[int]) -> int:
    shown = [width for width in wanted if width]
    return sum(shown) + BETWEEN * max(0, len(shown) - 1)


def _squeezed(wanted: list[int], room: int) -> list[int]:
    """Only columns that have to stay are left: the widest gives way, cell by cell."""
    while _total(wanted) > room and max(wanted) > 1:
        wanted[wanted.index(max(wanted))] -= 1
    return wanted


def _stretched(table: Table, wanted: list[int], room: int) -> list[int]:
    """Give the rest of the room to the columns without a limit, as far as they have use for it."""
    for index, column in enumerate(table.columns):
        if wanted[index] and not column.most:
            widest = max((cell_len(row.cells[index].text) for row in table.rows), default=0)
            wanted[index] += max(0, min(widest - wanted[index], room - _total(wanted)))
    return wanted
