"""Decides whether a peer's pods are reachable, for the Ready of pods and endpoints. Pure.

The carrier of the packets decides: the tunnel, regardless of the peer's API server and daemon; and
where there is none, the answers of the API server, as on any node that sends no sign of life.
"""

from typing import Final

import msgspec

THROUGH: Final = ""
TUNNEL: Final = "nothing gets through the tunnel to the cluster that runs it"
SERVER: Final = "the API server of the cluster that runs it does not answer"
"""The same words as long as it lasts: they are written to each pod."""


class ReachFacts(msgspec.Struct, frozen=True):
    """State of the paths to one peer.

    Attributes:
        tunnel: whether its pods are reached through a tunnel.
        connected: whether packets pass through that; None where it is not checked.
        probed: whether its API server is probed at all.
        answers: whether that answers, and shows its objects.
        settled: whether there was time to find all of it out, since the daemon's start.
    """

    tunnel: bool = False
    connected: bool | None = None
    probed: bool = False
    answers: bool = True
    settled: bool = False


def unreachable(facts: ReachFacts) -> str | None:
    """The reason why no packet gets through; empty where it does, None while that is unknown."""
    if facts.tunnel and facts.connected:
        return THROUGH
    if facts.probed and not facts.tunnel:
        return THROUGH if facts.answers else SERVER
    if not facts.settled:
        return None  # a tunnel that is being made has no other state
    if facts.tunnel and facts.connected is False:
        return TUNNEL
    return THROUGH if facts.answers or not facts.probed else SERVER
