"""Counts the results of one daemon's meetings, for metrics. No decision depends on them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from liqod.handshake.transport.channel import Channel

REFUSALS: Final = (
    *("protocol", "version", "proof", "wrong-key", "wrong-id", "same-id", "itself"),
    *("key-changed", "expired", "unknown", "busy"),
    *("invitation-unknown", "invitation-used", "invitation-expired", "invitation-other"),
)
"""Codes by which this side ends a meeting (:mod:`liqod.handshake.protocol.statemachine`)."""
OTHER: Final = "other"
"""The code under which any other code is counted."""
ENDINGS: Final = frozenset(("gone", "cancelled", "denied"))
"""Codes that refuse nobody, or repeat an answer."""


class SessionCounters:
    """Counts of all meetings, and the channels that are open now.

    Attributes:
        answers: how often who asked to borrow was ``accepted`` or ``denied``; in each meeting anew.
        refused: meetings that this side has ended, by code.
    """

    def __init__(self) -> None:
        self.answers = Counter(accepted=0, denied=0)
        self.refused: Counter[str] = Counter(dict.fromkeys((*REFUSALS, OTHER), 0))
        self._channels: dict[Channel, str] = {}
        self._past = [0, 0]

    def refuse(self, code: str) -> None:
        """Counts a meeting that this side has ended."""
        if code not in ENDINGS:
            self.refused[code if code in REFUSALS else OTHER] += 1

    @contextmanager
    def tracking(self, channel: Channel, peer: str) -> Iterator[None]:
        """Show a channel to a cluster for as long as the block lasts."""
        self._channels[channel] = peer
        try:
            yield
        finally:
            del self._channels[channel]
            self._past[0] += channel.bytes_in
            self._past[1] += channel.bytes_out

    @property
    def channels(self) -> Counter[str]:
        """How many channels are open, by cluster id."""
        return Counter(self._channels.values())

    @property
    def streams(self) -> Counter[str]:
        """How many streams are open in them, of both sides."""
        found: Counter[str] = Counter()
        for channel, peer in self._channels.items():
            found[peer] += channel.open_streams
        return found

    @property
    def received(self) -> int:
        """Bytes that came by all channels there have been."""
        return self._past[0] + sum(each.bytes_in for each in self._channels)

    @property
    def sent(self) -> int:
        """Bytes that went by them."""
        return self._past[1] + sum(each.bytes_out for each in self._channels)
