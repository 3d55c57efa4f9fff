"""Sysctls of the network: files below ``/proc/sys``, which shows each thread its own namespace."""

from pathlib import Path

from liqod.errors import NetworkError

FOLDER = Path("/proc/sys")


def differing(want: dict[str, str]) -> dict[str, str]:
    """Those that have another value now; one that is not there has none."""
    return {path: value for path, value in want.items() if _value(path) != " ".join(value.split())}


def exists(path: str) -> bool:
    """Whether the kernel has it: those of an interface are there as long as that is."""
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
