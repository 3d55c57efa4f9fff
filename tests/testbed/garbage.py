"""The garbage collector of a run of tests: a sixth of all time, unless it is told what stays."""

from __future__ import annotations

import gc
from typing import Final

YOUNG: Final = 10_000
"""Objects that are made before the youngest are looked through; Python's own number is 700."""


def spare() -> None:
    """Leaves what is there before the first test, modules and the tests themselves, to stay.

    They are half a million objects, which each full collection would look through for nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)


def collect_all() -> None:
    """Collects, and has :func:`gc.get_objects` know what was there before the first test too."""
    gc.unfreeze()
    gc.collect()
