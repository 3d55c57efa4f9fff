"""Folders of running clusters, and the removal of those whose test run was killed.

Processes of a killed run end by themselves (see `processes`); what they wrote does not, so the
next run removes it. Cgroups and mounts have the run's process id in their names, too.
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
        if is_of_dead_run(left.name, PREFIX):
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=root))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def is_of_dead_run(name: str, prefix: str) -> bool:
    """True if a name, which has a run's process id behind a prefix, is of one that has ended."""
    owner = name.removeprefix(prefix).split("-")[0]
    return name.startswith(prefix) and owner.isdigit() and not Path(f"/proc/{owner}").exists()


def new(name: str) -> Path:
    """A new folder for the cluster `name`."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base()))
