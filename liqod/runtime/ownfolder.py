"""A folder for the files of programs that a user alone may write."""

import os
import stat
from pathlib import Path

from liqod.errors import NetworkError


def own_folder(folder: Path) -> None:
    """Have a folder that is this user's alone.

    Raises:
        NetworkError: it cannot be made, somebody else's lies there, or others may write there.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise NetworkError(f"{folder}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, os.geteuid()):
        raise NetworkError(f"{folder} is not this user's own folder")
    if found.st_mode & 0o022:
        raise NetworkError(f"others may write in {folder}: chmod 700 {folder}")
