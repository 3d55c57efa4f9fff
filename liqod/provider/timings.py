"""The times by which a provider works, in one value that its tasks are given."""

import msgspec

from liqod.cluster.guestpolicies import AGAIN
from liqod.runtime.backoff import Backoff


class ProviderTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times that a provider waits, all in seconds.

    Attributes:
        pauses: between tries of a pod, or of an EndpointSlice, that the API server refuses, or
            whose name is taken.
        room_again: between checks whether a consumer's objects have room in memory again.
        expectation: within which a pod that was made must show in the store; it is made again
            after that.
        orphans: until that is looked at again for which others are about to do something.
        moved: after a consumer has all that it needs for its next name, until its former one loses
            its rights: its daemon takes the certificates at once, and its connections follow.
        unfenced: between checks of what is not lent while policies are missing.
        turn: until what is free of a consumer's bounds on objects, and too little for all its
            namespaces, goes on to others: longer than a consumer pauses before it tries a refused
            object again.
    """

    pauses: Backoff = Backoff(first=2.0, last=60.0)
    room_again: float = 60.0
    expectation: float = 30.0
    orphans: float = 5.0
    moved: float = 60.0
    unfenced: float = AGAIN
    turn: float = 90.0


ORDINARY = ProviderTimings()
"""Those of a daemon."""
