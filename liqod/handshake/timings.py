"""The times by which the handshake works, in one value that its components are given."""

import msgspec


class HandshakeTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times that the handshake waits, all in seconds.

    Attributes:
        ping_every: between the dialler's pings.
        silence: without a byte after which the other side is gone.
        channel_idle: after which a channel that nobody uses is let go.
        channel_check: between checks whether a channel is used.
        cached: after which the API server's cache has what this daemon has written; milliseconds
            are usual.
        policy_check: between checks which clusters are seen that a policy says to ask.
        unseen: for which a cluster that is asked by policy may be unseen: a daemon that has just
            begun sees nobody.
        pruned: for which the OutgoingPeering of a peering may be gone: a replacement deletes an
            object first.
    """

    ping_every: float = 20.0
    silence: float = 60.0
    channel_idle: float = 300.0
    channel_check: float = 30.0
    cached: float = 5.0
    policy_check: float = 2.0
    unseen: float = 60.0
    pruned: float = 60.0


ORDINARY = HandshakeTimings()
"""Those of a daemon."""
