"""Runs every test: `python -m tests.testbed.suite [--versions "1.36 ..."|all] [-- PYTEST
ARGUMENTS]`.

First come the fast tests, side by side; beside them what the real clusters need is built, all at
once. Then their tests run on each further Kubernetes minor that was asked for, and at the end on
the default one.
They mostly wait for Kubernetes, so four workers share them file by file, the longest first, each
with clusters of its own; a fifth has the tests on embedded clusters that are not fast (`order`).
A test that fails has a second try, which the summary reports. With arguments for pytest, everything
runs once with those, in one process. Tests of what is released run where what they depend on has
changed (`releasetier`), or alone, by `--release`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from tests.testbed import beforehand, order, programs, releasetier, share
from tests.testbed.errors import Unavailable

FAST_MARKS = "not cluster and not node and not viewer and not netns and not long"
SLOWEST = "--durations=25"
"""Names the slowest tests, since the whole is to stay short."""
ELSEWHERE = ("cluster", "netns", "node", "viewer")
"""Folders without a fast test: each worker would import them for nothing."""
FAST_WORKERS = (os.cpu_count() or 1) + 2
"""Two more than there are cores: a quarter of the time goes by waiting for programs and clocks."""
ONCE = ("-p", "no:rerunfailures")
"""A fast test that fails has failed."""
AGAIN = ("--reruns", "1")
"""Any other that fails has one more try, as programs of others take part: see
`secondtry.leave_to_real_tier`. The summary counts these tries, and says why each first one
failed."""
FAST = (
    *("-m", FAST_MARKS, "-n", str(FAST_WORKERS), "--dist", "worksteal", *ONCE, SLOWEST),
    *(f"--ignore=tests/{folder}" for folder in ELSEWHERE),
)
REAL_MARKS = " or ".join(share.REAL_MARKS)
WORKERS = 4
"""Two more than the cores of the smallest machine: each waits for Kubernetes, or for a clock, three
fifths of its time. One takes up to four gigabytes of memory."""
APART = f"gw{WORKERS}"
"""The worker that comes after these."""
SHARED = ("-n", str(WORKERS + 1), "--dist", "loadfile", "--no-loadscope-reorder")
ON_WORKERS = (*SHARED, *AGAIN, SLOWEST)


NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""With it every worker, and every program that a test starts, would compile all modules anew."""


def main(arguments: list[str]) -> int:
    """Runs it all; 0 only if all of it passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed.suite")
    parser.add_argument("--versions", default="", help="further minors, or all")
    parser.add_argument("--fast", action="store_true", help="only what needs no real cluster")
    parser.add_argument("--release", action="store_true", help="only what is released")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest")
    chosen = parser.parse_args(arguments)
    os.environ.pop(NO_BYTECODE, None)
    if chosen.fast:
        return fast(chosen.pytest)
    further = chosen.versions.replace(",", " ").split()
    if "all" in further:
        further = programs.minors()
    default = programs.wanted_minor()
    further = [minor for minor in further if minor != default]
    with_release = chosen.release or releasetier.is_due()
    if not with_release:
        programs.say("nothing that the release tier depends on has changed since it passed")
    failed = False
    marks = chosen_marks(only=chosen.release, with_release=with_release)
    real = [*marks, *ON_WORKERS, share.WITHOUT_FAST_FILES]
    if not (chosen.pytest or chosen.release):
        with beforehand.beside([default, *further]):
            failed = fast([]) != 0
    for minor in further:
        failed |= run(minor, [*real, *chosen.pytest]) != 0
    status = run(default, chosen.pytest or real)
    if with_release and not (chosen.pytest or status):
        releasetier.passed()
    return status or int(failed)


def chosen_marks(*, only: bool, with_release: bool) -> tuple[str, str]:
    """The option by which pytest takes the tests on real clusters.

    Args:
        only: those of what is released alone.
        with_release: those, too.
    """
    if only:
        return ("-m", releasetier.MARK)
    if with_release:
        return ("-m", REAL_MARKS)
    return ("-m", f"({REAL_MARKS}) and not {releasetier.MARK}")


def fast(arguments: list[str]) -> int:
    """The tests that need no real cluster, side by side; pytest's exit status."""
    programs.say("tests that need no real cluster")
    command = [sys.executable, "-m", "pytest", *FAST, *arguments]
    return subprocess.run(command, check=False).returncode


def run(minor: str, arguments: list[str]) -> int:
    """One pytest run on one Kubernetes minor; its exit status."""
    programs.say(f"tests on Kubernetes {minor}")
    try:
        programs.find(minor)
    except Unavailable as reason:
        programs.say(f"no real clusters: {reason}")
    environment = {**os.environ, "TESTBED_VERSION": minor, order.APART: APART}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
