"""Modules of tests are compiled once by the workers of a run together, and not by each of them; a
run of the others leaves out files with fast tests alone.

Workers import the same modules in the same order, so that where nothing is compiled yet all of them
compile the same one at the same time: of a run on a fresh checkout that was a tenth. Here each
begins with another share of them, and finds the rest compiled by the others.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from tests import tiers

ROOT = Path(__file__).parents[2]
REAL_MARKS = ("cluster", "node", "viewer", "netns", "long")
"""Marks of tests that are not fast."""
WITHOUT_FAST_FILES = "--without-fast-files"
"""The option by which a run leaves out files with fast tests alone. pytest's own `--ignore`, once
for each of these hundreds, would read all of them anew at each file and folder that it comes to."""
MOSTLY_FAST = ("unit", "simulated")
"""Folders in which few files have a test that is not fast; each of these names the mark itself."""
_NAMES = (*REAL_MARKS, *(each.name for each in tiers.ALL))
_MARKED = re.compile(rf"\bmark\.(?:{'|'.join(_NAMES)})\b")


@cache
def fast_files() -> frozenset[Path]:
    """The files with fast tests alone, of :data:`MOSTLY_FAST`: each worker would import them, and
    make their cases, for nothing."""
    folders = (ROOT / "tests" / name for name in MOSTLY_FAST)
    files = (each for folder in folders for each in folder.rglob("test_*.py"))
    return frozenset(each for each in files if not _MARKED.search(each.read_text()))


def is_left_out(file: Path, config: pytest.Config) -> bool:
    """True if this run does not collect a file, as it has fast tests alone."""
    return bool(config.getoption(WITHOUT_FAST_FILES)) and file in fast_files()


def import_own(session: pytest.Session) -> None:
    """Imports this worker's share of what is about to be collected; for a whole run only."""
    config = session.config
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker or sys.dont_write_bytecode:
        return
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    ignored = [Path(os.path.abspath(each)) for each in config.getoption("ignore") or ()]
    files = [
        each
        for each in sorted((ROOT / "tests").rglob("test_*.py"))
        if not any(each.is_relative_to(folder) for folder in ignored)
        and not is_left_out(each, config)
    ]
    number, all_ = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for each in files[number::all_]:
        name = ".".join(each.relative_to(ROOT).with_suffix("").parts)
        # What is wrong with one, or why it is skipped, is told where it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)
