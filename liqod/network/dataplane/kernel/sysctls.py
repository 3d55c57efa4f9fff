"""Sysctls of the network: files below ``/proc/sys``, which shows each thread its own namespace."""

import os
from pathlib import Path

from liqod.errors import NetworkError
from liqod.network.dataplane.kernel import mounts

FOLDER = Path("/proc/sys")
NETWORK = FOLDER / "net"


def is_locked() -> bool:
    """True if the network's sysctls can only be read, as in a container."""
    return bool(os.statvfs(NETWORK).f_flag & os.ST_RDONLY)


def unlock() -> None:
    """Have those of the network, and no others, be writable in this process's mount namespace.

    Where they are, nothing is done.

    Raises:
        NetworkError: it may not be done.
    """
    if not is_locked():
        return
    try:
        mounts.mount(os.fspath(NETWORK), NETWORK, mounts.BIND)
        mounts.mount("", NETWORK, mounts.BIND | mounts.REMOUNT)
    except OSError as error:
        raise NetworkError(f"{NETWORK} stays read-only: {error}") from error


def differing(want: dict[str, str]) -> dict[str, str]:
    """Those that have another value now; one that is not there has none."""
    return {path: value for path, value in want.items() if _value(path) != " ".join(value.split())}


def exists(path: str) -> bool:
    """True if the kernel has the sysctl: those of an interface exist as long as that does."""
    return (FOLDER / path).exists()


def write(path: str, value: str) -> None:
    """Sets one.

    Raises:
        NetworkError: there is none of that name, or it may not be written.
    """
    try:
        (FOLDER / path).write_text(value)
    except OSError as error:
        raise NetworkError(f"cannot set {path} to {value}: {error.strerror}") from error


def _value(path: str) -> str | None:
    try:
        return " ".join((FOLDER / path).read_text().split())
    except OSError:
        return None
