"""No colours at all, where ``NO_COLOR`` asks for none: Textual would paint in greys."""

from rich.color import Color as Painted
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

OWN = Style.from_color(Painted.default(), Painted.default())
"""The terminal's own colours, in front and behind."""


class Plain(LineFilter):
    """Leaves bold, underlined, italic and reversed, and takes every colour out."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments of a line as they are written."""
        return [
            Segment(text, OWN if style is None else style + OWN, control)
            for text, style, control in segments
        ]
