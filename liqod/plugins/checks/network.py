"""The doctor's layers of a joined network, from what this daemon has for it up to pod and pod.

Each layer needs the one below: the first that fails is named, and what stands on it is not said to
work. None is there where no network is joined.
"""

from collections.abc import Sequence
from typing import Final

from liqod.model.network.pathfigures import LEAST_MTU
from liqod.model.view.figures import counted, measured, span
from liqod.model.view.networkfacts import NetworkFacts
from liqod.plugins.diagnosis import Check, Finding, PeerFacts, failing, ok, unknown
from liqod.plugins.hookspecs import hookimpl

SILENT: Final = 3.0
"""Seconds without anything from a gateway that sends something every second."""
ARRIVED: Final = 30.0
"""Seconds for which datagrams that were not good count as coming: 12 are listened at a time."""
UNTOLD: Final = 60.0
"""Seconds after which a node's word on its own routes proves nothing any more."""
UNTRIED: Final = 60.0
"""The same of a trip from pod to pod."""
LOSSY: Final = 0.05


def joined(facts: PeerFacts) -> Finding | None:
    """Check that everything a tunnel needs is there."""
    known = facts.network
    if known is None:
        return None
    if known.problem:
        return failing(known.problem, "give this machine what it lacks; peering goes on without it")
    if known.waits:
        return unknown(known.waits)
    return ok(f"the peer's {', '.join(known.aliases)}" if known.aliases else "all is there for it")


def underlay(facts: PeerFacts) -> Finding | None:
    """Check that packets of the other gateway arrive here."""
    known = facts.network
    if known is None or known.device:
        return None  # nothing is sent: the tunnel's layer says why
    if known.underlay:
        return failing(known.underlay, f"check the way to {_where(known)}")
    if _is_refused(known):
        return ok(f"datagrams of {_where(known)} arrive")
    if known.heard is None or known.heard > SILENT:
        silent = "nothing yet" if known.heard is None else f"nothing for {span(known.heard)}"
        return failing(f"{silent} from {_where(known)}", _let_through(known))
    return ok(f"heard of {known.endpoint or 'it'} {known.heard:.1f} s ago")


def _is_refused(known: NetworkFacts) -> bool:
    """True if datagrams arrive, and none is of the peer's known key."""
    silent = known.heard is None or known.heard > SILENT
    return silent and known.arrived is not None and known.arrived < ARRIVED


def _where(known: NetworkFacts) -> str:
    places = (known.endpoint,) if known.endpoint else known.candidates
    return " or ".join(places) if places else f"the peer's gateway ({known.side or 'tunnel'} here)"


def _let_through(known: NetworkFacts) -> str:
    if known.side == "server":
        remedy = f"let {known.transport} port {known.port} through to this gateway"
    else:
        remedy = f"let {known.transport} through to the peer's gateway"
    udp = known.transport == "UDP"
    other = ", or peer with `--tunnel websocket` where no UDP passes" if udp else ""
    if known.handshake is None:
        # Nothing was ever agreed on: that is told by a look, what a firewall does is not.
        return f"see that each side has the other's key (PublicKey); if so, {remedy}{other}"
    return f"{remedy}{other}"


def tunnel(facts: PeerFacts) -> Finding | None:
    """Check that probes come back through the tunnel."""
    known = facts.network
    if known is None:
        return None
    if known.device:
        return failing(known.device, "it is made again by itself; the log has more")
    if _is_refused(known):
        text = f"datagrams arrive from {_where(known)}, and none is of the key that is known"
        remedy = (
            "see that each side has the other's key (PublicKey): `liqod peer --remote-kubeconfig"
            " FILE` with an administrator's of the peer tells them anew"
        )
        return failing(text, remedy)
    if known.echo is None or known.echo > SILENT:
        silent = "no probe" if known.echo is None else f"no probe for {span(known.echo)}"
        remedy = "see that the peer's daemon runs, and that the tunnel's addresses are not filtered"
        return failing(f"{silent} came back through it", remedy)
    if known.loss is not None and known.loss > LOSSY:
        lost = f"{100 * known.loss:.0f} % of the probes are lost"
        return failing(lost, "check the path between the gateways")
    took = "" if known.rtt is None else f"round trip {measured(known.rtt, 'seconds')}, "
    plain = "" if known.encrypted else ", not encrypted"
    return ok(f"{took}{known.backend or 'tunnel'} ({known.path or 'path not known'}){plain}")


