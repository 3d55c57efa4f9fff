"""Smaller views: plugins, the daemon's tasks, this cluster's own ladder."""

from liqod.inspect.protocol import Tasks
from liqod.model.view.figures import counted
from liqod.model.view.rows import Ladder
from tui import text
from tui.marks import VERDICTS
from tui.session import Session
from tui.table import Cell, Column, Place, Row, Table
from tui.views.peer import LADDER, ladder_rows

PLUGINS = (
    Column(""),
    Column("PLUGIN", most=32),
    Column("KIND"),
    Column("PACKAGE", rank=2),
    Column("VERSION", rank=3),
    Column("STATE", rank=1),
    Column("WHY", most=0),
)
TASKS = (
    Column("TASK", most=56),
    Column("PEER", rank=2),
    Column("WAITS IN", most=40),
    Column("FOR", rank=1, right=True),
    Column("WHERE", rank=3, most=0),
)


def plugins(session: Session, place: Place, now: float) -> Table:
    """The plugins that were loaded and those that were left out; failing ones first."""
    rows = []
    for key, plugin in session.state.plugins.items():
        failing = bool(plugin.failure) or plugin.state == "left out"
        mark = VERDICTS["failing" if failing else "ok" if plugin.state == "active" else "skipped"]
        cells = (
            Cell(mark.glyph, mark.tone),
            Cell(text.clean(plugin.name), "name"),
            Cell(text.clean(plugin.kind)),
            Cell(text.clean(plugin.package), "dim"),
            Cell(text.clean(plugin.version), "dim"),
            Cell(text.clean(plugin.state), mark.tone),
            Cell(text.clean(plugin.failure or plugin.why), "bad" if failing else "dim"),
        )
        rows.append((not failing, plugin.kind, plugin.name, Row(key, cells)))
    return Table(PLUGINS, tuple(row[-1] for row in sorted(rows, key=lambda r: r[:3])))


def own(session: Session, place: Place, now: float) -> Table:
    """The doctor's findings in this cluster itself."""
    ladder = session.state.ladders.get("") or Ladder("")
    rows = ladder_rows(ladder, now)
    return Table(LADDER, rows, empty="the doctor has not looked yet")


def tasks(session: Session, place: Place, now: float) -> Table:
    """The daemon's tasks, its queues, watches and requests, as last reported."""
    tree = session.tasks
    if tree is None:
        return Table(TASKS, (), empty="asking the daemon")
    rows = []
    for number, task in enumerate(tree.tasks):
        cells = (
            Cell("  " * min(task.depth, 16) + text.clean(task.name), "name"),
            Cell(text.clean(task.peer)),
            Cell(text.clean(task.waits)),
            Cell(text.round_trip(task.waiting) if task.waiting else "", "dim", task.waiting),
            Cell(text.clean(task.where), "dim"),
        )
        rows.append(Row(f"{number}", cells))
    return Table(TASKS, tuple(rows), _sums(tree))


def _sums(tree: Tasks) -> tuple[Cell, ...]:
    waiting = sum(queue.waiting for queue in tree.queues)
    busy = sum(queue.busy for queue in tree.queues)
    quiet = [watch for watch in tree.watches if watch.problem]
    active = sum(traffic.active for traffic in tree.traffic)
    first = (
        f"{counted(len(tree.tasks), 'task')} · event loop late by "
        f"{text.round_trip(tree.lag[0])}, {text.round_trip(tree.lag[1])} in the last minute · "
        f"this look took {text.round_trip(tree.took)}"
    )
    second = (
        f"{counted(len(tree.queues), 'queue')}: {waiting} waiting, {busy} at work · "
        f"{len(tree.watches)} watches, {len(quiet)} not following · {active} requests under way"
    )
    problems = (
        Cell(f"{watch.kind} of {watch.server}: {text.clean(watch.problem)}", "fair")
        for watch in quiet[:3]
    )
    return (Cell(first), Cell(second), *problems)
