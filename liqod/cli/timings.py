"""The times for which a command waits for daemons, in one value that its context has."""

from contextvars import ContextVar
from typing import Final

import msgspec

from liqod.model.peering import intervals
from liqod.procedures.timings import PeeringTimings


class CommandTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times that a command waits, all in seconds.

    Attributes:
        grace: for which a daemon that seems not to run is waited for: it may be starting.
        silent_after: without a renewal of its Lease, until a daemon is said not to run.
        peering: those of a peering by kubeconfig.
    """

    grace: float = 5.0
    silent_after: float = intervals.SILENT_AFTER
    peering: PeeringTimings = PeeringTimings()


ORDINARY = CommandTimings()
"""Those of a command, unless its caller says others."""
TIMINGS: Final[ContextVar[CommandTimings]] = ContextVar("TIMINGS", default=ORDINARY)
"""Those of the command that runs (:func:`liqod.cli.app.main`)."""
