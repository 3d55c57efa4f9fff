"""The glyphs that stand beside every colour, so that nothing is said by colour alone."""

from typing import NamedTuple

from liqod.model.view.headline import BAD, Condition, Level
from liqod.model.view.rows import GLYPHS, Verdict
from tui.table import Cell, Tone


class Mark(NamedTuple):
    """A glyph and what it means."""

    glyph: str
    tone: Tone


CONDITIONS: dict[Condition, Mark] = {
    "up": Mark("●", "good"),
    "degraded": Mark("◐", "fair"),
    "silent": Mark("◌", "fair"),
    "down": Mark("✗", "bad"),
    "failed": Mark("✗", "bad"),
    "idle": Mark("○", "dim"),
    "leaving": Mark("↩", "dim"),
}
SEVERITY: tuple[Condition, ...] = (*BAD, "leaving", "up", "idle")
"""The conditions, the worst first: the order of the peers."""

_TONES: dict[Verdict, Tone] = {"ok": "good", "failing": "bad", "unknown": "dim", "skipped": "dim"}
VERDICTS = {verdict: Mark(GLYPHS[verdict], tone) for verdict, tone in _TONES.items()}
LEVELS: dict[Level, Mark] = {
    "well": Mark("✓", "good"),
    "notice": Mark("·", "dim"),
    "warning": Mark("!", "fair"),
    "critical": Mark("✗", "bad"),
}
LOG_LEVELS: dict[str, Mark] = {
    "debug": Mark("·", "dim"),
    "info": Mark("i", ""),
    "warning": Mark("!", "fair"),
    "error": Mark("✗", "bad"),
    "critical": Mark("✗", "bad"),
}
ROLES = {"Provider": "→", "Consumer": "←", "ConsumerAndProvider": "⇄"}
"""Arrows for the direction of pods: out to a provider, in from a consumer, or both."""


def yes_no(good: bool, text: str = "") -> Cell:
    """A tick or a cross, with words beside it where there are some."""
    mark = VERDICTS["ok" if good else "failing"]
    return Cell(f"{mark.glyph} {text}".rstrip(), mark.tone, int(good))
