"""Runs every test: `python -m tests.testbed.suite [--versions "1.36 ..."|all] [-- PYTEST
ARGUMENTS]`.

First what the real clusters need is built, then their tests run on each further Kubernetes minor
that was asked for, and at the end everything runs on the default one, so that pytest's summary of
that is the last thing on the screen.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from tests.testbed import programs
from tests.testbed.errors import Unavailable


def main(arguments: list[str]) -> int:
    """Runs it all; 0 only if all of it passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed.suite")
    parser.add_argument("--versions", default="", help="further minors, or all")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest")
    chosen = parser.parse_args(arguments)
    further = chosen.versions.replace(",", " ").split()
    if "all" in further:
        further = programs.minors()
    failed = False
    for minor in further:
        if minor != programs.wanted_minor():
            failed |= run(minor, ["-m", "cluster or node", *chosen.pytest]) != 0
    status = run(programs.wanted_minor(), chosen.pytest)
    return status or int(failed)


def run(minor: str, arguments: list[str]) -> int:
    """One pytest run on one Kubernetes minor; its exit status."""
    programs.say(f"tests on Kubernetes {minor}")
    try:
        programs.find(minor)
    except Unavailable as reason:
        programs.say(f"no real clusters: {reason}")
    environment = {**os.environ, "LIQOD_TESTBED_VERSION": minor}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
