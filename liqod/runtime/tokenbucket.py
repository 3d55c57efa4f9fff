"""The token bucket, which limits a rate."""


class TokenBucket:
    """So many tokens at once, and from then on so many a second.

    Args:
        rate: tokens a second.
        burst: tokens at the most, and at first.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._level, self._at = burst, float("-inf")

    def takes(self, now: float) -> bool:
        """Take one token if there is one.

        Args:
            now: seconds of a monotonic clock.
        """
        if self._refilled(now) < 1:
            return False
        self._level -= 1
        return True

    def take(self, now: float, amount: float = 1.0) -> float:
        """Take tokens, also those that do not exist yet; seconds until none is owed.

        Args:
            now: as above.
            amount: how many.
        """
        self._level = self._refilled(now) - amount
        return max(0.0, -self._level / self._rate)

    def _refilled(self, now: float) -> float:
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        return self._level
