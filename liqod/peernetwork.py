"""The network that is joined with one peer, as rooms may know it; whoever joins it says it here."""

import trio

from liqod.model.network.ranges import PeerRanges

NOT_JOINED = "the networks are not joined: there is no Configuration of the peer"


class PeerNetwork:
    """The network of one peer.

    Attributes:
        ranges: of the two clusters; None while they are not known.
        waits: what is waited for while they are not, as a clause.
        stands: whether packets get through; None where nobody has looked.
        why: the reason, as a clause.
    """

    def __init__(self) -> None:
        self.ranges: PeerRanges | None = None
        self.waits = NOT_JOINED
        self.stands: bool | None = None
        self.why = ""
        self._changed = trio.Event()

    async def wait_changed(self) -> None:
        """Wait until anything is another than now."""
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

    def _stir(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
