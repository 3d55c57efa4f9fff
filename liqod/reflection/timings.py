"""The times by which reflection to a peer works, in one value that the engine is given."""

import msgspec

from liqod.runtime.backoff import Backoff


class ReflectionTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times that the engine waits, all in seconds.

    Attributes:
        grace: for which a namespace must be off the map before pods that ran there are given up.
        free_again: between checks whether a name in use by another is free: no watch shows it.
        serving: between checks whether a pod still needs Liqo's objects for it.
        contested: for which a status is not written that another changes each time.
        check_every: between checks of faults that block reflection.
    """

    grace: float = 15.0
    free_again: float = 60.0
    serving: float = 60.0
    contested: Backoff = Backoff(first=60.0, last=960.0)
    check_every: float = 5.0


ORDINARY = ReflectionTimings()
"""Those of a daemon."""
