"""One peer: the ladder of the doctor, its workloads, resources and reflection, and its log.

Each part is a table of its own, under the same notes.
"""

from collections.abc import Callable
from dataclasses import replace

from liqod.model.view.headline import began, condition, first_failing
from liqod.model.view.rows import Amount, Ladder, Pulse
from tui import text
from tui.marks import CONDITIONS, ROLES, VERDICTS, yes_no
from tui.roundtrips import round_trips
from tui.session import Session, Trend
from tui.table import Cell, Column, Place, Row, Table
from tui.views import guests, network, offloaded, records

LADDER = (Column(""), Column("LAYER", most=32), Column("FOR", rank=1), Column("EVIDENCE", most=0))
SLICES = (
    Column("SLICE", most=32),
    Column("DIRECTION"),
    Column("RESOURCES"),
    Column("CLASS", rank=3),
    Column("ASKED", rank=1, most=40),
    Column("GRANTED", most=40),
    Column("WHY", rank=2, most=0),
)
FACTS = (Column("NETWORK"), Column("", most=0))
REFLECTORS = (
    Column("REFLECTOR"),
    Column("WAITING", right=True),
    Column("BUSY", rank=2, right=True),
    Column("OVERDUE", rank=1, right=True),
    Column("DONE", right=True),
    Column("FAILED", right=True),
    Column("LAST ERROR", most=0),
)


def build(session: Session, place: Place, now: float) -> Table:
    """One part of a peer's page; the ladder where none is named."""
    table = PARTS.get(place.part, _ladder)(session, place.subject, now)
    return replace(table, notes=notes(session, place.subject, now))


def notes(session: Session, name: str, now: float) -> tuple[Cell, ...]:
    """Two or three lines that sum the peer up."""
    state = session.state
    peer = state.peers.get(name)
    if peer is None:
        return (Cell("this peer is gone", "bad"),)
    pulse = state.pulses.get(name) or Pulse()
    trend = session.trends.get(name) or Trend()
    how = condition(peer, pulse, now)
    mark = CONDITIONS[how]
    heard = f"heard {text.since(pulse.heard, now)} ago" if pulse.heard else "not heard of yet"
    role = f"{ROLES.get(peer.role, '·')} {peer.role or 'role unknown'}"
    lasting = text.since(began(peer, state.pulses.get(name), how), now)
    first = (
        f"{mark.glyph} {how}{f' for {lasting}' if lasting else ''} · {role} · "
        f"{text.clean(peer.server) or 'nothing is borrowed'} · {heard}"
    )
    way = round_trips(pulse, state.networks.get(name))
    tunnel = f"tunnel: RTT {text.round_trip(way.rtt)} loss {text.share(way.loss)} · API server: "
    second = (
        f"{tunnel if way.tunnel else ''}RTT {text.round_trip(pulse.p50)} "
        f"p95 {text.round_trip(pulse.p95)} jitter {text.round_trip(pulse.jitter)} "
        f"loss {text.share(pulse.loss)} "
        f"{text.spark(trend.rtt, 30)} · {text.rate(pulse.sent)} out {text.rate(pulse.received)} in"
    )
    lines = [Cell(first, mark.tone), Cell(second)]
    failing = first_failing(state.ladders.get(name))
    if failing is not None and failing.remedy:
        lines.append(Cell(f"to do: {text.clean(failing.remedy)}", "fair"))
    elif peer.failure:
        lines.append(Cell(f"its task fails: {text.clean(peer.failure)}", "bad"))
    return tuple(lines)


def _ladder(session: Session, name: str, now: float) -> Table:
    ladder = session.state.ladders.get(name) or Ladder(name)
    return Table(LADDER, ladder_rows(ladder, now), empty="the doctor has not looked yet")


