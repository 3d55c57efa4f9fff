"""Makes text from other parties fit for a terminal and for a log. Pure.

A peer chooses names, messages and reasons. Control characters in them would move the cursor, change
colours or titles, or begin lines that look like ours; marks of writing direction would show one
thing and mean another, and invisible characters would make two names look alike. All of them are
shown as codes. All output to a terminal passes through this module.
"""

import re
import unicodedata
from typing import Final

_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that programs show as nothing (Unicode's ``Default_Ignorable_Code_Point``)."""
_SPACES: Final = "Zs"
"""Category of spaces: seen as such, whatever their width."""


def fit(char: str) -> bool:
    """True if a character is visible, or a space, and has no other effect."""
    if _UNSEEN.match(char):
        return False
    return char.isprintable() or unicodedata.category(char) == _SPACES


def is_fit(text: str) -> bool:
    """True if all characters of a text are fit for a terminal (:func:`fit`)."""
    return (text.isprintable() and not _UNSEEN.search(text)) or all(map(fit, text))


def printable(text: str, *, lines: bool = False) -> str:
    """The text with every invisible character shown as its code, such as ``\\x1b``.

    Args:
        text: any text.
        lines: leave line feeds as they are.
    """
    if is_fit(text):
        return text
    keep = "\n" if lines else ""
    return "".join(each if each in keep or fit(each) else _code(each) for each in text)


def printable_json(text: str) -> str:
    """JSON of the same value, with these characters escaped where JSON leaves them as they are."""
    if is_fit(text):
        return text
    return "".join(each if each < " " or fit(each) else _escaped(each) for each in text)


def _code(char: str) -> str:
    number = ord(char)
    if number < 1 << 8:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
