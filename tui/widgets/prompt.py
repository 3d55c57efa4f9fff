"""The line at the bottom where ``/`` filters and ``:`` commands are typed."""

from collections.abc import Callable

from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input

from tui import commands
from tui.session import Session


class Completion(Suggester):
    """Suggests the rest of a command while it is typed; ``→`` takes it."""

    def __init__(self, session: Callable[[], Session]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._session = session

    async def get_suggestion(self, value: str) -> str | None:
        """The first completion; a filter has none."""
        if not value.startswith(":"):
            return None
        found = commands.completions(value[1:], self._session())
        return f":{found[0]}" if found else None


class Prompt(Input):
    """Hidden until it is opened.

    Args:
        session: gives what is known now, for the completion.
    """

    class Filtered(Message):
        """A filter as far as it is typed, or the one before where it was taken back."""

        def __init__(self, expression: str) -> None:
            super().__init__()
            self.expression = expression

    class Commanded(Message):
        """A whole command."""

        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    class Closed(Message):
        """It is hidden again."""

    def __init__(self, session: Callable[[], Session], *, id: str) -> None:
        super().__init__(id=id, suggester=Completion(session), select_on_focus=False)
        self._mark = self._before = ""

    @property
    def is_open(self) -> bool:
        """True if it is shown."""
        return self.has_class("open")

    def open(self, text: str, *, before: str = "") -> None:
        """Show it with some text in it, ready for more.

        Args:
            text: beginning with the mark, ``/`` or ``:``, which stays in front of what is typed.
            before: the filter that is there now, to which leaving goes back.
        """
        self._mark, self._before = text[:1], before
        self.add_class("open")
        self.value = text
        self.focus()
        self.cursor_position = len(text)

    def close(self, *, undo: bool = False) -> None:
        """Hide it; ``undo`` takes a filter back."""
        if undo and self.value.startswith("/"):
            self.post_message(self.Filtered(self._before))
        self.remove_class("open")
        self.value = ""
        self.post_message(self.Closed())

    def on_input_changed(self, event: Input.Changed) -> None:
        """A filter works while it is typed; the mark is not to be deleted."""
        event.stop()
        if self.is_open and not event.value.startswith(self._mark):
            self.value = self._mark + event.value
            self.cursor_position = len(self.value)
        elif event.value.startswith("/"):
            self.post_message(self.Filtered(event.value[1:]))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """A filter stays; a command is handed on."""
        event.stop()
        typed = event.value
        self.close()
        if typed.startswith(":") and typed != ":":
            self.post_message(self.Commanded(typed[1:]))
