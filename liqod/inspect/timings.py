"""The times by which the inspector bounds its clients, in one value that it is given."""

import msgspec


class InspectorTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times that a client of the inspector is waited for, all in seconds.

    Attributes:
        greeting: for TLS, the websocket's handshake and the review of a token together.
        write: for which a message may wait for a client that does not read.
    """

    greeting: float = 5.0
    write: float = 30.0


ORDINARY = InspectorTimings()
"""Those of a daemon."""
