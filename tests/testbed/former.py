"""The version before this one, taken from git, for tests of both beside each other.

No version is released yet, so it is a commit. It runs with the packages of this version.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from functools import partial
from pathlib import Path

from tests.testbed import programs
from tests.testbed.errors import TestbedError, Unavailable

ROOT = Path(__file__).parents[2]
COMMIT = "e17775bb"
TITLE = f"liqod as of {COMMIT}"
PROGRAM = ("-P", "-m", "liqod")
"""What follows Python: without the folder in which it is called, which is this version's."""


def find() -> Path:
    """The folder of its packages; raises `Unavailable` where git does not have it."""
    folder = programs.cache() / f"former-{COMMIT}"
    programs.builds.make(folder, TITLE, partial(_extract, folder))
    return folder


def _extract(folder: Path) -> None:
    scratch = folder.with_name(f".{folder.name}")
    scratch.mkdir(parents=True, exist_ok=True)
    packed = ["git", "-C", str(ROOT), "archive", COMMIT, "liqod", "tui"]
    done = subprocess.run(packed, capture_output=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"git has no {COMMIT}: {done.stderr.decode().strip()}")
    subprocess.run(["tar", "--extract", "--directory", str(scratch)], input=done.stdout, check=True)
    scratch.rename(folder)


def python(folder: Path, environment: Path) -> Path:
    """Makes an environment of which that version is, and nothing of this one; its interpreter.

    Programs that it begins are of that version, too, also where they are begun without what is in
    variables.

    Args:
        folder: of its packages.
        environment: the environment's folder.
    """
    venv.create(environment, symlinks=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(environment)})
    found = f"{folder}\n{sysconfig.get_path('purelib')}\n"
    Path(packages, "former.pth").write_text(found)
    return environment / "bin" / "python"


def command(folder: Path, *words: str) -> str:
    """The output of a command of that version; raises `TestbedError` where it fails."""
    done = subprocess.run(
        [sys.executable, *PROGRAM, *words],
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise TestbedError(f"liqod {' '.join(words)}: {done.stderr}")
    return done.stdout


def environment(folder: Path) -> dict[str, str]:
    """Variables by which Python finds that version."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(folder)}
