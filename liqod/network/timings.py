"""The times by which the networks of peers are measured, in one value."""

import msgspec


class NetworkTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times of a machine that joins the networks of peers, all in seconds.

    Attributes:
        measured_every: between two measurements of a path while all is well.
        measured_again: the same while nothing answers, and the least between two.
        size_raised: until packets larger than the path carried are tried again.
        listens: for which datagrams of the other gateway are awaited at a time: handshakes are
            tried each 5.3 s at the most.
        fought_within: for which a repair of the data path is remembered.
    """

    measured_every: float = 30.0
    measured_again: float = 1.0
    size_raised: float = 600.0
    listens: float = 12.0
    fought_within: float = 60.0


ORDINARY = NetworkTimings()
"""Those of a daemon."""
