"""The view of room: where it is, which pods wait and why, and which peers are avoided for a while.

A number is shown as known only while its provider can be heard: the word of one that is gone, or
whose daemon does not run, may be wrong by now.
"""

from collections.abc import Callable, Mapping

from liqod.model.objects.quantities import is_quantity, parse
from liqod.model.peering.healthsummary import NOT_KNOWN
from liqod.model.view.figures import counted, span
from liqod.model.view.headline import condition
from liqod.model.view.roomrows import HOME, FreeGroup, MarkRow, NodeRoom, RoomSums, WaitGroup
from tui import text
from tui.marks import VERDICTS
from tui.session import Session
from tui.table import Cell, Column, Place, Row, Table, Tone

NODES = (
    Column("NODE / MACHINES", most=40),
    Column("STATUS", rank=4),
    Column("ALLOCATABLE", rank=3, most=40),
    Column("FREE THERE", most=40),
    Column("LARGEST POD", rank=1, most=60),
    Column("TOLD", rank=5, right=True),
    Column("WHY", rank=2, most=0),
)
WAITS = (
    Column("PODS", right=True),
    Column("WHOSE", most=48),
    Column("AT", most=24),
    Column("FOR", rank=2, right=True),
    Column("CAUSE", rank=1),
    Column("WHY", most=0),
)
RETURNED = (
    Column("WHOSE", most=48),
    Column("AVOIDS"),
    Column("RETURNS", rank=3, right=True),
    Column("SINCE", rank=2, right=True),
    Column("FOR ANOTHER", rank=1, right=True),
    Column("CAUSE", rank=2),
    Column("WHY", most=0),
)
OLDER = "this daemon tells nothing of room: it is of an older version"
UNTOLD = "it tells nothing: Liqo, an older liqod, or no show_free"
HOME_UNTOLD = "not followed: that needs show_free here, and a peer"
STEPS = {
    "Unknown": "returns soon",
    "False": "is being ended there",
    "True": "has ended there, returns now",
}
"""The steps of a pod that returns, by the status of its condition."""
_REPLICATION = "replication"


def build(session: Session, place: Place, now: float) -> Table:
    """One part of the view; where room is, if none is named. Its subject is a peer, or empty."""
    if session.state.room is None:
        return Table(NODES, (), empty=OLDER)
    return PARTS.get(place.part, _nodes)(session, place.subject, now)


def doubt(session: Session, peer: str, now: float) -> str:
    """The reason why a peer's word on what is free may be wrong by now; empty for none."""
    state = session.state
    row = state.peers.get(peer)
    if row is None:
        return f"{peer} is no peer any more"
    how = condition(row, state.pulses.get(peer), now)
    if how in ("down", "failed", "silent", "leaving"):
        why = row.reason or row.failure
        return f"{peer} is {how}{f': {why}' if why else ''}"
    if row.link != "up":
        return f"{peer} is not reached"
    if row.daemon == NOT_KNOWN:
        return f"the state of {peer}'s daemon is not known"
    if row.daemon not in ("up", "-", ""):
        return f"{peer}'s daemon does not run: {row.daemon}"
    ladder = state.ladders.get(peer)
    for check in ladder.checks if ladder is not None else ():
        if check.layer == _REPLICATION and check.verdict == "failing":
            return f"nothing new comes from {peer}: {check.evidence}"
    return ""


def _nodes(session: Session, peer: str, now: float) -> Table:
    rooms = session.state.rooms
    order = sorted(rooms.items(), key=lambda item: (item[0] != HOME, item[1].peer, item[0]))
    rows: list[Row] = []
    for name, each in order:
        if peer in ("", each.peer):
            rows += _node(session, name, each, now)
    lending = {each.peer for each in rooms.values()}
    for name, known in sorted(session.state.peers.items()):
        if "Provider" in known.role and name not in lending and peer in ("", name):
            into = Place("peer", name, "resources")
            blank = (Cell(), Cell(), Cell(text.UNKNOWN, "dim"), Cell(), Cell())
            cells = (Cell(text.clean(name), "name"), *blank, Cell("it has no virtual node", "dim"))
            rows.append(Row(f"peer {name}", cells, into))
    sums = session.state.room or RoomSums()
    notes = _left_out(len(rooms) - 1, sums.nodes, "virtual node")
    return Table(NODES, tuple(rows), (*_sums(sums), *notes))


