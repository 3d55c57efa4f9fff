"""Looks for scripts that break an invariant, for the time that it is given: ``make soak``.

    python -m tests.stateful.hunt --seconds 600 [--seed 7] [--processes 2] [--direct]

Each kind of failure is printed once, as a script without the steps that it does not need, ready to
be kept in ``tests/stateful/test_found.py``. Prints the seed first: the same seed finds the same.
"""

import argparse
import logging
import multiprocessing
import random
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from hypothesis import HealthCheck, Phase, given, seed, settings

from liqod.runtime.supervise import leaves
from tests.stateful import world
from tests.stateful.script import perform
from tests.stateful.steps import Step
from tests.stateful.strategies import scripts

Script = list[Step]


def failure_of(script: Script) -> str:
    """Performs a script, and returns the error with which it ends; empty if it ends well."""
    try:
        perform(*script)
    except BaseException as error:
        first = leaves(error)[0]
        if isinstance(first, KeyboardInterrupt):
            raise
        return f"{type(first).__name__}: {first}"
    return ""


def kind_of(failure: str) -> str:
    """Returns the part of a failure that is the same for others but for names and numbers."""
    names = r"\d+|milan|turin|\b[ab]\b|configmaps?|secrets?|services?"
    return re.sub(names, "*", failure.splitlines()[0])


def shortest(script: Script, kind: str, until: float) -> Script:
    """The script without steps that the failure does not need."""
    size = max(1, len(script) // 2)
    while size:
        at = 0
        while at < len(script) and time.monotonic() < until:
            less = script[:at] + script[at + size :]
            if kind_of(failure_of(less) or "-") == kind:
                script = less
            else:
                at += size
        size //= 2
    return script


class _Enough(BaseException):
    """The time is over."""


def search(
    number: int,
    *,
    seconds: float,
    patience: float,
    most: int = 1_000_000,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[int, list[str]]:
    """Try random scripts; how many there were, and one shortened script of each kind of failure.

    Args:
        number: the seed: the same one tries the same scripts.
        seconds: when to stop.
        patience: seconds spent on shortening each script.
        most: how many scripts at the most.
        tell: called with each failure as it is found.
    """
    world.baseline()
    until = time.monotonic() + seconds
    known: dict[str, str] = {}
    tried = 0

    @seed(number)
    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(scripts)
    def attempt(script: Script) -> None:
        nonlocal tried
        if time.monotonic() > until:
            raise _Enough
        tried += 1
        failure = failure_of(script)
        if not failure or (kind := kind_of(failure)) in known:
            return
        short = shortest(script, kind, time.monotonic() + patience)
        text = "".join(f"\n    {step!r}," for step in short)
        known[kind] = f"{failure}\nperform({text}\n)"
        tell(known[kind])

    with suppress(_Enough):
        attempt()
    return tried, list(known.values())


def soak(number: int, seconds: float, patience: float) -> bool:
    """Search, and print what is found; whether something was."""
    started = time.monotonic()
    tried, found = search(
        number,
        seconds=seconds,
        patience=patience,
        tell=lambda text: print(f"\n[seed {number}] {text}", flush=True),
    )
    passed = time.monotonic() - started
    print(f"[seed {number}] {tried} scripts in {passed:.0f} s, {len(found)} kinds of failure")
    return bool(found)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to shorten a script")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(f"seeds from {options.seed}", flush=True)
    jobs = [
        (options.seed + index, options.seconds, options.patience)
        for index in range(options.processes)
    ]
    if len(jobs) == 1:
        return int(soak(*jobs[0]))
    with multiprocessing.get_context("spawn").Pool(len(jobs)) as pool:
        return int(any(pool.starmap(soak, jobs)))


if __name__ == "__main__":
    sys.exit(main())
