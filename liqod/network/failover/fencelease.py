"""The deadline for tunnels that was last written to the kernel, and when to write it again.

A daemon may be killed at any time; what its kernel then has left is the time in which another may
be started in its place. Pure: no clock, no I/O.
"""

from math import inf
from typing import Final

from liqod.network.failover.election import KERNEL, RENEW

LEFT: Final = KERNEL - RENEW
"""Seconds that the kernel has left at the least, where it may have them."""
WORTH: Final = 0.5
"""Seconds that a later deadline has to add to be written."""
JITTER: Final = 0.05
"""Seconds that make no difference."""
AGAIN: Final = 1.0
"""Seconds until another try, where the kernel refused."""


class FenceDeadline:
    """The deadline until which the kernel keeps this machine's tunnels open, as last written."""

    def __init__(self) -> None:
        self._until: float | None = None
        """None where nothing was written yet, ``inf`` for no end, the past for fenced."""
        self._again = -inf

    def told(self, held: float | None, at: float) -> None:
        """The kernel has it: ``held`` seconds from ``at`` on; None for no end, 0 for fenced."""
        self._until = inf if held is None else at + held

    def refused(self, at: float) -> None:
        """The kernel refused it; the deadline there is unknown."""
        self._until, self._again = None, at + AGAIN

    def is_due(self, held: float | None, at: float) -> bool:
        """True if a deadline ``held`` seconds from now is to be written.

        At once where it is earlier than the written one, or has no end; a later one shortly before
        the written one.
        """
        if self._until is None:
            return at >= self._again
        if held == 0.0:
            return at < self._until
        until = inf if held is None else at + held
        if until == self._until or abs(until - self._until) < JITTER:
            return False
        if until < self._until:
            return True
        return until == inf or (until - self._until >= WORTH and self._until - at <= LEFT)

    def due(self, at: float) -> float:
        """When to ask again, if nothing happens before; ``inf`` where nothing is to come."""
        due = self._again if self._until is None else self._until - LEFT
        return due if due > at else inf
