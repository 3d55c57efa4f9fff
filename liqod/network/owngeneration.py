"""The generation of this daemon, by which its machine knows whose orders are the newest."""

import time

import msgspec

from liqod.kube.leases import LeaseTerm
from liqod.network.orders.greeting import Generation
from liqod.runtime.observable import Observable


class OwnGeneration(Observable[Generation]):
    """It, from the start of the daemon on."""

    def __init__(self) -> None:
        # Daemons of one machine are compared alone, and its time of day may be set back.
        super().__init__(Generation(started=time.clock_gettime_ns(time.CLOCK_BOOTTIME)))

    def enter(self, term: LeaseTerm) -> None:
        """The leader's Lease has such a term."""
        found = {"made": term.made, "term": term.transitions, "leads": term.held}
        self.set(msgspec.structs.replace(self.now, **found))

    def lead_alone(self) -> None:
        """There is no Lease: this daemon is the only one."""
        self.set(Generation(leads=True, started=self.now.started))
