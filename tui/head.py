"""The lines at the top and at the bottom: the daemon's cluster, the worst fault, the place."""

from collections.abc import Sequence

from liqod.model.view.figures import counted, span
from liqod.model.view.headline import counts, worst
from tui import text
from tui.marks import LEVELS, VERDICTS
from tui.session import Session
from tui.table import Cell
from tui.views import catalog
from tui.viewstate import ViewState


def title(session: Session, now: float) -> Cell:
    """The cluster, its daemon, its peers and what it all costs."""
    daemon = session.state.daemon
    sums = counts(session.state, now)
    pieces = [f"liqod {text.clean(session.title)}"]
    if daemon.key:
        pieces.append(f"key {text.clean(daemon.key[:8])}")
    if session.hello is not None:
        up = f" up {span(now - session.hello.started)}" if session.hello.started else ""
        pieces.append(f"{text.clean(session.hello.version)}{up}")
    pieces.append(f"{sums.up} up {sums.degraded} degraded {sums.down} down")
    if sums.asking:
        pieces.append(f"{sums.asking} waiting to be let in")
    if sums.inbox:
        pieces.append(f"{sums.inbox} in the inbox")
    pieces.append(f"{counted(sums.out, 'pod')} out {sums.inward} in")
    if daemon.rss:
        pieces.append(f"cpu {daemon.cpu:.1%} {text.size(daemon.rss)} lag {daemon.lag * 1e3:.0f} ms")
    return Cell(" · ".join(pieces), "name")


def sentence(session: Session, now: float, wall: float) -> Cell:
    """The one worst thing; that the connection is gone comes before everything else.

    Args:
        session: what is known.
        now: the daemon's clock.
        wall: this program's own clock.
    """
    if session.lost is not None and session.connection == "lost":
        return _lost(session, wall)
    if session.sequence < 0:
        return Cell(f"connecting to {session.name}", "dim")
    found = worst(session.state, now)
    mark = LEVELS[found.level]
    remedy = f" → {text.clean(found.remedy)}" if found.remedy else ""
    return Cell(f"{mark.glyph} {text.clean(found.text)}{remedy}", mark.tone)


def _lost(session: Session, wall: float) -> Cell:
    lost = session.lost
    assert lost is not None
    mark = VERDICTS["failing"]
    again = f"; next try in {span(lost.retry_at - wall)}" if lost.retry_at > wall else ""
    known = f"; shown is how it was at {text.clock(session.at)}" if session.at else ""
    return Cell(f"{mark.glyph} {text.clean(lost.reason)}{known}{again}", mark.tone)


def daemons(view_states: Sequence[ViewState], current: int, steady: float) -> str:
    """One word for each daemon, with the glyph of its worst; the present one in brackets."""
    words = []
    for index, view_state in enumerate(view_states):
        session = view_state.session
        level = worst(session.state, view_state.now(steady)).level
        mark = VERDICTS["failing"] if session.connection == "lost" else LEVELS[level]
        word = f"{mark.glyph} {text.clean(session.title)}"
        words.append(f"[{word}]" if index == current else f" {word} ")
    return " ".join(words)


def crumbs(view_state: ViewState, rows: int) -> str:
    """Where one is, what is filtered, and whether it stands still."""
    options = view_state.options
    pieces = [f"{view_state.crumbs()} ({rows})"]
    if options.expression:
        pieces.append(f"/{options.expression}")
    if options.selected:
        pieces.append(f"{len(options.selected)} selected")
    if view_state.frozen is not None:
        pieces.append(f"FROZEN at {text.clock(view_state.frozen.at)}")
    if view_state.still:
        pieces.append(f"PAUSED at {text.clock(view_state.session.at)}")
    if view_state.session.restarts:
        pieces.append(f"{counted(view_state.session.restarts, 'restart')} seen")
    return "  ".join(pieces)


def tabs(view_state: ViewState, width: int) -> str:
    """The parts of a page that has some, else the views; the present one in brackets.

    The other titles are cut where all of them are wider than the screen.
    """
    parts = catalog.parts(view_state.place)
    if parts:
        here = view_state.place.part or parts[0]
        return "tab: " + " ".join(f"[{part}]" if part == here else part for part in parts)
    offered = catalog.offered(view_state.session)
    line = ""
    for letters in range(max(len(view.title) for view in offered), -1, -1):
        line = " ".join(
            f"[{view.key} {view.title}]"
            if view.name == view_state.place.view
            else f"{view.key} {view.title[:letters]}".rstrip()
            for view in offered
        )
        if len(line) <= width:
            break
    return line
