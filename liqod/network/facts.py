"""What is known of a peer's network, from memory, for those who judge and show it."""

from typing import Final

from liqod.model.network.ranges import PeerRanges
from liqod.model.view.networkfacts import NetworkFacts
from liqod.network.connections import Way
from liqod.network.ends import Ends
from liqod.network.machine import Heard

STANDING: Final = 0.0
"""Seconds since the last sign of life where the probes, which take 1.4 s to doubt, say there is."""


def facts(
    problem: str,
    ends: Ends,
    ranges: PeerRanges | None,
    waits: str,
    way: Way,
    heard: Heard | None,
    silent: float | None,
) -> NetworkFacts:
    """The facts of one peer's network.

    The part of the probes that are lost is left out: it is told when something turns, and then is
    that of the time before.

    Args:
        problem: what this machine lacks.
        ends: both ends of the tunnel.
        ranges: of both clusters.
        waits: what is waited for while there are none.
        way: how the tunnel was last said to be.
        heard: what the probes said last; None while none go.
        silent: seconds since they last said that the other side is there; None: never.
    """
    gateway = ends.gateway
    if problem or gateway is None or ranges is None or ends.waits:
        waits = ends.waits or waits or "there is no gateway of this cluster's for it yet"
        return NetworkFacts(problem=problem, waits=waits)
    alive = heard is not None and heard.alive
    echo = STANDING if alive else silent
    pairs = (
        *zip(ranges.peer.pod, ranges.seen.pod, strict=False),
        *zip(ranges.peer.external, ranges.seen.external, strict=False),
    )
    return NetworkFacts(
        aliases=tuple(f"{theirs} as {alias}" for theirs, alias in pairs),
        backend=gateway.backend,
        side=gateway.side,
        candidates=gateway.endpoints,
        port=gateway.port,
        device=way.why if way.state == "Error" else "",
        heard=echo,
        echo=echo,
        rtt=heard.latency if alive and heard is not None else None,
        mtu=gateway.mtu,
    )
