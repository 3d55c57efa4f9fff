"""Programs of Debian's that tests need: found, or installed where that is possible."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.testbed import programs
from tests.testbed.errors import Unavailable

APT_DEADLINE = 600.0
VIEWERS = {"tmux": "tmux", "chromium": "chromium"}
"""Programs that show the terminal program to people, and their packages."""
READERS = {"zsh": "zsh", "fish": "fish", "man": "man-db"}
"""Programs that read what an installation brings for them, and their packages."""
PACKAGERS = {
    "pipx": "pipx",
    "skopeo": "skopeo",
    "podman": "podman",
    "docker-registry": "docker-registry",
}
"""Programs that install and push what is made, and their packages."""


def provide(packages: Mapping[str, str]) -> None:
    """Gets what this machine lacks.

    Args:
        packages: Debian's package by the command or file that shows that it is there.

    Raises:
        Unavailable: what is missing and cannot be installed here.
    """
    needed = missing(packages)
    if not needed:
        return
    with programs.alone("packages.lock", "what tests need of Debian's"):
        needed = missing(packages)
        if needed:
            _install(needed)
    left = missing(packages)
    if left:
        raise Unavailable(f"the tests need {', '.join(left)}")


def missing(packages: Mapping[str, str]) -> list[str]:
    """The packages whose command or file is not there."""
    return sorted({package for probe, package in packages.items() if not _is_there(probe)})


def _is_there(probe: str) -> bool:
    return Path(probe).exists() if probe.startswith("/") else shutil.which(probe) is not None


def _install(packages: list[str]) -> None:
    wanted = ", ".join(packages)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Unavailable(f"the tests need {wanted}; as root on Debian they install it themselves")
    programs.say(f"installing {wanted}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
    ):
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=APT_DEADLINE,
            check=False,
            env=environment,
        )
        if answer.returncode != 0:
            lines = answer.stderr.strip().splitlines() or [f"it ended with {answer.returncode}"]
            raise Unavailable(f"{' '.join(command)}: {lines[-1]}")
