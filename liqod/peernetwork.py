"""The network that is joined with one peer, as rooms may know it; whoever joins it says it here."""

from collections.abc import Callable, Mapping

import trio

from liqod.model.network.ranges import PeerRanges
from liqod.model.view.networkfacts import NetworkFacts

NOBODY = "there is no gateway of this cluster's for it yet"
NOT_JOINED = "the networks are not joined: there is no Configuration of the peer"


class PeerNetwork:
    """The network of one peer.

    Attributes:
        ranges: of the two clusters; None while they are not known.
        waits: what is waited for while they are not, as a clause.
        stands: whether packets get through; None where nobody has looked.
        why: the reason, as a clause.
        gateways: whether the gateway that is there works, by its side (``server``, ``client``).
        facts: gives all that is known, from memory; None while nobody keeps the network.
    """

    def __init__(self) -> None:
        self.ranges: PeerRanges | None = None
        self.waits = NOT_JOINED
        self.stands: bool | None = None
        self.why = ""
        self.gateways: Mapping[str, bool] = {}
        self.facts: Callable[[], NetworkFacts] | None = None
        self._changed = trio.Event()

    @property
    def begun(self) -> bool:
        """Whether anybody has begun to join the networks."""
        return self.ranges is not None or self.waits != NOT_JOINED or bool(self.gateways)

    async def wait_changed(self) -> None:
        """Wait until anything changes."""
        await self._changed.wait()

    def know(self, ranges: PeerRanges | None, waits: str = "") -> None:
        """Say which ranges there are, or what is waited for."""
        if (ranges, waits) != (self.ranges, self.waits):
            self.ranges, self.waits = ranges, waits
            self._stir()

    def stand(self, stands: bool | None, why: str = "") -> None:
        """Say whether packets get through."""
        if (stands, why) != (self.stands, self.why):
            self.stands, self.why = stands, why
            self._stir()

    def show(self, gateways: Mapping[str, bool]) -> None:
        """Say which gateways there are."""
        if gateways != self.gateways:
            self.gateways = dict(gateways)
            self._stir()

    def _stir(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
