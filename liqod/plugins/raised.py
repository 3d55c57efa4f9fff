"""What a plugin raised: as it is told, and without the cancellations that came with it."""

from typing import Final

import trio

LONGEST: Final = 500
"""Characters of an error that are told: it goes into logs, Events and each viewer's screen."""


def described(error: BaseException) -> str:
    """An error with its type, in one line, and of a group each once."""
    if isinstance(error, BaseExceptionGroup):
        return _cut("; ".join(dict.fromkeys(described(each) for each in error.exceptions)))
    text = in_a_line(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def in_a_line(error: BaseException) -> str:
    """What an error says, in one line that is not too long; it may break at the question."""
    try:
        text = str(error)
    except BaseException as broken:  # the wall: a `__str__` of its own runs here
        return f"it has no text, as its __str__ raises {type(broken).__name__}"
    return _cut(text)


def _cut(text: str) -> str:
    line = " ".join(text[: 4 * LONGEST].split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def without_cancellation(error: BaseException) -> BaseException | None:
    """What is left of an error, or of a group, without the cancellations in it."""
    if isinstance(error, trio.Cancelled):
        return None
    if not isinstance(error, BaseExceptionGroup):
        return error
    rest = error.split(trio.Cancelled)[1]
    while isinstance(rest, BaseExceptionGroup) and len(rest.exceptions) == 1:
        rest = rest.exceptions[0]
    return rest
