"""Counts durations in steps: a scrape of the metrics makes a histogram of them."""

from bisect import bisect_left

STEPS = (0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0)
"""Upper bounds of the steps in seconds; longer durations are counted beyond them."""


class Histogram:
    """Counts of durations.

    Attributes:
        total: sum of all durations in seconds.
    """

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts = [0] * (len(STEPS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(STEPS, seconds)] += 1
        self.total += seconds

    def merge(self, other: "Histogram") -> None:
        """Add the counts of another histogram."""
        self._counts = [a + b for a, b in zip(self._counts, other._counts, strict=True)]
        self.total += other.total

    def buckets(self) -> list[tuple[str, float]]:
        """The number of durations up to each bound, with the bound as Prometheus writes it."""
        found, sum_ = [], 0
        for bound, count in zip((*map(str, STEPS), "+Inf"), self._counts, strict=True):
            sum_ += count
            found.append((bound, float(sum_)))
        return found
