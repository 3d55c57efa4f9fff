"""Folders of running clusters, and the removal of those whose test run was killed.

Processes of a killed run end by themselves (see `processes`); what they wrote does not, so the
next run removes it.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "liqod-testbed-"


@functools.cache
def base() -> Path:
    """This run's folder, named by its process id; it is removed when the process ends."""
    root = Path(tempfile.gettempdir())
    for left in root.glob(f"{PREFIX}*"):
        owner = left.name.removeprefix(PREFIX).split("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=root))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def new(name: str) -> Path:
    """A new folder for the cluster `name`."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base()))
