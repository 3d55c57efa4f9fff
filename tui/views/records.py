"""The views of records: every change of state on one axis, and the daemon's log."""

from liqod.model.view.rows import EventRow
from tui import text
from tui.marks import LOG_LEVELS, Mark
from tui.session import Session
from tui.table import Cell, Column, Place, Row, Table, Tone

EVENTS = (
    Column("TIME"),
    Column("AGO", rank=2, right=True),
    Column("PEER", rank=1),
    Column("WHAT", most=28),
    Column("FACTS", most=0),
)
LINES = (
    Column("TIME"),
    Column(""),
    Column("PEER", rank=1),
    Column("PART", rank=2, most=28),
    Column("LINE", most=0),
)
AXIS_WIDTH = 60
AXIS_SPAN = 600.0


def timeline(session: Session, place: Place, now: float) -> Table:
    """Every change of state, the newest first."""
    return events(session, now)


def log(session: Session, place: Place, now: float) -> Table:
    """The log, the newest line first."""
    return lines(session)


def events(session: Session, now: float, *, peer: str = "") -> Table:
    """The events of one peer, or of all."""
    shown = [event for event in session.events if peer in ("", event.peer)]
    rows = tuple(_event(event, now) for event in reversed(shown))
    return Table(EVENTS, rows, (axis(shown, now),), "nothing has happened yet")


def lines(session: Session, *, peer: str = "") -> Table:
    """The lines of one peer, or all."""
    rows = []
    for number, line in enumerate(session.lines):
        if peer in ("", line.peer):
            mark = LOG_LEVELS.get(line.level, Mark("i", ""))
            cells = (
                Cell(text.clock(line.at), "dim", line.at),
                Cell(mark.glyph, mark.tone),
                Cell(text.clean(line.peer), "name"),
                Cell(text.clean(line.logger.removeprefix("liqod.")), "dim"),
                Cell(text.clean(line.text), mark.tone),
            )
            rows.append(Row(f"{line.at} {number}", cells))
    return Table(LINES, tuple(reversed(rows)), empty="the daemon has said nothing yet")


def axis(shown: list[EventRow], now: float) -> Cell:
    """How much happened when, over the last ten minutes."""
    counts: list[float | None] = [0.0] * AXIS_WIDTH
    for event in shown:
        place = int((event.at - now + AXIS_SPAN) / AXIS_SPAN * AXIS_WIDTH)
        if 0 <= place < AXIS_WIDTH:
            counts[place] = (counts[place] or 0.0) + 1
    bars = text.spark(counts, AXIS_WIDTH)
    return Cell(f"10 min ago {bars} now", "dim")


def _event(event: EventRow, now: float) -> Row:
    tone: Tone = "fair" if event.is_bad else ""
    cells = (
        Cell(text.clock(event.at), "dim", event.at),
        Cell(text.since(event.at, now), "dim", event.at),
        Cell(text.clean(event.peer), "name"),
        Cell(text.clean(event.topic), tone),
        Cell(text.clean(event.text), tone),
    )
    into = Place("peer", event.peer, "timeline") if event.peer else None
    return Row(str(event.sequence), cells, into)
