"""Runs every test: `python -m tests.testbed.suite [--versions "1.36 ..."|all] [-- PYTEST
ARGUMENTS]`.

First come the fast tests, side by side; beside them what the real clusters need is built, all at
once. Then their tests run on each further Kubernetes minor that was asked for, and at the end on
the default one.
They mostly wait for Kubernetes, so four workers share them file by file, the longest first, each
with clusters of its own; a fifth has the tests on embedded clusters that are not fast (`order`).
A test that fails has a second try, which the summary reports. With arguments for pytest, everything
runs once with those, in one process. Tests of a tier run where what they depend on has changed
(`tests/tiers.py`), or alone, by `--tier`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Collection

from tests import tiers
from tests.testbed import beforehand, fixtures, order, programs, share
from tests.testbed.errors import Unavailable

FAST_MARKS = "not cluster and not node and not viewer and not netns and not long"
SLOWEST = "--durations=25"
"""Names the slowest tests, since the whole is to stay short."""
ELSEWHERE = ("cluster", "netns", "node", "viewer")
"""Folders without a fast test: each worker would import them for nothing."""
FAST_WORKERS = (os.cpu_count() or 1) + 1
"""One more than there are cores: some time goes by waiting for programs and clocks, and each takes
ten seconds of the processor to import and collect the tests."""
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
    names = [each.name for each in tiers.ALL]
    parser.add_argument("--tier", choices=names, help="only the tests of this tier")
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
    if chosen.tier:
        # Alone it is asked for by name, so that a skip of all of it would be no answer.
        os.environ.setdefault(fixtures.REQUIRE, "1")
    # By what there is now, as it is what is tried.
    due = {each: each.digest() for each in tiers.ALL if is_wanted(each, chosen.tier)}
    failed = False
    real = ["-m", marks(chosen.tier, due), *ON_WORKERS, share.WITHOUT_FAST_FILES]
    if not (chosen.pytest or chosen.tier):
        with beforehand.beside([default, *further]):
            failed = fast([]) != 0
    for minor in further:
        failed |= run(minor, [*real, *chosen.pytest]) != 0
    status = run(default, chosen.pytest or real)
    if fixtures.required() and not (chosen.pytest or status):
        for tier, digest in due.items():
            record(tier, digest)
    return status or int(failed)


def is_wanted(tier: tiers.Tier, only: str | None) -> bool:
    """True if a run has a tier: the one that it is for, or else each that is due; says if not."""
    if only:
        return tier.name == only
    if tier.is_due():
        return True
    programs.say(
        f"the {tier.name} tier is left out, as nothing that it depends on has changed since it "
        f"passed; make test-{tier.name} runs it"
    )
    return False


def marks(only: str | None, due: Collection[tiers.Tier]) -> str:
    """The tests on real clusters that pytest takes: one tier, or all but those not due."""
    left = "".join(f" and not {each.name}" for each in tiers.ALL if each not in due)
    return only or (f"({REAL_MARKS}){left}" if left else REAL_MARKS)


def record(tier: tiers.Tier, digest: str) -> None:
    """Write down that a tier has passed with what has this hash."""
    if not tier.ran.exists() or tier.ran.read_text().strip() != digest:
        tier.ran.write_text(f"{digest}\n")
        programs.say(f"the {tier.name} tier passed: commit {tier.ran.relative_to(tier.root)}")


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
