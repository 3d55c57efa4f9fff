"""Runs every test: `python -m tests.testbed.suite [--versions "1.36 ..."|all] [-- PYTEST
ARGUMENTS]`.

First come the fast tests, side by side. Then what the real clusters need is built, and their
tests run on each further Kubernetes minor that was asked for and at the end on the default one,
one after another, since each has the machine's cores busy. With arguments for pytest, everything
runs once with those.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from tests.testbed import programs
from tests.testbed.errors import Unavailable

FAST = ("-m", "not cluster and not node", "-n", "auto", "--dist", "worksteal")
REAL = ["-m", "cluster or node"]


def main(arguments: list[str]) -> int:
    """Runs it all; 0 only if all of it passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed.suite")
    parser.add_argument("--versions", default="", help="further minors, or all")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest")
    chosen = parser.parse_args(arguments)
    further = chosen.versions.replace(",", " ").split()
    if "all" in further:
        further = programs.minors()
    default = programs.wanted_minor()
    failed = not chosen.pytest and fast() != 0
    for minor in further:
        if minor != default:
            failed |= run(minor, [*REAL, *chosen.pytest]) != 0
    status = run(default, chosen.pytest or REAL)
    return status or int(failed)


def fast() -> int:
    """The tests that need no real cluster, on every core; pytest's exit status."""
    programs.say("tests that need no real cluster")
    return subprocess.run([sys.executable, "-m", "pytest", *FAST], check=False).returncode


def run(minor: str, arguments: list[str]) -> int:
    """One pytest run on one Kubernetes minor; its exit status."""
    programs.say(f"tests on Kubernetes {minor}")
    try:
        programs.find(minor)
    except Unavailable as reason:
        programs.say(f"no real clusters: {reason}")
    environment = {**os.environ, "TESTBED_VERSION": minor}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
