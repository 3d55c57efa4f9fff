"""What a plugin raised: as it is told, and without the cancellations that came with it."""

import trio


def described(error: BaseException) -> str:
    """An error with its type, and of a group each once."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(described(each) for each in error.exceptions))
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


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
