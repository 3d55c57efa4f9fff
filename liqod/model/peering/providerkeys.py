"""The keys that a provider has had, in the note of its consumer. Pure.

A kubeconfig names the provider's key at the first contact; from it the note leads to the present
key. Pairs of a key and of its successor, with spaces between: ``KEY>KEY KEY>KEY``.
"""

from collections.abc import Iterable
from typing import Final

MOST: Final = 16
"""Most keys that are kept of one provider; one that has had more has to be peered with anew."""


def _pairs(note: str | None) -> dict[str, str]:
    halves = (each.partition(">") for each in (note or "").split())
    return {key: next_ for key, _, next_ in halves if next_}


def follow(note: str | None, key: str) -> str:
    """The key that a provider has now, where that one (SHA-256, hexadecimal) was its."""
    return _pairs(note).get(key, key)


def with_next(note: str | None, keys: Iterable[str]) -> frozenset[str]:
    """Keys that a provider has shown, and those that it has instead now."""
    shown = frozenset(keys) - {""}
    return shown | {follow(note, each) for each in shown}


def added(note: str | None, former: str, following: str) -> str | None:
    """The note with one more step; None where another key has followed that one, or too many have.

    Keys that lead to the former key lead to the next one from now on.
    """
    pairs = _pairs(note)
    if pairs.get(former, following) != following or following in pairs:
        return None
    steps = {key: following if next_ == former else next_ for key, next_ in pairs.items()}
    steps[former] = following
    if len(steps) > MOST:
        return None
    return " ".join(f"{key}>{next_}" for key, next_ in steps.items())
