"""Figures and strings as they are shown: short, of steady width, and safe for a terminal."""

import math
from collections.abc import Sequence
from datetime import datetime

from liqod.model.objects.quantities import NANO, is_quantity, parse
from liqod.model.text import fit, is_fit
from liqod.model.view.figures import bars, span

UNKNOWN = "–"
_BYTES = ("B", "kB", "MB", "GB", "TB")
_BINARY = {"Ti": 4, "Gi": 3, "Mi": 2, "Ki": 1}
"""Binary suffixes, with their powers of 1024."""


def clean(text: str) -> str:
    """Text of somebody else's on one line, with nothing in it that a terminal would obey."""
    if is_fit(text):
        return text
    return _blanked(text).strip()


def visible(line: str) -> str:
    """A line of a longer text, made as safe; it keeps its indentation."""
    return _blanked(line.expandtabs())


def _blanked(text: str) -> str:
    return "".join(letter if fit(letter) else " " for letter in text)


def since(then: float, now: float) -> str:
    """How long ago; nothing where it never was."""
    return span(now - then) if then else ""


def round_trip(seconds: float | None) -> str:
    """Milliseconds with two figures, seconds from one on."""
    if seconds is None:
        return UNKNOWN
    if seconds >= 1:
        return f"{seconds:.1f} s"
    milliseconds = seconds * 1e3
    return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"


def share(part: float | None) -> str:
    """A ratio in percent; a little is shown as a little, not as nothing."""
    if part is None:
        return UNKNOWN
    if 0 < part < 0.01:
        return "<1%"
    return f"{part:.0%}"


def size(count: float) -> str:
    """Bytes, in powers of a thousand."""
    for unit in _BYTES:
        if abs(count) < 1000 or unit == _BYTES[-1]:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("the last unit takes everything")


def rate(count: float) -> str:
    """Bytes a second."""
    return f"{size(count)}/s" if count >= 0.5 else UNKNOWN


def quantity(name: str, value: str) -> str:
    """A quantity of a resource: bytes rounded down to three figures, all others as they are."""
    if not any(part in name for part in ("memory", "storage", "hugepages-")):
        return value
    if not is_quantity(value):
        return value
    count = parse(value) / NANO
    unit = next((each for each in _BINARY if count >= 1024 ** _BINARY[each]), "")
    scaled = count / 1024 ** _BINARY[unit] if unit else count
    digits = 0 if scaled >= 100 else 1 if scaled >= 10 else 2
    return f"{math.floor(scaled * 10**digits) / 10**digits:g}{unit}"


def clock(at: float) -> str:
    """The local time of day of a Unix time."""
    return datetime.fromtimestamp(at).strftime("%H:%M:%S") if at else ""


def spark(values: Sequence[float | None], width: int) -> str:
    """The last ``width`` values as bars, highest of them the fullest; a gap where there is none."""
    shown = values[-width:]
    top = max((value for value in shown if value is not None), default=None)
    return "" if top is None else bars(shown, 0.0, top).rjust(width)
