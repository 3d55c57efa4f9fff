"""The times by which a provider works, in one value that its tasks are given."""

import msgspec

from liqod.runtime.backoff import Backoff


class ProviderTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times that a provider waits, all in seconds.

    Attributes:
        pauses: between tries of a pod, or of an EndpointSlice, that the API server refuses, or
            whose name is taken.
        room_again: between checks for room in memory for a consumer's objects.
        expectation: within which a pod that was made must show in the store; it is made again
            after that.
        orphans: until the next check of objects that others are about to change.
        moved: after a consumer has all that it needs for its next name, until its former one loses
            its rights: its daemon takes the certificates at once, and its connections follow.
        policies_missing: between checks of lending that is held back while policies are missing.
        refused_update: between tries of a pod's change that was refused for now: by a quota, a
            policy, a missing right. One that the API server cannot accept is not tried again until
            it is another change.
        direct_pods: until those are tried again that could not be taken over.
        peering_user_life: for which a peering user is good, unless its maker sets another time.
        free_every: between texts for consumers on what is free here, while that changes.
        turn: until the free part of a consumer's bounds on objects, if too little for all its
            namespaces, goes on to others: longer than a consumer pauses before it tries a refused
            object again.
    """

    pauses: Backoff = Backoff(first=2.0, last=60.0)
    room_again: float = 60.0
    expectation: float = 30.0
    orphans: float = 5.0
    moved: float = 60.0
    policies_missing: float = 15.0
    refused_update: Backoff = Backoff(first=15.0, last=600.0)
    direct_pods: float = 15.0
    peering_user_life: float = 3600.0
    free_every: float = 5.0
    turn: float = 90.0


ORDINARY = ProviderTimings()
"""Those of a daemon."""
