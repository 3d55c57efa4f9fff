"""Figures as people read them: spans of time, counts, and values as a line of bars. Pure."""

from collections.abc import Iterable, Sequence

BARS = "▁▂▃▄▅▆▇█"
GAP = " "
_SIZES = ("B", "kB", "MB", "GB")


def span(seconds: float) -> str:
    """A span of time in one unit, such as ``14 s``."""
    seconds = max(seconds, 0.0)
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def listed(names: Sequence[str], most: int) -> str:
    """Names beside each other, of which no more are shown than this; the others are counted."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def counted(count: int, what: str) -> str:
    """``1 peer``, ``2 peers``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def measured(value: float, unit: str) -> str:
    """A value with its unit, which is a word, scaled for people.

    Bytes are counted in powers of a thousand; a value without a unit is a number.
    """
    if unit == "seconds":
        return f"{_short(1000 * value)} ms" if value < 1 else f"{_short(value)} s"
    if unit == "ratio":
        return f"{_short(100 * value)} %"
    if unit.startswith("bytes"):
        power = next((power for power in range(3) if value < 1000 ** (power + 1)), 3)
        return f"{_short(value / 1000**power)} {_SIZES[power]}{unit.removeprefix('bytes')}"
    return f"{_short(value)} {unit}".rstrip()


def _short(value: float) -> str:
    """Three figures that count, and all those before the point."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def bars(values: Iterable[float | None], low: float, high: float) -> str:
    """A bar for each value, the lowest for ``low``, the fullest for ``high``; a gap for None.

    Args:
        values: between ``low`` and ``high``.
        low: the least of them, or zero where a bar's height is to be its value.
        high: the greatest.
    """
    room, top = high - low, len(BARS) - 1
    return "".join(
        GAP if value is None else BARS[round((value - low) / room * top) if room else 0]
        for value in values
    )
