"""Both distributions as `make wheels` builds them, and an environment that they are installed into.

They are built twice, the second time of a copy that another person could have: without git, and
with other rights on its files. The environment gets liqod first, and then its simulator. All of it
is in a folder of the cache that is named after what it is made of; what was not used for a day is
taken away.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from deploy import wheels
from tests.testbed import programs
from tests.testbed.errors import Unavailable

TITLE = "an installation of both distributions"
UNUSED = 24 * 3600.0
"""Seconds after which a folder that no run used goes."""
DEADLINE = 600.0


class Installation(NamedTuple):
    """The folder of an installation."""

    folder: Path

    @property
    def built(self) -> Path:
        """The folder of the distributions."""
        return self.folder / "built"

    @property
    def again(self) -> Path:
        """The folder of the same distributions, built of a copy."""
        return self.folder / "again"

    @property
    def environment(self) -> Path:
        """The environment that both are installed into."""
        return self.folder / "environment"

    @property
    def programs(self) -> Path:
        """The folder of the environment's programs."""
        return self.environment / "bin"

    @property
    def by_liqod_alone(self) -> set[str]:
        """The distributions that were in the environment before the simulator."""
        return set(json.loads((self.folder / "alone.json").read_text()))


def find() -> Installation:
    """The installation of what is in this checkout, made if it is not there."""
    found = Installation(programs.cache() / f"wheels-{_digest()}")
    # The last that is made: without it the folder is of a run that was cut short.
    done = found.folder / "done"
    programs.builds.make(done, TITLE, partial(_make, found, done))
    os.utime(found.folder)
    return found


@functools.cache
def _digest() -> str:
    """The hash of all that the distributions are made of, and of what they are made by; when it was
    first asked for, so that what is written meanwhile sends no test astray."""
    made = hashlib.sha256(f"{sys.version} {metadata.version('setuptools')}".encode())
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        _copy(copy)
        for file in sorted(each for each in copy.rglob("*") if each.is_file()):
            made.update(str(file.relative_to(copy)).encode() + file.read_bytes())
    return made.hexdigest()[:16]


def take_away_unused(pattern: str) -> None:
    """Remove the folders of the cache that no run has used for long.

    Args:
        pattern: of their names.
    """
    for folder in programs.cache().glob(pattern):
        if folder.is_dir() and time.time() - folder.stat().st_mtime > UNUSED:
            shutil.rmtree(folder, ignore_errors=True)


def _make(wanted: Installation, done: Path) -> None:
    programs.say(f"building {TITLE} (a minute)")
    take_away_unused("wheels-*")
    shutil.rmtree(wanted.folder, ignore_errors=True)
    wanted.folder.mkdir(parents=True)
    _run([sys.executable, "-m", "deploy.wheels", str(wanted.built)], wheels.ROOT)
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        copy.mkdir()
        _copy(copy)
        (source,) = wanted.built.glob("liqod-*.tar.gz")
        epoch = {wheels.EPOCH: str(wheels.date_of(source))}
        _run([sys.executable, "-m", "deploy.wheels", str(wanted.again)], copy, **epoch)
    _run([sys.executable, "-m", "venv", str(wanted.environment)], wanted.folder)
    _install(wanted, "liqod-*.whl")
    listed = _run([*_pip(wanted), "list", "--format=json"], wanted.folder)
    (wanted.folder / "alone.json").write_text(
        json.dumps([each["name"] for each in json.loads(listed)])
    )
    _install(wanted, "liqod_simulator-*.whl")
    done.touch()


def _copy(folder: Path) -> None:
    """Copy what is needed to build, readable by its owner alone."""
    for name in (*wheels.SHIPPED, "deploy"):
        source, target = wheels.ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns(*wheels.LEFTOVERS))
        else:
            shutil.copyfile(source, target)
    for each in folder.rglob("*"):
        each.chmod(0o700 if each.is_dir() else 0o600)


def _pip(wanted: Installation) -> Sequence[str]:
    # Isolated: what PYTHONPATH names would count as installed.
    return (str(wanted.programs / "python"), "-I", "-m", "pip", "--disable-pip-version-check")


def _install(wanted: Installation, pattern: str) -> None:
    (file,) = wanted.built.glob(pattern)
    _run([*_pip(wanted), "install", "--quiet", str(file)], wanted.folder)


def _run(command: Sequence[str], folder: Path, **variables: str) -> str:
    """Runs a program in a folder; its output. Raises `Unavailable` where it fails."""
    answer = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    if answer.returncode != 0:
        said = (answer.stderr + answer.stdout).strip().splitlines() or ["nothing was said"]
        raise Unavailable(f"{TITLE}: {' '.join(command[:4])} failed: {said[-1]}")
    return answer.stdout
