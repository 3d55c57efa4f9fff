"""The inbox: requests to borrow from this cluster, its own requests and offers, and sightings."""

from collections.abc import Iterable

from liqod.model.view.daemonfacts import SightingFacts
from liqod.model.view.requests import RequestRow
from tui import text
from tui.session import Session
from tui.table import Cell, Column, Place, Row, Table, Tone

COLUMNS = (
    Column("CLUSTER", most=32),
    Column("HOW"),
    Column("FROM", rank=3, most=40),
    Column("AGO", rank=2, right=True),
    Column("WORDS"),
    Column("RESOURCES", rank=1, most=40),
    Column("STATE", most=0),
)
ASKS, ASKED = "incoming", "outgoing"
"""Prefixes of the keys of rows, before a blank and the name of the request."""
TONES: dict[str, Tone] = {"Accepted": "good", "Done": "good", "Waiting": "fair", "": "dim"}


def build(session: Session, place: Place, now: float) -> Table:
    """The requests that wait for an answer, then the other requests, then discovery's sightings."""
    state = session.state
    rows = [
        *_requests(ASKS, "asks", state.incoming.values(), now),
        *_requests(ASKED, "is asked", state.outgoing.values(), now),
    ]
    for key, seen in sorted(state.sightings.items()):
        if not seen.peered:
            rows.append(_seen(key, seen, now))
    return Table(COLUMNS, tuple(rows), empty="nobody asks, and no cluster was seen that is no peer")


def described(session: Session, key: str) -> str:
    """All that is known of a request; empty for a row that is none, or that is gone."""
    direction, _, name = key.partition(" ")
    tables = {ASKS: session.state.incoming, ASKED: session.state.outgoing}
    row = tables.get(direction, {}).get(name)
    if row is None:
        return ""
    who = text.clean(row.cluster_id or row.name)
    asked = f"{who} is dialled to lend to it" if row.lends else f"{who} is asked to lend"
    first = f"{who} asks to borrow from here" if direction == ASKS else asked
    pairs = (
        ("entry", row.name),
        ("words", row.words),
        ("asked for", listed(row.asked) or "what is granted by default"),
        ("granted", listed(row.granted)),
        ("from" if direction == ASKS else "at", row.source),
        ("state", row.state),
        ("decision", f"{row.decision}{', always' if row.always else ''}" if row.decision else ""),
        ("why", row.reason),
        ("until", row.expires),
    )
    return "\n".join([first, *(f"  {name}: {text.clean(said)}" for name, said in pairs if said)])


def listed(resources: dict[str, str]) -> str:
    """Quantities in a line."""
    return ", ".join(f"{name} {amount}" for name, amount in sorted(resources.items()))


def _requests(direction: str, how: str, found: Iterable[RequestRow], now: float) -> list[Row]:
    open_ = [each for each in found if each.state != "Done"]  # those are peers
    rows = []
    for each in sorted(open_, key=lambda row: (row.state != "Waiting", row.cluster_id, row.name)):
        state = f"{each.state.lower() or 'new'}{f': {each.reason}' if each.reason else ''}"
        much = f"granted {listed(each.granted)}" if each.granted else listed(each.asked)
        cells = (
            Cell(text.clean(each.cluster_id or each.name), "name"),
            Cell("is dialled" if each.lends else how),
            Cell(text.clean(each.source)),
            Cell(text.since(each.since, now), "dim", each.since),
            Cell(text.clean(each.words)),
            Cell(text.clean(much or ("" if each.lends else "the defaults"))),
            Cell(text.clean(state), TONES.get(each.state, "bad")),
        )
        rows.append(Row(f"{direction} {each.name}", cells))
    return rows


def _seen(key: str, seen: SightingFacts, now: float) -> Row:
    state, tone = _sighting(seen)
    cells = (
        Cell(text.clean(seen.cluster_id), "name"),
        Cell("is seen"),
        Cell(text.clean(" ".join(filter(None, (seen.plugin, seen.where))))),
        Cell(text.since(seen.seen, now), "dim", seen.seen),
        Cell(""),
        Cell(text.clean(f"free {listed(seen.free)}") if seen.free else ""),
        Cell(state, tone),
    )
    return Row(key, cells)


def _sighting(seen: SightingFacts) -> tuple[str, Tone]:
    if seen.problem:
        return text.clean(seen.problem), "bad"
    if seen.own or seen.conflict:
        return "two clusters have this id" + (": this one's" if seen.own else ""), "bad"
    if seen.unverified:
        return f"does not hold: {text.clean(seen.unverified)}", "bad"
    if seen.step:
        return text.clean(seen.step), "fair"
    if seen.kubeconfig:
        return "can be peered with", "good"
    if seen.addresses:
        signed = f"signed by {text.clean(seen.key[:8])}" if seen.key else "unsigned"
        return f"can be asked at {text.clean(seen.addresses[0])}; {signed}", "good"
    return "seen; it brings no credentials to peer with", "dim"
