"""The first view: every peer on one line, the worst first."""

from urllib.parse import urlsplit

from liqod.model.view.headline import Condition, began, conditions
from liqod.model.view.rows import Pulse, WidePeerRow
from tui import text
from tui.marks import CONDITIONS, ROLES, SEVERITY
from tui.roundtrips import round_trips
from tui.session import Session, Trend
from tui.table import Cell, Column, Place, Row, Table, Tone

COLUMNS = (
    Column(""),
    Column("PEER", most=32),
    Column("STATE"),
    Column("ROLE", rank=5),
    Column("RTT", rank=1, right=True),
    Column("P95", rank=4, right=True),
    Column("LAST MINUTE", rank=6, most=20),
    Column("LOSS", rank=3, right=True),
    Column("LAG", rank=3, right=True),
    Column("OUT", rank=2, right=True),
    Column("IN", rank=2, right=True),
    Column("QUOTA", rank=4, right=True),
    Column("CERT", rank=6, right=True),
    Column("PATH", rank=7, most=28),
    Column("TRAFFIC", rank=8, most=20),
    Column("VERSION", rank=7),
)
TREND_WIDTH = 20
EXPIRING_DAYS = 3.0


def build(session: Session, place: Place, now: float) -> Table:
    """The peers of a daemon."""
    state = session.state
    by = conditions(state, now)
    rows = [_row(session, name, how, now) for name, how in by.items()]
    order = {name: (SEVERITY.index(how), name) for name, how in by.items()}
    rows.sort(key=lambda row: order[row.key])
    return Table(
        COLUMNS,
        tuple(rows),
        empty="no peers yet: `liqod peer` makes one, and the inbox shows who was seen",
    )


def _row(session: Session, name: str, how: Condition, now: float) -> Row:
    state = session.state
    peer, pulse = state.peers[name], state.pulses.get(name) or Pulse()
    trend = session.trends.get(name) or Trend()
    mark = CONDITIONS[how]
    traffic = pulse.sent + pulse.received
    way = round_trips(pulse, state.networks.get(name))
    cells = (
        Cell(mark.glyph, mark.tone, SEVERITY.index(how)),
        Cell(text.clean(name), "name"),
        Cell(_state(peer, pulse, how, now), mark.tone, SEVERITY.index(how)),
        Cell(ROLES.get(peer.role, "·")),
        Cell(text.round_trip(way.rtt), "", way.rtt),
        Cell(text.round_trip(way.p95), "", way.p95),
        Cell("" if way.loss == 1.0 else text.spark(trend.rtt, TREND_WIDTH), "dim"),
        Cell(text.share(way.loss), _how_lossy(way.loss), way.loss),
        Cell(text.round_trip(pulse.lag), "", pulse.lag),
        Cell(str(peer.pods_out), "", peer.pods_out),
        Cell(str(peer.pods_in), "", peer.pods_in),
        _quota(peer),
        _certificate(peer),
        Cell(path(peer)),
        Cell(
            f"{text.spark(trend.traffic, 8)} {text.rate(traffic)}".strip(),
            "dim",
            traffic,
        ),
        _version(peer, state.daemon.kubernetes),
    )
    return Row(name, cells, Place("peer", name))


def _how_lossy(loss: float | None) -> Tone:
    return "bad" if loss == 1.0 else "fair" if loss else ""


def _state(peer: WidePeerRow, pulse: Pulse, how: Condition, now: float) -> str:
    since = began(peer, pulse, how)
    word = f"{how}: {text.clean(peer.layer)}" if how == "degraded" else how
    if how in ("up", "idle") and peer.state not in ("active", ""):
        word = text.clean(peer.state)
    lasting = text.since(since, now) if how not in ("up", "idle", "leaving") else ""
    return f"{word} {lasting}".rstrip()


def path(peer: WidePeerRow) -> str:
    """How the peer is reached: where its API server is, and what carries the pods."""
    try:
        host = urlsplit(peer.server).netloc
    except ValueError:
        host = "?"
    pods = "" if peer.pod_network in ("none", "") else f" +{peer.pod_network}"
    return text.clean(f"{host}{pods}") or text.UNKNOWN


def _quota(peer: WidePeerRow) -> Cell:
    """The scarcest resource, since that is what the next pod waits for."""
    parts = {name: amount.part for name, amount in peer.quota.items() if amount.part is not None}
    if not parts:
        return Cell(text.UNKNOWN, "dim")
    name = max(parts, key=lambda each: parts[each])
    part = parts[name]
    tone: Tone = "bad" if part >= 1 else "fair" if part >= 0.9 else ""
    return Cell(f"{text.share(part)} {text.clean(name)}", tone, part)


def _certificate(peer: WidePeerRow) -> Cell:
    days = peer.certificate_days
    if days is None:
        return Cell(text.UNKNOWN, "dim")
    tone: Tone = "bad" if days <= 0 else "fair" if days < EXPIRING_DAYS else ""
    return Cell("expired" if days <= 0 else f"{days:.0f} d", tone, days)


def _version(peer: WidePeerRow, own: str) -> Cell:
    """With a mark where its minor is another than this cluster's."""
    if not peer.version:
        return Cell(text.UNKNOWN, "dim")
    other = bool(own) and own.split(".")[:2] != peer.version.split(".")[:2]
    return Cell(text.clean(peer.version) + (" ≠" if other else ""), "fair" if other else "")
