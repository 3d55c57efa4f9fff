"""The cost of drawing a table: the terminal program's own grid beside Textual's DataTable.

Both are shown the same tables, of 100 and of 1,000 rows of which every one has changed, once a
second, at 160 by 50 and without a terminal. Printed are the processor's time of one redraw and the
time until it is on the screen. DataTable gets what suits it best: cells that are another by their
keys, fixed widths, and rows that never change their order.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.text import Text
from textual.app import App, ComposeResult
from textual.widgets import DataTable

from benchmarks.report import Report
from benchmarks.stage import run
from tui.asking import PAINT
from tui.table import Cell, Column, Order, Row, Table
from tui.widgets.grid import Grid

SIZE = (160, 50)
ROWS = (100, 1000)
WARM = 3
"""Redraws that do not count."""
COLUMNS = tuple(Column(title) for title in ("peer", "state", "rtt", "loss", "lag", "pods", "why"))


def arguments() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.grids",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--redraws", type=int, default=20, help="of each table")
    made.add_argument("--json", metavar="FILE", help="write every figure there too")
    made.set_defaults(embedded=True)
    return made


def table(count: int) -> Table:
    """So many rows, with figures that are others each time."""
    return Table(COLUMNS, tuple(_row(number) for number in range(count)))


def _row(number: int) -> Row:
    trip = random.uniform(1, 20)
    return Row(
        f"edge-{number:04}",
        (
            Cell(f"edge-{number:04}", "name"),
            Cell("● up", "good"),
            Cell(f"{trip:.1f} ms"),
            Cell(f"{random.random():.1%}", "fair"),
            Cell(f"{random.uniform(0, 3):.2f} s"),
            Cell(str(random.randrange(100))),
            Cell(f"the newest of {random.randrange(10_000)}", "dim"),
        ),
    )


class Own(App[None]):
    """The grid of the program."""

    def compose(self) -> ComposeResult:
        """Nothing but that."""
        yield Grid()

    def show(self, made: Table) -> None:
        """Draw a table."""
        self.query_one(Grid).show(made, Order(), frozenset(), "")


class Textuals(App[None]):
    """Textual's, which is notified of each cell that is another."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[str, Row] = {}

    def compose(self) -> ComposeResult:
        """Nothing but that."""
        yield DataTable[Text](cursor_type="row")

    def show(self, made: Table) -> None:
        """Draw a table."""
        widget: DataTable[Text] = self.query_one(DataTable)
        if not widget.columns:
            for column in made.columns:
                widget.add_column(column.title, key=column.title, width=20)
        for row in made.rows:
            known = self._shown.get(row.key)
            if known is None:
                widget.add_row(*map(_painted, row.cells), key=row.key)
            else:
                for column, old, new in zip(made.columns, known.cells, row.cells, strict=True):
                    if old != new:
                        widget.update_cell(row.key, column.title, _painted(new))
        self._shown = {row.key: row for row in made.rows}


def _painted(cell: Cell) -> Text:
    return Text(cell.text, PAINT[cell.tone], no_wrap=True, overflow="ellipsis")


async def redraws(make: Callable[[], Any], count: int, times: int) -> tuple[float, float]:
    """Milliseconds of the processor for a redraw, and until it is on the screen; the medians."""
    app = make()
    used, took = [], []
    async with app.run_test(size=SIZE) as pilot:
        app.show(table(count))
        await pilot.pause(1.0)
        for number in range(WARM + times):
            made, painted = table(count), asyncio.Event()
            cpu, clock = time.process_time(), time.perf_counter()
            app.show(made)
            app.call_after_refresh(painted.set)
            await painted.wait()
            seen = time.perf_counter() - clock
            await pilot.pause(0.05)  # what follows a redraw belongs to it
            if number >= WARM:
                took.append(1000 * seen)
                used.append(1000 * (time.process_time() - cpu))
    return statistics.median(used), statistics.median(took)


def measure(chosen: argparse.Namespace) -> Report:
    """Each of both with each number of rows."""
    report = Report("one redraw of a table of which every row has changed")
    report.rows = [("rows", "drawn by", "processor, ms", "until it is seen, ms")]
    for count in ROWS:
        for name, make in (("own grid", Own), ("DataTable", Textuals)):
            used, took = asyncio.run(redraws(make, count, chosen.redraws))
            report.rows.append((str(count), name, f"{used:.1f}", f"{took:.1f}"))
            report.figures[f"{name} {count}"] = {"processor_ms": used, "seen_ms": took}
    return report


def main() -> int:
    """Measure."""
    return run(measure, arguments())


if __name__ == "__main__":
    sys.exit(main())