def _node(session: Session, name: str, room: NodeRoom, now: float) -> list[Row]:
    """The row of a node, and those of its provider's machines below it."""
    home = name == HOME
    doubts = _doubts(session, name, room, now)
    known = room.told and not doubts
    ready = VERDICTS["failing" if room.message else "unknown" if doubts else "ok"]
    why = [room.message, doubts, "" if room.told else HOME_UNTOLD if home else UNTOLD]
    if room.told and doubts:
        why[1] = f"{doubts}: what it told before may be wrong"
    if known and room.autoscales:
        why.append("it adds machines where pods wait")
    tone: Tone = "bad" if room.message else "fair" if doubts else "dim"
    cells = (
        Cell("this cluster" if home else text.clean(name), "name"),
        Cell(ready.glyph, ready.tone, int(not room.message)),
        _amounts(room.allocatable),
        _amounts(room.free) if known else Cell("not known", "fair" if room.told else "dim"),
        _sizes(room.largest) if known else Cell(text.UNKNOWN, "dim"),
        _age(room, now),
        Cell(text.clean("; ".join(filter(None, why))), tone),
    )
    into = None if home else Place("peer", room.peer, "resources")
    rows = [Row(f"node {name}" if not home else "home", cells, into)]
    if known and (len(room.groups) > 1 or home):
        rows += [_group(name, number, each) for number, each in enumerate(room.groups)]
        if room.more:
            more = Cell(f"  and {counted(room.more, 'group')} more", "dim")
            rows.append(Row(f"more {name}", (more, *(Cell() for _ in NODES[1:])), child=True))
    return rows


def _doubts(session: Session, name: str, room: NodeRoom, now: float) -> str:
    """The reason why the word on a node may be wrong by now; empty for none."""
    doubts = "" if name == HOME else doubt(session, room.peer, now)
    if room.not_told_since:
        return doubts or f"not told for {text.since(room.not_told_since, now)}"
    return doubts


def _group(node: str, number: int, group: FreeGroup) -> Row:
    marks = f" {group.labels}" if group.labels else ""
    cells = (
        Cell(text.clean(f"  {counted(group.nodes, 'machine')}{marks}"), "dim"),
        Cell(),
        Cell(),
        _amounts(group.free),
        _sizes(group.largest),
        Cell(),
        Cell(text.clean(group.taints), "dim"),
    )
    return Row(f"group {node} {number}", cells, child=True)


def _age(room: NodeRoom, now: float) -> Cell:
    """The time since the word changed; one that was there before the daemon looked is older."""
    if not room.told or not room.at:
        return Cell(text.UNKNOWN, "dim")
    more = "≥" if room.older else ""
    return Cell(f"{more}{text.since(room.at, now)}", "dim", now - room.at)


def _waits(session: Session, peer: str, now: float) -> Table:
    state = session.state
    found = [(key, each) for key, each in state.waits.items() if peer in ("", each.peer)]
    found.sort(key=lambda item: (item[1].since, item[0]))
    doubts = {each.peer: doubt(session, each.peer, now) for _, each in found if each.node}
    rows = [_wait(key, each, doubts.get(each.peer, ""), now) for key, each in found]
    sums = state.room or RoomSums()
    notes = _left_out(len(state.waits), sums.waits, "row")
    return Table(WAITS, tuple(rows), (*_sums(sums), *notes), empty="no pod waits")


def _wait(key: str, each: WaitGroup, doubts: str, now: float) -> Row:
    step = STEPS.get(each.step, "")
    why = ": ".join(filter(None, (step, each.message)))
    why = f"{doubts}; before that: {why}" if doubts and each.node else why
    cells = (
        Cell(f"{each.pods}", "", each.pods),
        Cell(text.clean(f"{each.namespace}/{each.owner or each.name}"), "name"),
        Cell(text.clean(each.node) if each.node else "here", "" if each.node else "dim"),
        Cell(text.since(each.since, now), "dim", now - each.since),
        Cell(text.clean(each.cause), "fair"),
        Cell(text.clean(why)),
    )
    return Row(f"pod {key}", cells, Place("pod", key))


def _returned(session: Session, peer: str, now: float) -> Table:
    state = session.state
    rows = [
        _mark(key, each, now)
        for key, each in sorted(state.avoided.items(), key=lambda item: (item[1].until, item[0]))
        if peer in ("", each.peer)
    ]
    sums = state.room or RoomSums()
    notes = _left_out(len(state.avoided), sums.marks, "row")
    return Table(RETURNED, tuple(rows), (*_sums(sums), *notes), empty="no peer is avoided")


def _mark(key: str, each: MarkRow, now: float) -> Row:
    asked = " ".join(f"{name} {value}" for name, value in each.asked.items() if name != "pods")
    sooner = f"; sooner if {each.peer} has {asked} free" if asked else ""
    left = each.until - now
    cells = (
        Cell(text.clean(f"{each.namespace}/{each.owner}"), "name"),
        Cell(text.clean(each.peer)),
        Cell(f"{each.times}", "", each.times),
        Cell(text.since(each.since, now), "dim", now - each.since),
        Cell(span(left) if left > 0 else "ends", "", left),
        Cell(text.clean(each.cause), "fair"),
        Cell(text.clean(f"{each.message}{sooner}")),
    )
    return Row(f"mark {key}", cells, Place("peer", each.peer))


