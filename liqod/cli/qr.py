"""An invitation as a QR code of half blocks, for a terminal."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

import segno

BORDER: Final = 2
"""Modules of light around it; readers ask for four, and do with two."""
_HALVES: Final = {(1, 1): " ", (0, 1): "▀", (1, 0): "▄", (0, 0): "█"}


def drawn(line: str) -> list[str]:
    """The lines of text that show it; light is drawn, for terminals are dark as a rule.

    Args:
        line: what it says.
    """
    code = segno.make(line, error="l", micro=False)
    rows = [list(row) for row in code.matrix_iter(border=BORDER)]
    return [
        "".join(_HALVES[int(bool(upper)), int(bool(lower))] for upper, lower in pairs)
        for pairs in _in_twos(rows)
    ]


def _in_twos(rows: Sequence[Sequence[int]]) -> Iterator[list[tuple[int, int]]]:
    for at in range(0, len(rows), 2):
        below: Sequence[int] = rows[at + 1] if at + 1 < len(rows) else ()
        yield list(zip_longest(rows[at], below, fillvalue=0))
