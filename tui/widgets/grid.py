"""The table: draws the visible lines of a sheet and no others, so that its size costs nothing."""

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.sheet import BETWEEN, Order, Row, Sheet, fitted, widths

EMPTY = Sheet((), ())


class Grid(ScrollView, can_focus=True):
    """A sheet with a cursor, which stays with its row however the rows move."""

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
        self.sheet = EMPTY
        self._order = Order()
        self._selected: frozenset[str] = frozenset()
        self._index = 0
        self._widths: list[int] = []
        self._styles: dict[tuple[str, ...], Style] = {}

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        rows = self.sheet.rows
        return rows[self._index] if self._index < len(rows) else None

    def show(self, sheet: Sheet, order: Order, selected: frozenset[str], cursor: str) -> None:
        """Draw a sheet; the cursor goes to the row of that key, or stays where it is."""
        keys = {row.key: index for index, row in enumerate(sheet.rows)}
        index = keys.get(cursor, min(self._index, max(0, len(sheet.rows) - 1)))
        same = (sheet, order, selected, index) == (
            self.sheet,
            self._order,
            self._selected,
            self._index,
        )
        moved = index != self._index
        self.sheet, self._order, self._selected, self._index = sheet, order, selected, index
        if same:
            return
        self._measure()
        self.virtual_size = Size(self.size.width, len(sheet.rows) + 1)
        if moved:
            self._follow()
        self.refresh()

    def _measure(self) -> None:
        self._widths = widths(self.sheet, max(1, self.size.width))

    def on_resize(self, event: Resize) -> None:
        """Columns that fitted may not any more."""
        self._measure()
        self.virtual_size = Size(event.size.width, len(self.sheet.rows) + 1)
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
        index = self.scroll_offset.y + y - 1
        if index < len(self.sheet.rows):
            return self._line(index, width)
        if not self.sheet.rows and y == 2:
            return self._blank(f"  {self.sheet.empty}", width, "dim")
        return self._blank("", width, "")

    def _heading(self, width: int) -> Strip:
        style = self._style("heading")
        pieces = []
        for index, column in enumerate(self.sheet.columns):
            if self._widths[index]:
                arrow = ("↓" if self._order.descending else "↑") * (index == self._order.column)
                text = fitted(column.title + arrow, self._widths[index], right=column.right)
                pieces.append(text)
        text = fitted((" " * BETWEEN).join(pieces), width)
        return Strip([Segment(text, style)], width)

    def _line(self, index: int, width: int) -> Strip:
        row = self.sheet.rows[index]
        over = []
        if row.key in self._selected:
            over.append("selected")
        if index == self._index:
            over.append("cursor")
        base = self._style(*over)
        segments = []
        gap = Segment(" " * BETWEEN, base)
        for column, cells, cell in zip(self.sheet.columns, self._widths, row.cells, strict=True):
            if cells:
                text = fitted(cell.text, cells, right=column.right)
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
        self._put(len(self.sheet.rows) - 1 if index < 0 else 0)

    def action_enter(self) -> None:
        """Open the row."""
        if self.row is not None:
            self.post_message(self.Entered(self.row))

    def on_click(self, event: Click) -> None:
        """A click puts the cursor there; on the row that has it, it opens that."""
        index = self.scroll_offset.y + event.y - 1
        if event.y > 0 and index < len(self.sheet.rows):
            if index == self._index:
                self.action_enter()
            self._put(index)

    def _put(self, index: int) -> None:
        index = max(0, min(index, len(self.sheet.rows) - 1))
        if index != self._index:
            self._index = index
            self._follow()
            self.refresh()
            if self.row is not None:
                self.post_message(self.Moved(self.row.key))

    def _follow(self) -> None:
        """Scroll so that the cursor is seen; the heading covers the first line."""
        self.scroll_to_region(
            Region(0, self._index, 1, 2), animate=False, force=True, immediate=True
        )
