"""Computes the time to wait after failures in a row."""

import random
from collections.abc import Callable

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    """Delays that double, with jitter so that many do not come back at once.

    Attributes:
        first: seconds after the first failure.
        last: bound of the doubling, in seconds.
    """

    first: float = 0.05
    last: float = 60.0

    def delay(self, failures: int, jitter: Callable[[], float] = random.random) -> float:
        """Seconds to wait after so many failures in a row: between half of the step and all."""
        step = min(self.last, self.first * 2.0 ** min(failures - 1, 60))
        return step * (0.5 + jitter() / 2)
