"""Selects the round trips to show of a peer: through its tunnel, where there is one. Pure.

The API server's round trips say nothing of pods that are reached by another path, and would look
well beside a tunnel that is down.
"""

import msgspec

from liqod.model.view.networkfacts import NetworkFacts
from liqod.model.view.rows import Pulse


class RoundTrips(msgspec.Struct, frozen=True):
    """Round trips to one peer.

    Attributes:
        tunnel: whether they are those through its tunnel; else those to its API server.
        rtt: seconds; None where none is known, or came back lately.
        p95: 95th percentile of those to the API server; None for a tunnel's.
        loss: part that was lost, 0 to 1; None where that is not known.
    """

    tunnel: bool = False
    rtt: float | None = None
    p95: float | None = None
    loss: float | None = None


def round_trips(pulse: Pulse, known: NetworkFacts | None) -> RoundTrips:
    """The round trips to show of a peer.

    Args:
        pulse: its figures.
        known: of the network that is joined with it; None where none is.
    """
    if known is None or not known.backend:
        return RoundTrips(rtt=pulse.p50 or pulse.rtt, p95=pulse.p95, loss=pulse.loss)
    if known.answers:
        return RoundTrips(tunnel=True, rtt=known.rtt, loss=known.loss)
    # Who answers may be gone while packets come through: then nothing is known of them.
    return RoundTrips(tunnel=True, loss=None if known.carries else 1.0)
