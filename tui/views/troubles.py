"""Everything that is wrong, the worst first, each with what to do."""

from liqod.model.view.headline import every
from tui import text
from tui.marks import LEVELS
from tui.session import Session
from tui.table import Cell, Column, Place, Row, Table

COLUMNS = (Column(""), Column("WHOSE", rank=1), Column("WHAT IS WRONG, AND WHAT TO DO", most=0))


def build(session: Session, place: Place, now: float) -> Table:
    """This cluster's own trouble, each peer's, and what ``liqod status`` names."""
    rows = []
    for number, found in enumerate(every(session.state, now)):
        mark = LEVELS[found.level]
        cells = (
            Cell(mark.glyph, mark.tone),
            Cell(text.clean(found.peer) or "own", "name"),
            Cell(text.clean(found.what), mark.tone),
        )
        into = Place("peer", found.peer) if found.peer in session.state.peers else Place("doctor")
        rows.append(Row(f"{number}", cells, into))
        if found.remedy:
            remedy = Cell(f"→ {text.clean(found.remedy)}")
            rows.append(Row(f"{number}/remedy", (Cell(), Cell(), remedy), into, child=True))
    return Table(COLUMNS, tuple(rows), empty="nothing is wrong")
