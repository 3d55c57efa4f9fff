"""The networks of peers as text: a line for each, or all that is known of one."""

from liqod.cli import output
from liqod.model.network import podpath
from liqod.model.view.figures import measured, span
from liqod.model.view.networkfacts import NetworkFacts
from liqod.procedures.networkstatus import PeerStatus

HEADER = [
    *("PEER", "STATE", "RTT", "LOSS", "LAST", "TUNNEL", "ENDPOINT", "MTU", "IN", "OUT", "PODS"),
    *("THEIR RANGES", "SEEN HERE AS"),
]
NODES = ["NODE", "STATE", "ADDRESS", "ROUND TRIP", "DROPPED"]
NOTHING = NetworkFacts()


def render(found: list[PeerStatus], *, whole: bool) -> str:
    """The text.

    Args:
        found: of each peer what is known.
        whole: everything of each, instead of a line.
    """
    if not found:
        return "there are no peers"
    if whole:
        parts = ["\n".join(_everything(each)) for each in found]
        return "\n\n".join([*parts, *_routes(found[0])])
    # Of one of several nodes alone it is said which: who has one need not read it.
    several = any(each.gateway for each in found)
    header = [*HEADER, "GATEWAY", "STANDING BY"] if several else HEADER
    rows = [_row(each) + (_nodes(each) if several else []) for each in found]
    lines = [output.table(rows, header, width=output.width())]
    for each in found:
        lines += [f"{each.peer}: {problem}" for problem in each.problems]
    return "\n\n".join(["\n".join(lines), *_routes(found[0])])


def _routes(one: PeerStatus) -> list[str]:
    """This cluster's nodes and their routes to the gateway, where there are several."""
    if not one.nodes:
        return []
    rows = [
        [
            each.name,
            each.state,
            each.address or "-",
            each.latency or "-",
            str(each.dropped) if each.dropped else "-",
        ]
        for each in one.nodes
    ]
    lines = [output.table(rows, NODES, width=output.width())]
    lines += [f"{each.name}: {each.problem}" for each in one.nodes if each.problem]
    return ["\n".join(lines)]


def _row(one: PeerStatus) -> list[str]:
    live = one.live or NOTHING
    return [
        one.peer,
        one.state or "-",
        _rtt(one) or "-",
        _loss(live) or "-",
        _ago(live.echo) or "-",
        _tunnel(one) or "-",
        live.endpoint or ", ".join(one.endpoints) or "-",
        _mtu(one) or "-",
        measured(live.received, "bytes") if one.live is not None else "-",
        measured(live.sent, "bytes") if one.live is not None else "-",
        podpath.read(one.pods).state or "-",
        ", ".join(one.ranges) or "-",
        ", ".join(one.aliases) or "-",
    ]


def _nodes(one: PeerStatus) -> list[str]:
    live = one.live or NOTHING
    return [live.gateway or one.gateway, ", ".join(live.standbys or one.standbys) or "-"]


def _everything(one: PeerStatus) -> list[str]:
    live = one.live or NOTHING
    trip = live.pods
    took = ""
    if trip is not None and not trip.error:
        took = f" ({trip.way}, {measured(trip.took, 'seconds')}, {_ago(trip.ago)})"
    pairs = [f"{own} as {alias}" for own, alias in zip(one.ranges, one.aliases, strict=False)]
    refused = [
        f"{count} {what}"
        for count, what in (
            (live.spoofed, "with a source that is not the peer's"),
            (live.strangers, "to what was not lent"),
            (live.flooded, "more than the gateway takes"),
        )
        if count
    ]
    facts = [
        ("state", one.state),
        ("tunnel", _tunnel(one)),
        ("endpoint", live.endpoint),
        ("endpoints", ", ".join(one.endpoints)),
        ("round trip", _rtt(one)),
        ("last one", _ago(live.echo)),
        ("loss", _loss(live)),
        ("MTU", _mtu(one)),
        ("received", measured(live.received, "bytes") if one.live is not None else ""),
        ("sent", measured(live.sent, "bytes") if one.live is not None else ""),
        ("keys agreed on", _ago(live.handshake)),
        ("pod to pod", f"{one.pods}{took}"),
        ("its API server", live.api),
        ("own ranges", ", ".join(live.own or one.own)),
        ("the peer's", ", ".join(pairs) or ", ".join(one.ranges)),
        ("gateway", live.gateway or one.gateway),
        ("standing by", ", ".join(live.standbys or one.standbys)),
        ("refused", "; ".join(refused)),
        ("put back", "; ".join((*live.mended, *live.translated))),
    ]
    lines = [one.peer, *(f"  {name:<15} {value}" for name, value in facts if value)]
    return [*lines, *(f"  ✗ {problem}" for problem in one.problems)]


def _rtt(one: PeerStatus) -> str:
    if one.live is not None:
        return "" if one.live.rtt is None else measured(one.live.rtt, "seconds")
    return one.latency


def _loss(live: NetworkFacts) -> str:
    return "" if live.loss is None else measured(live.loss, "ratio")


def _ago(age: float | None) -> str:
    """An age; of what comes all the time it is not counted."""
    return "" if age is None else "now" if age < 1.5 else f"{span(age)} ago"


def _tunnel(one: PeerStatus) -> str:
    path = one.live.path if one.live is not None else ""
    plain = ", not encrypted" if one.live is not None and not one.live.encrypted else ""
    parts = [one.backend, f"({path}{plain})" if path else "", one.side]
    return " ".join(each for each in parts if each)


def _mtu(one: PeerStatus) -> str:
    live = one.live
    if live is None or not live.mtu:
        return str(one.mtu) if one.mtu else ""
    passes = "" if live.passes is None or live.passes >= live.mtu else f"{live.passes} of "
    return f"{passes}{live.mtu}"
