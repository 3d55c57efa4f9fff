"""The facts of a network that is joined with a peer, as lines of name and value."""

from collections.abc import Iterator

from liqod.model.view.figures import measured
from liqod.model.view.networkfacts import ALIVE, NetworkFacts
from tui import text
from tui.table import Tone

Fact = tuple[str, str, Tone]
"""A name, a value, and its colour; a fact without a value is not shown."""


def facts(known: NetworkFacts) -> Iterator[Fact]:
    """Each fact, the lowest layer first."""
    yield "lacks", known.problem, "bad"
    yield "waits for", known.waits, "fair"
    if not known.backend:
        return
    plain = "" if known.encrypted else ", not encrypted"
    way = f" ({known.path}{plain})" if known.path else ""
    yield "tunnel", f"{known.backend}{way}, this cluster is the {known.side}", ""
    yield "does not stand", known.device, "bad"
    yield "endpoint", known.endpoint, ""
    yield "may be at", ", ".join(known.candidates), "dim"
    yield "unreachable", known.underlay, "bad"
    yield "last round trip", _ago(known.echo), "" if known.answers else "bad"
    yield "RTT", text.round_trip(known.rtt) if known.answers else "", ""
    yield "loss", "" if known.loss is None else text.share(known.loss), ""
    yield "MTU", _mtu(known), "" if _fits(known) else "fair"
    yield "received", measured(known.received, "bytes"), ""
    yield "sent", measured(known.sent, "bytes"), ""
    yield "keys agreed on", _ago(known.handshake) if known.handshake is not None else "", "dim"
    yield "addresses", ", ".join(known.aliases), ""
    yield "own ones there", ", ".join(known.own), ""
    yield "gateway", known.gateway, ""
    yield "standing by", ", ".join(known.standbys), ""
    for node in known.nodes:
        lacks = node.problem or ", ".join(node.missing)
        yield f"node {node.name}", lacks or "has its routes", "bad" if lacks else ""
    for line in (*known.missing, *known.translation):
        yield "missing", line, "bad"
    yield "put back", ", ".join((*known.mended, *known.translated)), "fair"
    yield "pod to pod", _trip(known), "bad" if known.pods is not None and known.pods.error else ""
    yield "reaches", ", ".join(map(str, known.transit)), ""
    told = f"{known.spoofed} spoofed, {known.strangers} to what was not lent"
    told += f", {known.flooded} too many"
    dropped = known.spoofed + known.strangers + known.flooded
    yield "refused packets", told if dropped else "", "fair"


def _ago(age: float | None) -> str:
    return "never" if age is None else "now" if age < ALIVE else f"{age:.0f} s ago"


def _fits(known: NetworkFacts) -> bool:
    return known.passes is None or known.passes >= known.mtu


def _mtu(known: NetworkFacts) -> str:
    if known.passes is None:
        return f"{known.mtu} bytes, not tried yet"
    return f"{known.mtu} bytes" if _fits(known) else f"{known.passes} of {known.mtu} bytes pass"


def _trip(known: NetworkFacts) -> str:
    trip = known.pods
    if trip is None:
        return f"not tried: {known.untried}" if known.untried else "not tried yet"
    return f"{trip.way}: {trip.error or measured(trip.took, 'seconds')}"
