"""The time limits of the inspector's clients, in one value."""

import msgspec


class InspectorTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits of a client of the inspector, all in seconds.

    Attributes:
        greeting: for TLS, the websocket's handshake and the review of a token together.
        write: for a message to a client that does not read.
    """

    greeting: float = 5.0
    write: float = 30.0


ORDINARY = InspectorTimings()
"""The time limits of a daemon."""
