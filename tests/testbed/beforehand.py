"""Gets all at once what the tests on real clusters need: programs are built and packages installed
side by side, so that a new machine waits for the slowest of them and not for their sum.

`beside()` does it while something else runs, with what that leaves of the processor. Run as
`python -m tests.testbed.beforehand [MINOR ...]` it does it alone. Nothing fails here: what could
not be had is named, and each test that needs it says so again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from tests import tiers
from tests.testbed import debian, node, ownimages, packages, programs
from tests.testbed.errors import Unavailable

NICE = 10
"""The fast tests measure time, so what runs beside them comes after them."""


def steps(minors: Sequence[str]) -> list[Callable[[], object]]:
    """Returns the steps that do not wait for each other."""
    wanted = [*programs.beside(minors), ownimages.find]
    if os.geteuid() == 0:
        needed = {**packages.VIEWERS, **packages.READERS, **node.PACKAGES}
        wanted.append(partial(packages.provide, needed))
    if not tiers.RELEASE.is_due():
        wanted.append(programs.find_newest_helm)
        return wanted
    wanted += [programs.find_helms, programs.find_kubeconform]
    if os.geteuid() == 0:
        wanted.append(debian.find)
    return wanted


def get(wanted: Sequence[Callable[[], object]]) -> list[str]:
    """Does all of it at once; what could not be had, a sentence for each."""

    def attempt(step: Callable[[], object]) -> str:
        try:
            step()
        except Unavailable as reason:
            return str(reason)
        return ""

    with ThreadPoolExecutor(max(1, len(wanted))) as threads:
        return [problem for problem in threads.map(attempt, wanted) if problem]


def beside(minors: Sequence[str]) -> AbstractContextManager[None]:
    """Gets it in a process of its own while the body runs, and waits for it afterwards."""
    return running([sys.executable, "-m", "tests.testbed.beforehand", *minors])


@contextmanager
def running(command: Sequence[str]) -> Iterator[None]:
    """Runs a program beside the body; it is waited for, or stopped where the body fails."""
    # A session of its own: what it starts, compilers among them, ends with it.
    process = subprocess.Popen(["nice", f"-n{NICE}", *command], start_new_session=True)
    try:
        yield
        process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def main(arguments: list[str]) -> int:
    """Says what could not be had; 0 only if there was nothing."""
    problems = get(steps(arguments or [programs.wanted_minor()]))
    for problem in problems:
        programs.say(problem.splitlines()[0])
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
