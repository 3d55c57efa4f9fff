"""The grid: draws the visible lines of a table and no others, so that its size costs nothing."""

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.table import BETWEEN, Order, Row, Table, fitted, folded, widths

EMPTY = Table((), ())
NARROWEST = 20
"""Cells of a column that is worth going on in."""
TALLEST = 8
"""Lines of one row at most; its description has the rest."""


class Grid(ScrollView, can_focus=True):
    """A table with a cursor, which stays with its row however the rows move.

    A last column that takes what is left goes on below, where it does not fit into one line.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "grid--heading",
        "grid--cursor",
        "grid--selected",
        "grid--good",
        "grid--fair",
        "grid--bad",
        "grid--dim",
        "grid--name",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "down", show=False),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "page down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "page up", show=False),
        Binding("home,g", "edge(0)", "top", show=False),
        Binding("end,G", "edge(-1)", "bottom", show=False),
        Binding("enter", "enter", "open", show=False),
    ]

    class Entered(Message):
        """``enter`` on a row."""

        def __init__(self, row: Row) -> None:
            super().__init__()
            self.row = row

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.table = EMPTY
        self._order = Order()
        self._selected: frozenset[str] = frozenset()
        self._index = 0
        self._widths: list[int] = []
        self._lines: list[tuple[int, int]] = []
        self._starts: list[int] = []
        self._tails: dict[int, list[str]] = {}
        self._styles: dict[tuple[str, ...], Style] = {}

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        rows = self.table.rows
        return rows[self._index] if self._index < len(rows) else None

    def show(self, table: Table, order: Order, selected: frozenset[str], cursor: str) -> None:
        """Draw a table; the cursor goes to the row of that key, or stays where it is."""
        keys = {row.key: index for index, row in enumerate(table.rows)}
        index = keys.get(cursor, min(self._index, max(0, len(table.rows) - 1)))
        same = (table, order, selected, index) == (
            self.table,
            self._order,
            self._selected,
            self._index,
        )
        moved = index != self._index
        self.table, self._order, self._selected, self._index = table, order, selected, index
        if same:
            return
        self._measure(self.size.width)
        if moved:
            self._follow()
        self.refresh()

    def _measure(self, width: int) -> None:
        """Assign lines to rows: pairs of a row and the part of its last cell."""
        self._widths = widths(self.table, max(1, width))
        self._lines, self._starts, self._tails = [], [], {}
        wide = bool(self._widths) and not self.table.columns[-1].most
        room = self._widths[-1] if wide and self._widths[-1] >= NARROWEST else 0
        for index, row in enumerate(self.table.rows):
            self._starts.append(len(self._lines))
            height = 1
            if room and len(row.cells[-1].text) > room // 2:
                tail = folded(row.cells[-1].text, room, TALLEST)
                self._tails[index] = tail
                height = len(tail)
            self._lines += [(index, part) for part in range(height)]
        self.virtual_size = Size(width, len(self._lines) + 1)

    def on_resize(self, event: Resize) -> None:
        """Columns that fitted may not any more."""
        self._measure(event.size.width)
        self.refresh()

    def notify_style_update(self) -> None:
        """Colours changed: look them up again."""
        super().notify_style_update()
        self._styles.clear()

    def render_line(self, y: int) -> Strip:
        """One line of the screen: the heading, which stays, or a row."""
        width = self.size.width
        if y == 0:
            return self._heading(width)
        line = self.scroll_offset.y + y - 1
        if line < len(self._lines):
            return self._line(*self._lines[line], width)
        if not self.table.rows and y == 2:
            return self._blank(f"  {self.table.empty}", width, "dim")
        return self._blank("", width, "")

    def _heading(self, width: int) -> Strip:
        style = self._style("heading")
        pieces = []
        for index, column in enumerate(self.table.columns):
            if self._widths[index]:
                arrow = ("↓" if self._order.descending else "↑") * (index == self._order.column)
                text = fitted(column.title + arrow, self._widths[index], right=column.right)
                pieces.append(text)
        text = fitted((" " * BETWEEN).join(pieces), width)
        return Strip([Segment(text, style)], width)

    def _line(self, index: int, part: int, width: int) -> Strip:
        row = self.table.rows[index]
        over = []
        if row.key in self._selected:
            over.append("selected")
        if index == self._index:
            over.append("cursor")
        base = self._style(*over)
        segments = []
        gap = Segment(" " * BETWEEN, base)
        last = len(row.cells) - 1
        for number, (column, cells) in enumerate(
            zip(self.table.columns, self._widths, strict=True)
        ):
            if cells:
                cell = row.cells[number]
                text = cell.text if part == 0 else ""
                if number == last and index in self._tails:
                    text = self._tails[index][part]
                text = fitted(text, cells, right=column.right)
                segments += [Segment(text, self._style(cell.tone, *over)), gap]
        return Strip(segments).adjust_cell_length(width, base)

    def _blank(self, text: str, width: int, tone: str) -> Strip:
        return Strip([Segment(fitted(text, width), self._style(tone))], width)

    def _style(self, *names: str) -> Style:
        """The grid's own style under the named ones; looking one up is dear, so it is kept."""
        found = self._styles.get(names)
        if found is None:
            found = self.rich_style
            for name in filter(None, names):
                found += self.get_component_rich_style(f"grid--{name}", partial=True)
            self._styles[names] = found
        return found

    def action_move(self, step: int) -> None:
        """So many rows down."""
        self._put(self._index + step)

    def action_page(self, step: int) -> None:
        """A screen down or up."""
        self._put(self._index + step * max(1, self.size.height - 2))

    def action_edge(self, index: int) -> None:
        """The first row, or the last."""
        self._put(len(self.table.rows) - 1 if index < 0 else 0)

    def action_enter(self) -> None:
        """Open the row."""
        if self.row is not None:
            self.post_message(self.Entered(self.row))

    def on_click(self, event: Click) -> None:
        """A click puts the cursor there; on the row that has it, it opens that."""
        line = self.scroll_offset.y + event.y - 1
        if event.y > 0 and line < len(self._lines):
            index = self._lines[line][0]
            if index == self._index:
                self.action_enter()
            self._put(index)

    def _put(self, index: int) -> None:
        index = max(0, min(index, len(self.table.rows) - 1))
        if index != self._index:
            self._index = index
            self._follow()
            self.refresh()
            if self.row is not None:
                self.post_message(self.Moved(self.row.key))

    def _follow(self) -> None:
        """Scroll so that the cursor is seen; the heading covers the first line."""
        if self._index >= len(self._starts):
            return  # there is no row, or it has no size yet
        begin = self._starts[self._index]
        height = len(self._tails.get(self._index, "1"))
        self.scroll_to_region(
            Region(0, begin, 1, height + 1), animate=False, force=True, immediate=True
        )
