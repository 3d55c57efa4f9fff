"""The findings of a benchmark: a table for people, JSON for programs, and the aims beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NOTE = """\
Liqo's figures: v1.2, measured the same way on another two-core machine, its parts at their chart's
defaults; per pod they include a token request and a token Secret, which liqod does not make."""


@dataclass(frozen=True)
class Aim:
    """One figure that is aimed at.

    Attributes:
        what: what it is, with its unit.
        liqo: what Liqo reaches.
        aim: the bound, and the figure may not be above it.
    """

    what: str
    liqo: str
    aim: float


@dataclass
class Report:
    """One benchmark's findings.

    Attributes:
        title: the headline.
        facts: where and how it was measured.
        rows: the table, the first row its head.
        figures: everything, for another program.
        aims: what was reached of what is aimed at.
    """

    title: str
    facts: dict[str, str] = field(default_factory=dict)
    rows: list[tuple[str, ...]] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    aims: list[tuple[Aim, float]] = field(default_factory=list)

    def text(self) -> str:
        """As it is printed."""
        parts = [self.title, *(f"{name}: {fact}" for name, fact in self.facts.items()), ""]
        if self.rows:
            parts += [table(self.rows), ""]
        if self.aims:
            parts += [aims_table(self.aims), "", NOTE]
        return "\n".join(parts)

    def write(self, path: str) -> None:
        """Write it as JSON."""
        reached = [
            {"what": aim.what, "liqo": aim.liqo, "aim": aim.aim, "reached": value}
            for aim, value in self.aims
        ]
        found = {"title": self.title, **self.facts, "aims": reached, **self.figures}
        Path(path).write_text(json.dumps(found, indent=2) + "\n")


def aims_table(aims: list[tuple[Aim, float]]) -> str:
    """The aims, what Liqo reaches, and what was reached here."""
    rows: list[tuple[str, ...]] = [("", "Liqo", "aim", "here", "")]
    for aim, value in aims:
        verdict = "" if value <= aim.aim else "above"
        rows.append((aim.what, aim.liqo, f"≤ {aim.aim:g}", number(value), verdict))
    return table(rows)


def table(rows: list[tuple[str, ...]]) -> str:
    """Columns, the first to the left, the others to the right."""
    columns = max((len(row) for row in rows), default=0)
    full = [row + ("",) * (columns - len(row)) for row in rows]
    widths = [max(len(row[column]) for row in full) for column in range(columns)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in full
    )


def number(value: float) -> str:
    """Three figures that count."""
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 4
    return f"{value:.{digits}f}"


def mib(size: float) -> str:
    """Bytes in MiB."""
    return f"{size / 2**20:.1f}"
