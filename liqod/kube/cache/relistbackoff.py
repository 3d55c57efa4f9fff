"""How soon one who follows turns to the server again, after a turn that failed or ended early."""

import trio

from liqod.runtime.backoff import Backoff

HEALTHY_AFTER = 10.0
"""Seconds a watch must have lived for the next to follow without a pause."""
PAUSES = Backoff(first=0.2, last=10.0)
REFUSED = Backoff(first=0.2, last=30.0)
"""Pauses after failures, and after refusals that somebody has to change."""
BRIEF = 1.0
"""Seconds at most between two watches of which the later goes on where the earlier was cut."""
RESTLESS = 4
"""Turns in a row that end early from which on that is a trouble."""


class RelistBackoff:
    """The pace of one follower.

    Attributes:
        through: whether the turn under way has reached the server.
        refused: whether it was refused until somebody changes something.
    """

    def __init__(self) -> None:
        self.through = self.refused = False
        self._began = float("-inf")
        self._failures = self._cuts = 0

    def begin(self) -> None:
        """A turn begins."""
        self.through = self.refused = False
        self._began = trio.current_time()

    def anew(self) -> None:
        """The server is said to be well again: what still fails is tried soon, and then less."""
        self._failures = 0

    def pause(self, least: float, *, goes_on: bool) -> float:
        """Seconds to wait after a turn.

        Args:
            least: what the server asks for.
            goes_on: the next turn goes on where this one ended: nothing has to be listed again.
        """
        if self._lasted:
            self._failures = self._cuts = 0
            return least
        self._failures += 1
        self._cuts = self._cuts + 1 if self.through else 0
        pause = (REFUSED if self.refused else PAUSES).delay(self._failures)
        return max(least, min(pause, BRIEF) if self.through and goes_on else pause)

    @property
    def restless(self) -> bool:
        """True if turns reach the server and end early, again and again."""
        return self._cuts >= RESTLESS and not self._lasted

    @property
    def _lasted(self) -> bool:
        return trio.current_time() - self._began >= HEALTHY_AFTER
