"""Packets between the device and the sessions: sent on the newest, taken from any that is open.

A connection that is slower than what is to be sent on it must drop something, as every network
does: the packet that has waited longest goes first, so that what arrives is young, and a probe's
answer is never behind seconds of a download.
"""

from collections import deque
from typing import Final, NoReturn

import trio

from liqod.tunnel.packets import Tun
from liqod.tunnel.tunnelsession import TunnelSession

AT_ONCE: Final = 64
"""Pieces that are read before others are looked after."""
BATCH: Final = 1 << 17
"""Bytes that are encrypted in one go."""
LONGEST_WAIT: Final = 0.1
"""Seconds that a packet may wait here."""
MOST_WAITING: Final = 1 << 22
"""Bytes that may wait here."""
OVERLAP: Final = 5.0
"""Seconds for which an older session may bring packets under way."""


class Carrier:
    """Carries packets.

    Args:
        device: whose packets.

    Attributes:
        newest: the session that packets are sent on; None while there is none.
        refused: what came of the other end and was no packet.
    """

    def __init__(self, device: Tun) -> None:
        self.newest: TunnelSession | None = None
        self.refused = 0
        self._device = device
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._open: list[TunnelSession] = []

    async def run(self) -> NoReturn:
        """Read the device until it is gone.

        Raises:
            OSError: it is.
        """
        while True:
            await trio.lowlevel.wait_readable(self._device)
            now = trio.current_time()
            for _ in range(AT_ONCE):
                try:
                    piece = self._device.read()
                except BlockingIOError:
                    break
                if not piece:
                    continue
                self._bytes += len(piece)
                self._waiting.append((now, piece))
            self._forward()

    async def carry(
        self, session: TunnelSession, pause: float, patience: float, *, says_goodbye: bool
    ) -> None:
        """Have a session be the newest, and take what comes on it until it is over.

        Args:
            session: an open one.
            pause, patience: seconds, as :meth:`TunnelSession.run` has them.
            says_goodbye: whether it is this end that ends older ones, which is the one that knows
                that both have the new one.
        """
        older = [each for each in self._open if each.is_open]
        session.drained = self._forward
        self._open.append(session)
        self._choose()
        try:
            async with trio.open_nursery() as nursery:
                for each in older:
                    nursery.start_soon(self._retire, each, says_goodbye)
                self._forward()
                await session.run(self._came, pause, patience)
                nursery.cancel_scope.cancel()
        finally:
            self._open.remove(session)
            self._choose()

    def files(self) -> list[int]:
        """The descriptors of the connections that packets are sent on."""
        return [session.file for session in self._open if session.file >= 0]

    async def break_off(self, why: str) -> None:
        """End every session, and wait until nothing more is sent on any."""
        ending = list(self._open)
        for session in ending:
            session.break_off(why)
        for session in ending:
            await session.closed.wait()

    async def _retire(self, session: TunnelSession, says_goodbye: bool) -> None:
        """Leave an older one, which has a while yet for packets under way."""
        if says_goodbye:
            session.end()
        with trio.move_on_after(OVERLAP):
            await session.closed.wait()
            return
        session.break_off("a newer one stands")

    def _choose(self) -> None:
        """The newest that packets can be sent on."""
        chosen = next((each for each in reversed(self._open) if each.is_open), None)
        if chosen is not self.newest:
            self.newest = chosen

    def _forward(self) -> None:
        """Give the newest session what waits, as much as it takes."""
        if self.newest is not None and not self.newest.is_open:
            self._choose()
        session, waiting = self.newest, self._waiting
        if session is None:
            waiting.clear()
            self._bytes = 0
            return
        while waiting and session.is_clear:
            batch, size = [], 0
            oldest = trio.current_time() - LONGEST_WAIT
            while waiting and size < BATCH:
                came, piece = waiting.popleft()
                self._bytes -= len(piece)
                if came >= oldest or not waiting:
                    batch.append(piece)
                    size += len(piece)
            session.send(batch)
        while self._bytes > MOST_WAITING:
            self._bytes -= len(waiting.popleft()[1])

    def _came(self, piece: bytes) -> None:
        if not self._device.write(piece):
            self.refused += 1