PARTS: Mapping[str, Callable[[Session, str, float], Table]] = {
    "free": _nodes,
    "waiting": _waits,
    "returned": _returned,
}
"""The tabs of the view."""


def described(session: Session, key: str, now: float) -> str:
    """All that is known of a row; empty for one that is none of the view's own, or is gone."""
    kind, _, name = key.partition(" ")
    if kind in ("node", "home") and (room := session.state.rooms.get(name)) is not None:
        return _node_text(session, name, room, now)
    if kind == "pod" and (group := session.state.waits.get(name)) is not None:
        return _wait_text(group, now)
    if kind == "mark" and (mark := session.state.avoided.get(name)) is not None:
        return _mark_text(mark, now)
    return ""


def _node_text(session: Session, name: str, room: NodeRoom, now: float) -> str:
    doubts = _doubts(session, name, room, now)
    title = "this cluster's own nodes" if name == HOME else f"{name}, of {room.peer}"
    lines = [title, f"  allocatable: {_line(room.allocatable) or 'not known'}"]
    if not room.told:
        return "\n".join([*lines, f"  free: {HOME_UNTOLD if name == HOME else UNTOLD}"])
    if doubts:
        lines.append(f"  {doubts}; the last word, which may be wrong by now:")
    lines.append(f"  free: {_line(room.free)}")
    lines += [f"  largest pod: {_line(each)}" for each in room.largest]
    for group in room.groups:
        marks = ", ".join(filter(None, (group.labels, group.taints)))
        lines.append(f"  {counted(group.nodes, 'machine')} {marks}: free {_line(group.free)}")
    if name != HOME:
        lines.append(f"  where the numbers come from: liqod explain node {name}")
    return "\n".join(map(text.visible, lines))


def _wait_text(each: WaitGroup, now: float) -> str:
    where = f"on {each.node} of {each.peer}" if each.node else "in this cluster, without a node"
    lines = [
        f"{counted(each.pods, 'pod')} of {each.namespace}/{each.owner or each.name} wait {where}",
        f"  for {text.since(each.since, now)}, such as {each.name}",
        f"  {each.cause}: {each.message}",
        f"  {STEPS[each.step]}" if each.step in STEPS else "",
        f"  what each node says to it: `e`, or liqod explain pod {each.name} -n {each.namespace}",
    ]
    return "\n".join(map(text.visible, filter(None, lines)))


def _mark_text(each: MarkRow, now: float) -> str:
    asked = _line({name: value for name, value in each.asked.items() if name != "pods"})
    lines = [
        f"pods of {each.namespace}/{each.owner} avoid {each.peer}",
        f"  for another {span(each.until - now)}, after {counted(each.times, 'return')} in a row",
        f"  {each.cause}: {each.message}",
        f"  sooner, if a machine there has {asked} free" if asked else "",
        "  to try it at once: kubectl annotate namespaceoffloading offloading "
        f"-n {each.namespace} liqod.io/returned-",
    ]
    return "\n".join(map(text.visible, filter(None, lines)))


def _sums(sums: RoomSums) -> tuple[Cell, ...]:
    waits = sums.here + sums.there
    if not waits and not sums.marks:
        return (Cell("no pod waits, and no peer is avoided", "dim"),)
    told = f"{counted(waits, 'pod')} waiting: {sums.here} here, {sums.there} at peers"
    marks = f" · {counted(sums.marks, 'mark')} of returned pods" if sums.marks else ""
    return (Cell(f"{told}{marks}", "fair"),)


def _left_out(shown: int, all_: int, what: str) -> tuple[Cell, ...]:
    left = all_ - shown
    return (Cell(f"{counted(left, what)} more, not shown", "fair"),) if left > 0 else ()


def _amounts(resources: Mapping[str, str]) -> Cell:
    if not resources:
        return Cell("not known", "dim")
    return Cell(text.clean(_line(resources)), "", _cpus(resources))


def _sizes(sizes: tuple[dict[str, str], ...]) -> Cell:
    if not sizes:
        return Cell("none", "fair", 0)
    said = ", or ".join(_line(each) for each in sizes)
    return Cell(text.clean(said), "", max(map(_cpus, sizes)))


def _line(resources: Mapping[str, str]) -> str:
    return " ".join(f"{name} {text.quantity(name, each)}" for name, each in resources.items())


def _cpus(resources: Mapping[str, str]) -> int:
    found = resources.get("cpu", "0")
    return parse(found) if is_quantity(found) else 0
