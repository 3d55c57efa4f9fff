"""Parses the filter after ``/``: a regular expression, inverted by ``!`` before it."""

import re
from collections.abc import Callable

Predicate = Callable[[str], bool]


def predicate(expression: str) -> Predicate | None:
    """A predicate that is True for the text of a row to show; None shows all.

    Case counts only where the expression has a capital. A text that is no regular expression (yet,
    while it is typed) is searched for literally.
    """
    inverse = expression.startswith("!")
    wanted = expression[1:] if inverse else expression
    if not wanted:
        return None
    flags = re.NOFLAG if any(letter.isupper() for letter in wanted) else re.IGNORECASE
    try:
        pattern = re.compile(wanted, flags)
    except re.error:
        pattern = re.compile(re.escape(wanted), flags)
    if inverse:
        return lambda text: pattern.search(text) is None
    return lambda text: pattern.search(text) is not None