def ladder_rows(ladder: Ladder, now: float) -> tuple[Row, ...]:
    """A doctor's ladder, the lowest layer first; the remedy is below a layer that fails."""
    rows = []
    for check in ladder.checks:
        mark = VERDICTS[check.verdict]
        rows.append(
            Row(
                check.layer,
                (
                    Cell(mark.glyph, mark.tone),
                    Cell(text.clean(check.title), mark.tone if check.verdict == "failing" else ""),
                    Cell(text.since(check.since, now), "dim", now - check.since),
                    Cell(text.clean(check.evidence), "" if check.verdict == "failing" else "dim"),
                ),
            )
        )
        if check.verdict == "failing" and check.remedy:
            cells = (Cell(), Cell(), Cell("to do", "fair"), Cell(text.clean(check.remedy), "fair"))
            rows.append(Row(f"{check.layer}/remedy", cells, child=True))
    return tuple(rows)


def _workloads(session: Session, name: str, now: float) -> Table:
    return offloaded.of_peer(session, name, now)


def _resources(session: Session, name: str, now: float) -> Table:
    rows = []
    for key, piece in sorted(session.state.slices.items()):
        if piece.peer != name:
            continue
        good = piece.resources == "Accepted"
        cells = (
            Cell(text.clean(piece.name), "name"),
            Cell(piece.direction),
            # Somebody meant it so: no failure.
            Cell("· cordoned", "fair", 0)
            if good and piece.cordoned
            else yes_no(good, text.clean(piece.resources or "no answer yet")),
            Cell(text.clean(piece.class_name)),
            Cell(_quantities(piece.asked)),
            Cell(_quantities(piece.granted)),
            Cell(text.clean(piece.why), "dim" if good else "fair"),
        )
        rows.append(Row(key, cells))
    peer = session.state.peers.get(name)
    for resource, amount in sorted(peer.quota.items() if peer is not None else ()):
        rows.append(_used(resource, amount))
    return Table(SLICES, tuple(rows), empty="nothing is lent or borrowed")


def _used(resource: str, amount: Amount) -> Row:
    used = f"{amount.used} of {amount.granted} used, {text.share(amount.part)}"
    if amount.waits:
        used += f"; {amount.waits} waiting there"
    cells = (Cell(text.clean(resource)), Cell("used"), Cell(), Cell(), Cell(), Cell(used), Cell())
    return Row(f"quota {resource}", cells)


def _quantities(resources: dict[str, str]) -> str:
    return text.clean(" ".join(f"{name} {value}" for name, value in sorted(resources.items())))


def _reflection(session: Session, name: str, now: float) -> Table:
    rows = tuple(
        Row(
            key,
            (
                Cell(text.clean(each.reflector), "name"),
                Cell(str(each.waiting), "fair" if each.waiting else "", each.waiting),
                Cell(str(each.busy), "", each.busy),
                Cell(f"{each.oldest:.1f} s" if each.oldest else "", "fair", each.oldest),
                Cell(str(each.done), "", each.done),
                Cell(str(each.failed), "fair" if each.failed else "", each.failed),
                Cell(text.clean(each.error), "bad"),
            ),
        )
        for key, each in sorted(session.state.reflections.items())
        if each.peer == name
    )
    return Table(REFLECTORS, rows, empty="nothing is reflected to this peer")


def _network(session: Session, name: str, now: float) -> Table:
    """All that is known of the joined network, one fact a line."""
    known = session.state.networks.get(name)
    if known is None:
        return Table(FACTS, (), empty="no network is joined with this peer")
    rows = tuple(
        Row(f"{title}/{number}", (Cell(text.clean(title), "name"), Cell(text.clean(value), tone)))
        for number, (title, value, tone) in enumerate(network.facts(known))
        if value
    )
    return Table(FACTS, rows, empty="nothing is known of it yet")


def _timeline(session: Session, name: str, now: float) -> Table:
    return records.events(session, now, peer=name)


def _log(session: Session, name: str, now: float) -> Table:
    return records.lines(session, peer=name)


PARTS: dict[str, Callable[[Session, str, float], Table]] = {
    "ladder": _ladder,
    "workloads": _workloads,
    "guests": guests.of_peer,
    "resources": _resources,
    "reflection": _reflection,
    "network": _network,
    "timeline": _timeline,
    "log": _log,
}
"""The parts of the page in the order of their tabs."""
