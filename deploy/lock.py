"""``deploy/requirements.lock``: the wheels that liqod runs with, each by its hash.

`python -m deploy.lock` writes it anew, of what pyproject.toml asks for, by pip. `wheels` has those
of one Python and machine, and none that the file does not name.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from deploy import outcome
from deploy.outcome import Undownloadable

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = Path(__file__).with_name("requirements.lock")
PYTHONS: Final = ("3.11", "3.13")
"""Those of Debian 12 and 13."""
MACHINES: Final = ("x86_64", "aarch64")
GLIBC: Final = 36
"""The minor version of the C library of Debian 12, the oldest that wheels have to run with."""
HEADER: Final = """\
# Written by `python -m deploy.lock`: the wheels for CPython {pythons} on Linux ({machines}).
"""
FAILED: Final = """\
{reason}
Some wheels could not be had. They come from PyPI, or from where pip's `index-url` leads: see \
whether this machine reaches it, and try again."""
DIFFERS: Final = """\
{reason}
That is not what deploy/requirements.lock names, so it is not used. Try again after \
`pip cache purge`; where it differs again, whoever serves it serves something else."""


class Target(NamedTuple):
    """A Python on a machine.

    Attributes:
        python: its minor version, such as ``3.11``.
        machine: as ``uname -m`` names it.
    """

    python: str
    machine: str

    def options(self) -> list[str]:
        """The options by which pip takes wheels for this Python and no other."""
        minors = (f"manylinux_2_{minor}" for minor in range(GLIBC, 4, -1))
        named = [f"--platform={each}_{self.machine}" for each in (*minors, "manylinux2014")]
        version = [f"--python-version={self.python}", "--implementation=cp"]
        return ["--only-binary=:all:", *version, *named]


TARGETS: Final = tuple(Target(python, machine) for python in PYTHONS for machine in MACHINES)


def cache() -> Path:
    """The folder that keeps what was downloaded."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "liqod"


def wheels(target: Target, kept: Path | None = None) -> list[Path]:
    """The wheels of a target in the order of their names; they are downloaded once.

    Args:
        target: the Python and the machine.
        kept: the folder that keeps them.

    Raises:
        Undownloadable: one could not be had, or is not what the lock file names.
    """
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    folder = (kept or cache()) / f"locked-{target.python}-{target.machine}-{digest}"
    if not folder.is_dir():
        _download(target, folder)
    found, named = sorted(folder.glob("*.whl")), hashes()
    for each in found:
        if hashlib.sha256(each.read_bytes()).hexdigest() not in named:
            reason = f"{each} was changed since it was downloaded"
            raise Undownloadable(f"{reason}: remove {folder}, and try again")
    return found


def hashes(text: str | None = None) -> set[str]:
    """The SHA-256 of each wheel that the lock file names."""
    return set(re.findall(r"--hash=sha256:(\w{64})", LOCK.read_text() if text is None else text))


def _download(target: Target, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        wanted = ["--require-hashes", "--no-deps", f"--requirement={LOCK}", f"--dest={made}"]
        _pip("download", *wanted, *target.options())
        try:
            made.rename(folder)
        except OSError:
            # Another one was faster.
            if not folder.is_dir():
                raise


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    reason = done.stderr.strip() or f"pip ended with {done.returncode}"
    raise Undownloadable((DIFFERS if "Got  " in reason else FAILED).format(reason=reason))


def write(targets: Iterable[Target] = TARGETS) -> str:
    """The text of a lock file: the newest wheels that pyproject.toml allows, for all targets.

    Raises:
        Undownloadable: pip finds none, or takes other versions for one target than for another.
    """
    found: dict[str, tuple[str, set[str]]] = {}
    for target in targets:
        for each in _resolve(target):
            name = re.sub(r"[-_.]+", "-", each["metadata"]["name"]).lower()
            version = each["metadata"]["version"]
            known, named = found.setdefault(name, (version, set()))
            if known != version:
                others = f"{name} {known} for one target and {version} for {target}"
                raise Undownloadable(f"{others}: hold it in pyproject.toml")
            named.add(each["download_info"]["archive_info"]["hashes"]["sha256"])
    lines = [HEADER.format(pythons=" and ".join(PYTHONS), machines=", ".join(MACHINES))]
    for name, (version, named) in sorted(found.items()):
        lines.append(f"{name}=={version}")
        lines[-1] += "".join(f" \\\n    --hash=sha256:{each}" for each in sorted(named)) + "\n"
    return "".join(lines)


def _resolve(target: Target) -> list[dict[str, Any]]:
    """What pip would install for a target."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with tempfile.TemporaryDirectory(prefix="liqod-lock-") as name:
        report = Path(name) / "report.json"
        asked = ["--dry-run", "--ignore-installed", f"--target={name}", f"--report={report}"]
        _pip("install", *asked, *target.options(), *project["dependencies"])
        installed: list[dict[str, Any]] = json.loads(report.read_text())["install"]
        return installed


if __name__ == "__main__":
    sys.exit(outcome.write(LOCK, write))
