"""The view of a lender: the pods that run here for each consumer."""

from collections import defaultdict

from liqod.model.crossing.guests import guest_rows
from liqod.model.view.snapshot import GuestSummary
from tui import text
from tui.session import Session
from tui.table import Cell, Column, Place, Row, Table, Tone

COLUMNS = (
    Column("CONSUMER / NAMESPACE HERE / POD", most=56),
    Column("READY", right=True),
    Column("PHASE", rank=1),
    Column("NODE", rank=2),
    Column("WHY", most=0),
)


def build(session: Session, place: Place, now: float) -> Table:
    """The guests of every consumer."""
    return tree(session)


def of_peer(session: Session, peer: str, now: float) -> Table:
    """Those of one."""
    return tree(session, peer)


def tree(session: Session, peer: str = "") -> Table:
    """Namespaces with the pods in them, each consumer's after the other's."""
    guests = [each for each in session.state.guests.values() if peer in ("", each.consumer)]
    pods: dict[tuple[str, str], list[GuestSummary]] = defaultdict(list)
    for each in sorted(guests, key=lambda guest: guest.name):
        pods[each.consumer, each.namespace].append(each)
    rows = []
    for group in guest_rows(guests):
        phases = ", ".join(f"{count} {phase}" for phase, count in group.phases.items())
        cells = (
            Cell(text.clean(f"{group.consumer}  {group.namespace}"), "name"),
            Cell(f"{group.ready}/{group.pods}", "", group.ready),
            Cell(text.clean(phases), "dim"),
            Cell(),
            Cell(),
        )
        into = Place("peer", group.consumer, "guests")
        rows.append(Row(f"guests {group.consumer}/{group.namespace}", cells, into))
        rows += [_pod(each) for each in pods[group.consumer, group.namespace]]
    return Table(COLUMNS, tuple(rows), empty="no pods run here for others")


def _pod(guest: GuestSummary) -> Row:
    done = guest.phase == "Succeeded"
    tone: Tone = "dim" if done else "" if guest.ready else "fair"
    cells = (
        Cell(f"  {text.clean(guest.name)}", tone),
        Cell("✓" if guest.ready else "·" if done else "✗", "good" if guest.ready else tone),
        Cell(text.clean(guest.phase), tone),
        Cell(text.clean(guest.node) or "none yet", "dim"),
        Cell(text.clean(guest.reason), tone),
    )
    key = f"{guest.namespace}/{guest.name}"
    return Row(f"pod {key}", cells, Place("pod", key), child=True)
