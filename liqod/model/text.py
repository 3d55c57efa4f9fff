"""Text that somebody else wrote, made fit for a terminal and for a log. Pure.

A peer chooses names, messages and reasons. Control characters in them would move the cursor, change
colours or titles, or begin lines that look like ours; marks of writing direction would show one
thing and mean another. They are shown as what they are.
"""

import re

_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def printable(text: str, *, lines: bool = False) -> str:
    """The text without control characters: each is shown as its code, such as ``\\x1b``.

    Args:
        text: anything.
        lines: leave line feeds as they are.
    """
    return _UNFIT.sub(lambda found: _code(found[0], lines=lines), text)


def printable_json(text: str) -> str:
    """JSON of the same value without what JSON leaves unescaped of those characters."""
    return _UNFIT.sub(lambda at: at[0] if at[0] < " " else f"\\u{ord(at[0]):04x}", text)


def _code(char: str, *, lines: bool) -> str:
    if char == "\n" and lines:
        return char
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"
