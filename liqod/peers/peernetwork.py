"""State of the network that is joined with one peer; its writer is the component that joins it."""

from collections.abc import Callable, Mapping

import msgspec
import trio

from liqod.model.network.ranges import PeerRanges
from liqod.model.view.networkfacts import NetworkFacts
from liqod.runtime.observable import Notifier

NOBODY = "there is no gateway of this cluster's for it yet"
NOT_JOINED = "the networks are not joined: there is no Configuration of the peer"


class PeerNetwork:
    """The network of one peer.

    Attributes:
        looked: set once the joining of networks was checked, or could not be.
        read: true once the peer's Configuration was read, or was found to be none.
        ranges: of the two clusters; None while they are unknown.
        waits: the reason to wait for them, as a clause.
        connected: whether packets get through; None where nothing was probed.
        why: the reason, as a clause.
        gateways: whether the existing gateway works, by its side (``server``, ``client``).
        whose: the id of another peer among whose aliases an address is; empty where there is none.
        tunnel: gives the tunnel's facts, from memory; None while nothing maintains the network.
        nudge: called for a reader, so that figures are to be fresh.
    """

    def __init__(self) -> None:
        self.looked = trio.Event()
        self.read = False
        self.ranges: PeerRanges | None = None
        self.waits = NOT_JOINED
        self.connected: bool | None = None
        self.why = ""
        self.gateways: dict[str, bool] = {}
        self.whose: Callable[[str], str] = lambda address: ""
        self.tunnel: Callable[[], NetworkFacts] | None = None
        self.nudge: Callable[[], None] = lambda: None
        self._news = Notifier()

    @property
    def started(self) -> bool:
        """True if the networks are joined, or are being joined."""
        return self.ranges is not None or self.waits != NOT_JOINED or bool(self.gateways)

    def facts(self) -> NetworkFacts | None:
        """All that is known, from memory; None where no network was begun."""
        if not self.started:
            return None
        waiting = NetworkFacts(waits=self.waits or NOBODY)
        found = self.tunnel() if self.tunnel is not None else waiting
        # Where nothing is known of the tunnel any more it is not shown as one that stands.
        stands = None if found.device and self.connected else self.connected
        return msgspec.structs.replace(
            found,
            configured=self.ranges is not None,
            gateways=self.gateways,
            stands=stands,
            why=self.waits if self.ranges is None else self.why,
        )

    async def wait_changed(self) -> None:
        """Wait until anything changes."""
        await self._news.wait()

    def set_ranges(self, ranges: PeerRanges | None, waits: str = "") -> None:
        """Set the ranges, or the reason to wait for them."""
        first, self.read = not self.read, True
        self.looked.set()
        if first or (ranges, waits) != (self.ranges, self.waits):
            self.ranges, self.waits = ranges, waits
            self._notify()

    def set_connected(self, connected: bool | None, why: str = "") -> None:
        """Set the result of the probes: true if packets get through."""
        if (connected, why) != (self.connected, self.why):
            self.connected, self.why = connected, why
            self._notify()

    def set_gateways(self, gateways: Mapping[str, bool]) -> None:
        """Set the states of the gateways."""
        if gateways != self.gateways:
            self.gateways = dict(gateways)
            self._notify()

    def _notify(self) -> None:
        self._news.notify()
