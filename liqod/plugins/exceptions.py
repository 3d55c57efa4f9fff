"""A plugin's exceptions: as reported, and without the cancellations that came with them."""

from typing import Final

import trio

LONGEST: Final = 500
"""Characters of an error that are reported: it goes into logs, Events and each viewer's screen."""


def described(error: BaseException) -> str:
    """An error with its type, in one line, and of a group each once."""
    if isinstance(error, BaseExceptionGroup):
        return _cut("; ".join(dict.fromkeys(described(each) for each in error.exceptions)))
    text = in_a_line(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def in_a_line(error: BaseException) -> str:
    """The text of an error, in one line that is not too long, also where its ``__str__`` raises."""
    try:
        text = str(error)
    except BaseException as broken:  # the wall: a `__str__` of its own runs here
        return f"it has no text, as its __str__ raises {type(broken).__name__}"
    return _cut(text)


def _cut(text: str) -> str:
    line = " ".join(text[: 4 * LONGEST].split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def without_cancellation(error: BaseException) -> BaseException | None:
    """An error, or a group, without the cancellations in it; None where nothing is left."""
    if isinstance(error, trio.Cancelled):
        return None
    if not isinstance(error, BaseExceptionGroup):
        return error
    rest = error.split(trio.Cancelled)[1]
    while isinstance(rest, BaseExceptionGroup) and len(rest.exceptions) == 1:
        rest = rest.exceptions[0]
    return rest
