"""Calls of the C library that Python does not have: mounts, and namespaces."""

import os
from pathlib import Path
from typing import Any, Final

REMOUNT: Final = 0x20
BIND: Final = 0x1000
RECURSIVE: Final = 0x4000
SHARED: Final = 0x100000
DETACH: Final = 2
"""Of ``umount2``: gone from here now, and altogether when nobody uses it any more."""


def mount(source: str, target: Path, flags: int) -> None:
    """Mount something, or change what is mounted. Raises OSError."""
    call("mount", source.encode(), os.fsencode(target), b"none", flags, None)


def call(name: str, *arguments: Any) -> None:
    """Calls a function of the C library.

    Raises:
        OSError: it failed.
    """
    # 1 MB, for clusters with a network only.
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc[name](*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
