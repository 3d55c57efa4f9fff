"""Modules of tests are compiled once by the workers of a run together, and not by each of them.

Workers import the same modules in the same order, so that where nothing is compiled yet all of them
compile the same one at the same time: of a run on a fresh checkout that was a tenth. Here each
begins with another share of them, and finds the rest compiled by the others.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def import_own(session: pytest.Session) -> None:
    """Imports this worker's share of what is about to be collected; for a whole run only."""
    config = session.config
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker or sys.dont_write_bytecode:
        return
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    left_out = [Path(os.path.abspath(each)) for each in config.getoption("ignore") or ()]
    files = [
        each
        for each in sorted((ROOT / "tests").rglob("test_*.py"))
        if not any(each.is_relative_to(folder) for folder in left_out)
    ]
    number, all_ = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for each in files[number::all_]:
        name = ".".join(each.relative_to(ROOT).with_suffix("").parts)
        # What is wrong with one, or why it is skipped, is told where it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)