def mtu(facts: PeerFacts) -> Finding | None:
    """Check that packets of the tunnel's full size arrive."""
    known = facts.network
    if known is None:
        return None
    if 0 < known.mtu < LEAST_MTU:
        return failing(f"{known.mtu} bytes, below {LEAST_MTU}", "set a larger one (--mtu)")
    if known.passes is None:
        return unknown("packets of full size were not tried yet")
    if known.passes < known.mtu:
        text = f"of packets up to {known.mtu} bytes those above {known.passes} are lost"
        if known.passes < LEAST_MTU:
            least = f"and {LEAST_MTU} is the least that can be"
            return failing(f"{text}, {least}", "have the way between the gateways carry more")
        remedy = f"let larger ones through, or set {known.passes} on both sides (--mtu)"
        return failing(f"{text}; routes and segments go by that", remedy)
    return ok(f"{known.mtu} bytes pass")


def routes(facts: PeerFacts) -> Finding | None:
    """Check that the gateway and each node have their routes."""
    known = facts.network
    if known is None:
        return None
    again = "it is set again by itself; see what else sets routes and rules there"
    if known.missing:
        return failing(f"{known.gateway or 'the gateway'} lacks {_some(known.missing)}", again)
    for node in known.nodes:
        if node.problem:
            return failing(f"{node.name}: {node.problem}", "the log of `liqod node` there has more")
        if node.missing:
            return failing(f"{node.name} lacks {_some(node.missing)}", again)
        if node.told is None or node.told > UNTOLD:
            silent = "never" if node.told is None else f"not for {span(node.told)}"
            return failing(f"{node.name} was heard of {silent}", "see that `liqod node` runs there")
    return ok(f"set on {counted(1 + len(known.nodes), 'node')}{_mended(known.mended)}")


def translation(facts: PeerFacts) -> Finding | None:
    """Check that the rules that translate addresses are there."""
    known = facts.network
    if known is None:
        return None
    if known.translation:
        remedy = "it is set again by itself; see what else empties nftables there"
        return failing(f"{known.gateway or 'the gateway'} lacks {_some(known.translation)}", remedy)
    dropped = known.spoofed + known.strangers + known.flooded
    more = f"; {counted(dropped, 'packet')} of the peer's refused" if dropped else ""
    return ok(f"the rules are there{more}{_mended(known.translated)}")


def pods(facts: PeerFacts) -> Finding | None:
    """Check that a packet goes from a pod here to a pod there, and back."""
    known = facts.network
    if known is None:
        return None
    trip = known.pods
    if trip is None:
        why = f": {known.untried}" if known.untried else ""
        return unknown(f"not tried yet{why}; `liqod test network` does")
    way = f"{trip.way}: " if trip.way else ""
    if trip.error:
        filters = ", ".join(known.guards) or "NetworkPolicies"
        return failing(f"{way}{trip.error}", f"see what filters packets to pods ({filters})")
    if trip.ago > UNTRIED:
        return unknown(f"{way}not tried for {span(trip.ago)}")
    # The gateway's own packets do not go by it, so that this trip says nothing of it.
    guarded = ""
    if known.guards:
        guarded = f"; {_some(known.guards)} drops pods' packets that no rule of it lets pass"
    took = f"{way}{measured(trip.took, 'seconds')}, {span(trip.ago)} ago"
    return ok(f"{took}{guarded}")


def _mended(lines: tuple[str, ...]) -> str:
    return f"; put back within the last minute: {_some(lines)}" if lines else ""


def _some(missing: tuple[str, ...]) -> str:
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"{missing[0]}{more}"


@hookimpl
def liqod_checks() -> Sequence[Check]:
    """The layers, the lowest first; each needs all that are below it."""
    looks = (
        ("network", "joining the networks", joined),
        ("underlay", "the way between the gateways", underlay),
        ("tunnel", "the tunnel", tunnel),
        ("mtu", "the size of packets", mtu),
        ("routes", "routes on each node", routes),
        ("translation", "translating addresses", translation),
        ("pods", "from pod to pod", pods),
    )
    below: tuple[str, ...] = ("task",)
    made: list[Check] = []
    for order, (name, title, look) in enumerate(looks):
        place = 120 + 10 * order
        check = Check(name=name, title=title, scope="peer", order=place, look=look, needs=below)
        made.append(check)
        # What cannot be told yet of the size of packets hides nothing that stands on it.
        below = below if name == "mtu" else (*below, name)
    return tuple(made)
