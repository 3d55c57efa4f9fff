"""The garbage collector of a run of tests: a sixth of all time, unless it is told what stays."""

from __future__ import annotations

import gc


def hold() -> None:
    """Collects nothing while tests are imported: almost all that is made then stays."""
    gc.disable()


def spare() -> None:
    """Leaves what is there before the first test, modules and the tests themselves, to stay.

    They are half a million objects, which each full collection would look through for nothing.
    """
    gc.enable()
    gc.collect()
    gc.freeze()


def collect_all() -> None:
    """Collects, and has :func:`gc.get_objects` know what was there before the first test too."""
    gc.unfreeze()
    gc.collect()
