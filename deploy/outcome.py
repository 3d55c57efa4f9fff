"""The outcome of a build: files, which are printed with their SHA-256, or the reason for none."""

import hashlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path


class Unbuildable(Exception):
    """The reason why nothing can be built here, and what to do."""


class Undownloadable(Unbuildable):
    """The reason why wheels or packages cannot be had, and what to do."""


def show(what: str, make: Callable[[], Iterable[Path]]) -> int:
    """Build, and print each file with its SHA-256; the exit status.

    Args:
        what: a word for what is built, before the reason where it is not.
        make: builds it; may raise Unbuildable.
    """
    try:
        made = list(make())
    except Unbuildable as reason:
        sys.stderr.write(f"{what}: {reason}\n")
        return 1
    for file in made:
        print(hashlib.sha256(file.read_bytes()).hexdigest(), file, sep="  ")
    return 0


def write(lock: Path, made: Callable[[], str]) -> int:
    """Write a lock file; the exit status.

    Args:
        lock: the file.
        made: its text; may raise Unbuildable.
    """
    try:
        lock.write_text(made())
    except Unbuildable as reason:
        sys.stderr.write(f"{lock.name}: {reason}\n")
        return 1
    return 0
