"""The plugin that a thread is in, and where there: found by the wall that it was called through."""

from pathlib import Path
from types import FrameType
from typing import NamedTuple

from liqod.plugins.callguard import WALLS, CallGuard


class RunningPlugin(NamedTuple):
    """Where a thread is.

    Attributes:
        gauge: of the plugin that it is in.
        place: file, line and function.
    """

    gauge: CallGuard
    place: str


def running(frame: FrameType | None) -> RunningPlugin | None:
    """The plugin that a thread runs, by the thread's innermost frame; None where it runs none."""
    inner = frame
    while frame is not None:
        if frame.f_code in WALLS:
            return RunningPlugin(frame.f_locals["gauge"], place(inner))
        inner, frame = frame, frame.f_back
    return None


def place(frame: FrameType | None) -> str:
    """Where a frame is: file, line and function."""
    if frame is None:
        return ""
    code = frame.f_code
    return f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}"
