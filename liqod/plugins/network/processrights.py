"""This process's rights on its machine: capabilities and devices."""

import os
import stat
from pathlib import Path

NET_ADMIN = 12
"""Bit of the capability to change interfaces."""
SET_USER = (5, 6, 7)
"""Bits of those to start a process as another user, and to end it: ``KILL``, ``SETGID``,
``SETUID``."""


def may(capability: int) -> bool:
    """True if this process has a capability, by its bit. Raises OSError."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> capability & 1)
    return False


def is_device(path: Path) -> bool:
    """True if it is a character device that this process may open."""
    try:
        return stat.S_ISCHR(path.stat().st_mode) and os.access(path, os.R_OK | os.W_OK)
    except OSError:
        return False
