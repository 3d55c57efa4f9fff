"""Figures of the round trips to a peer. Pure."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

Rounds = tuple[float | None, float | None, float | None, float | None, float | None]
"""Newest, median, 95th percentile and jitter in seconds, and the part that was lost."""
ENOUGH_ROUNDS = 10
"""Round trips from which on the part that is lost means something."""


def rounds(taken: Iterable[float | None]) -> Rounds:
    """Newest, median, 95th percentile, jitter and loss of round trips; None marks a lost one."""
    every = list(taken)
    good = [each for each in every if each is not None]
    if not every:
        return None, None, None, None, None
    loss = round(1 - len(good) / len(every), 3)
    if not good:
        return None, None, None, None, loss
    ordered = sorted(good)
    steps = [abs(b - a) for a, b in pairwise(good)]
    return (
        round(good[-1], 6) if every[-1] is not None else None,
        round(ordered[len(ordered) // 2], 6),
        round(ordered[min(len(ordered) * 95 // 100, len(ordered) - 1)], 6),
        round(sum(steps) / len(steps), 6) if steps else None,
        loss,
    )


def lossiness(rounds: Sequence[float | None]) -> float | None:
    """The part of the round trips that single losses are; None of too few.

    Round trips up to the end of an outage do not count: the link reports outages.
    """
    begin = 0
    for index in range(1, len(rounds)):
        if rounds[index] is None and rounds[index - 1] is None:
            begin = index + 1
    counted = rounds[begin:]
    return counted.count(None) / len(counted) if len(counted) >= ENOUGH_ROUNDS else None
