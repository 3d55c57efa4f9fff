"""Dialogs over a view: asking before an action, help, and pages of text."""

from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Log, Static

from liqod.inspect.protocol import ActionPlan
from tui.table import folded
from tui.text import clean, visible

CLOSE: list[BindingType] = [Binding("escape,q", "close", "close")]
KEPT_LINES = 5000
WIDEST = 18


class Confirm(ModalScreen[bool]):
    """Shows an action's changes and asks; for one that deletes, all subjects' names must be typed.

    Args:
        plans: of one subject each; all are done or none.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "no"),
        Binding("y", "answer(True)", "yes"),
    ]

    def __init__(self, plans: list[ActionPlan]) -> None:
        super().__init__()
        self._plans = plans
        # Each name, so that nothing goes that was not looked at.
        self._typed = " ".join(clean(plan.subject) for plan in plans if plan.destructive)

    def compose(self) -> ComposeResult:
        """The changes, the command line that does the same, and the question."""
        with Vertical(classes="dialog"):
            with VerticalScroll():
                for plan in self._plans:
                    yield Static(f"{plan.verb} {clean(plan.subject)}", markup=False)
                    for change in plan.changes:
                        yield Static(f"  · {clean(change)}", markup=False)
                    yield Static(f"  $ {clean(plan.command)}", markup=False, classes="dim")
            if self._typed:
                yield Static(
                    f"type {self._typed} to do it; esc leaves it", markup=False, classes="bad"
                )
                yield Input(id="typed")
            else:
                yield Static("do it? y / n")

    def on_mount(self) -> None:
        """Ready to type."""
        if self._typed:
            self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The name, or not."""
        if " ".join(event.value.split()) == self._typed:
            self.dismiss(True)
        else:
            self.notify(f"that is not {self._typed}", severity="warning", markup=False)

    def action_answer(self, answer: bool) -> None:
        """``y`` answers only where nothing has to be typed."""
        if not (answer and self._typed):
            self.dismiss(answer)


class Help(ModalScreen[None]):
    """Everything the present view knows: its purpose, keys and commands."""

    BINDINGS: ClassVar[list[BindingType]] = [*CLOSE, Binding("question_mark", "close", "close")]

    def __init__(self, title: str, entries: list[tuple[str, str]]) -> None:
        super().__init__()
        self._title = title
        self._entries = entries

    def compose(self) -> ComposeResult:
        """Two columns: the key, and its action."""
        lengths = [len(left) for left, right in self._entries if right]
        width = min(WIDEST, max(lengths, default=0))
        with Vertical(classes="dialog"):
            yield Static(self._title, markup=False, classes="name")
            with VerticalScroll():
                for left, right in self._entries:
                    line = f"  {left:<{width}}  {right}" if right else f"\n{left}"
                    yield Static(line, markup=False)

    def action_close(self) -> None:
        """Back to the view."""
        self.dismiss(None)


class TextPage(ModalScreen[None]):
    """Some text, perhaps one that goes on: a description, a manifest, a log.

    Args:
        title: what it is.
        pieces: where it comes from, cut anywhere; read to the end while the page is open.
        follow: show the end as it grows, instead of the beginning.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
        Binding("f", "follow", "follow"),
    ]

    def __init__(self, title: str, pieces: AsyncIterator[str], *, follow: bool = False) -> None:
        super().__init__()
        self._title = title
        self._pieces = pieces
        self._follow = follow
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)

    def compose(self) -> ComposeResult:
        """The title and the text."""
        with Vertical():
            yield Static(f"{self._title}   esc closes, f follows", markup=False, id="caption")
            yield Log(id="page", max_lines=KEPT_LINES, auto_scroll=self._follow)

    def on_resize(self) -> None:
        """Fold the lines anew."""
        page = self.query_one(Log)
        page.clear()
        page.write_lines(self._folded(self._lines))

    def _folded(self, lines: Iterable[str]) -> list[str]:
        """As the widget is given them: it cuts long lines, and leaves out those that are empty."""
        room = max(20, self.size.width - 2)
        return [part for line in lines for part in folded(visible(line) or " ", room, KEPT_LINES)]

    def on_mount(self) -> None:
        """Begin to read."""
        self.query_one(Log).focus()
        self._read()

    @work(exclusive=True)
    async def _read(self) -> None:
        rest = ""
        async for text in self._pieces:
            *whole, rest = (rest + text).split("\n")
            self._write(whole)
        self._write([rest] if rest else [])

    def _write(self, lines: list[str]) -> None:
        self._lines.extend(lines)
        self.query_one(Log).write_lines(self._folded(lines))

    def action_scroll(self, step: int) -> None:
        """A line down or up."""
        self.query_one(Log).scroll_relative(y=step, animate=False)

    def action_follow(self) -> None:
        """Stay at the end as it grows, or not."""
        page = self.query_one(Log)
        page.auto_scroll = not page.auto_scroll
        if page.auto_scroll:
            page.scroll_end(animate=False)

    def action_close(self) -> None:
        """Back to the view."""
        self.dismiss(None)
