"""The times for which a peering procedure waits for daemons, in one value."""

import msgspec


class PeeringTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times that a peering by kubeconfig waits, all in seconds.

    Attributes:
        answers_within: until a daemon that has not done its part of the handshake is reported as
            not running.
        doubt_after: until the progress reports that this may be so.
        reason_after: of waiting for the provider, until a check for its refusal.
        connected_within: until packets have gone both ways, where networks are joined.
    """

    answers_within: float = 15.0
    doubt_after: float = 3.0
    reason_after: float = 3.0
    connected_within: float = 30.0


ORDINARY = PeeringTimings()
"""Those of a command and of a daemon."""
