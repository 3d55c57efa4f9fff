"""``network status``: the networks that are joined with peers."""

from typing import Annotated

import typer
from msgspec.structs import replace

from liqod.apimachinery import labels
from liqod.cli import completion, output
from liqod.cli.frame import OUTPUTS, Frame, command, warn
from liqod.cli.options import LiqoNamespace
from liqod.cluster.ownid import cluster_uid, original_id
from liqod.errors import LiqodError
from liqod.model.network import podpath
from liqod.model.view.facts import PeerFacts
from liqod.model.view.figures import measured, span
from liqod.model.view.networkfacts import JoinedFacts, NetworkFacts
from liqod.procedures import networkstatus
from liqod.procedures.networkstatus import NodeNetworkStatus

Peer = Annotated[
    str,
    typer.Argument(metavar="[PEER]", help="One peer only.", autocompletion=completion.peers),
]


@command(timeout=30.0, daemon=True, outputs=OUTPUTS, get=True)
async def status(
    frame: Frame, peer: Peer = "", liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE
) -> None:
    """The networks that are joined with peers: tunnels, addresses, and what is in the way.

    It reads custom resources, so it works while the daemon is down: the state is the tunnel's as
    this cluster's gateway last wrote it. Where this cluster's daemon runs on this machine, round
    trip, loss, bytes, what the way carries and what was refused come from it, of this moment. With
    a PEER everything is shown. Where this cluster has several nodes, so are their routes to the
    gateway.

    \b
    Examples:
      liqod network status
      liqod network status milan
      liqod network status -o json
    """
    from liqod.cli import live  # brings the websocket, which other commands do without

    async with frame.client() as client:
        found = await networkstatus.look(client, peer, liqo_namespace)
        nodes = await networkstatus.nodes(client) if found else ()
        cluster = frame.cluster_id or await original_id(client, liqo_namespace)
        uid = "" if frame.cluster_id else await cluster_uid(client)
    try:
        known = await live.networks(frame.socket, cluster, uid)
        found = [replace(each, network=known.get(each.peer)) for each in found]
    except LiqodError as error:
        warn(str(error))
    if not frame.show([networkstatus.shown(each, nodes) for each in found]):
        frame.print_text(render(found, nodes, whole=bool(peer)), lines=True)


HEADER = [
    *("PEER", "STATE", "RTT", "LOSS", "LAST", "TUNNEL", "ENDPOINT", "MTU", "IN", "OUT", "PODS"),
    *("THEIR RANGES", "SEEN HERE AS"),
]
NODES = ["NODE", "STATE", "ADDRESS", "ROUND TRIP", "DROPPED"]
NOTHING = NetworkFacts()


def render(found: list[PeerFacts], nodes: tuple[NodeNetworkStatus, ...], *, whole: bool) -> str:
    """The text.

    Args:
        found: the facts of each peer.
        nodes: this cluster's own, where there are several.
        whole: everything of each, instead of a line.
    """
    if not found:
        return "there are no peers"
    if whole:
        parts = ["\n".join(_everything(each)) for each in found]
        return "\n\n".join([*parts, *_routes(nodes)])
    # Of one of several nodes alone it is said which: who has one need not read it.
    several = any(_by_objects(each).gateway for each in found)
    header = [*HEADER, "GATEWAY", "STANDING BY"] if several else HEADER
    rows = [_row(each) + (_gateways(each) if several else []) for each in found]
    lines = [output.table(rows, header, width=output.width())]
    for each in found:
        lines += [f"{each.peer}: {problem}" for problem in _by_objects(each).problems]
    return "\n\n".join(["\n".join(lines), *_routes(nodes)])


def _by_objects(facts: PeerFacts) -> JoinedFacts:
    return facts.joined or JoinedFacts()


def _routes(nodes: tuple[NodeNetworkStatus, ...]) -> list[str]:
    """This cluster's nodes and their routes to the gateway, where there are several."""
    if not nodes:
        return []
    rows = [
        [
            each.name,
            each.state,
            each.address or "-",
            each.latency or "-",
            str(each.dropped) if each.dropped else "-",
        ]
        for each in nodes
    ]
    lines = [output.table(rows, NODES, width=output.width())]
    lines += [f"{each.name}: {each.problem}" for each in nodes if each.problem]
    return ["\n".join(lines)]


def _row(facts: PeerFacts) -> list[str]:
    one, live = _by_objects(facts), facts.network or NOTHING
    known = facts.network is not None
    return [
        facts.peer,
        one.state or "-",
        _rtt(facts) or "-",
        _loss(live) or "-",
        _ago(live.echo) or "-",
        _tunnel(facts) or "-",
        live.endpoint or ", ".join(one.endpoints) or "-",
        _mtu(facts) or "-",
        measured(live.received, "bytes") if known else "-",
        measured(live.sent, "bytes") if known else "-",
        podpath.read(one.pods).state or "-",
        ", ".join(one.ranges) or "-",
        ", ".join(one.aliases) or "-",
    ]


def _gateways(facts: PeerFacts) -> list[str]:
    one, live = _by_objects(facts), facts.network or NOTHING
    return [live.gateway or one.gateway, ", ".join(live.standbys or one.standbys) or "-"]


def _everything(found: PeerFacts) -> list[str]:
    one, live = _by_objects(found), found.network or NOTHING
    known, trip = found.network is not None, live.pods
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
        ("tunnel", _tunnel(found)),
        ("endpoint", live.endpoint),
        ("endpoints", ", ".join(one.endpoints)),
        ("round trip", _rtt(found)),
        ("last one", _ago(live.echo)),
        ("loss", _loss(live)),
        ("MTU", _mtu(found)),
        ("received", measured(live.received, "bytes") if known else ""),
        ("sent", measured(live.sent, "bytes") if known else ""),
        ("keys agreed on", _ago(live.handshake)),
        ("pod to pod", f"{one.pods}{took}"),
        ("its API server", live.api),
        ("own ranges", ", ".join(live.own or one.own)),
        ("the peer's", ", ".join(pairs) or ", ".join(one.ranges)),
        ("gateway", live.gateway or one.gateway),
        ("standing by", ", ".join(live.standbys or one.standbys)),
        ("reaches", "; ".join(map(str, live.transit))),
        ("refused", "; ".join(refused)),
        ("put back", "; ".join((*live.mended, *live.translated))),
    ]
    lines = [found.peer, *(f"  {name:<15} {value}" for name, value in facts if value)]
    return [*lines, *(f"  ✗ {problem}" for problem in one.problems)]


def _rtt(facts: PeerFacts) -> str:
    live = facts.network
    if live is None:
        return _by_objects(facts).latency
    return "" if live.rtt is None else measured(live.rtt, "seconds")


def _loss(live: NetworkFacts) -> str:
    return "" if live.loss is None else measured(live.loss, "ratio")


def _ago(age: float | None) -> str:
    """An age; of what comes all the time it is not counted."""
    return "" if age is None else "now" if age < 1.5 else f"{span(age)} ago"


def _tunnel(facts: PeerFacts) -> str:
    one, live = _by_objects(facts), facts.network or NOTHING
    plain = "" if live.encrypted else ", not encrypted"
    parts = [one.backend, f"({live.path}{plain})" if live.path else "", one.side]
    return " ".join(each for each in parts if each)


def _mtu(facts: PeerFacts) -> str:
    one, live = _by_objects(facts), facts.network
    if live is None or not live.mtu:
        return str(one.mtu) if one.mtu else ""
    passes = "" if live.passes is None or live.passes >= live.mtu else f"{live.passes} of "
    return f"{passes}{live.mtu}"
