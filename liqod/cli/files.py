"""Files that commands write: for their owner only, whole or not at all."""

import os
import secrets
from pathlib import Path

from liqod.errors import ConfigError, Misuse


def check_place(path: Path | None) -> None:
    """Refuse a file that cannot be written before anything is changed. Raises Misuse."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise Misuse(f"cannot write {path}: name a file in a folder that exists")


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner reads, whole or not at all.

    An existing file of that name, be it readable by all or a link elsewhere, is replaced, not
    written into; nor is a draft that somebody else has laid ready.

    Raises:
        ConfigError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(draft, flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(data)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
