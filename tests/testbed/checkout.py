"""A checkout of liqod as a reader of its pages has one, in which `make` is typed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from deploy.wheels import LEFTOVERS
from tests.testbed.pages import ROOT

AUTHOR = ("-c", "user.name=reader", "-c", "user.email=reader@example.org")
STAMPS = (".liqod", ".liqod-dev")
"""Files by which `make` knows that an environment is made."""


def copy(folder: Path) -> None:
    """Copies this checkout into a folder that is not there yet, without what tools left.

    Args:
        folder: the copy.
    """
    kept = shutil.ignore_patterns(*LEFTOVERS)
    shutil.copytree(ROOT, folder, ignore=kept)
    shutil.copy2(ROOT / ".gitignore", folder)


def committed(folder: Path) -> None:
    """Copies this checkout, with a commit of its own and the environment of this run.

    Args:
        folder: the copy, which is not there yet.
    """
    copy(folder)
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "All"]):
        subprocess.run(["git", "-C", str(folder), *AUTHOR, *words], check=True)
    environment = folder / ".venv"
    environment.mkdir()
    for each in Path(sys.prefix).iterdir():
        if each.name not in STAMPS:
            (environment / each.name).symlink_to(each)
    for name in STAMPS:
        (environment / name).touch()
