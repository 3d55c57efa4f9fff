"""Environment that a run of the tests inherits from where it was started."""

from __future__ import annotations

import os
from contextlib import suppress

TERMINAL = ("COLUMNS", "LINES")


def forget_terminal() -> None:
    """Have commands print as they do where no terminal is, unless a test says how wide one is.

    Workers of xdist would wrap what they print, and programs that tests start: readline, which
    debuggers load, sets the size of the terminal for all that a process starts, and 80 columns
    where there is none. It does so behind ``os.environ``, once it is loaded.
    """
    with suppress(ImportError):
        import readline  # noqa: F401
    for name in TERMINAL:
        os.environ.pop(name, None)
        os.unsetenv(name)
