"""``version``: print the version."""

from liqod import __version__
from liqod.cli import terminal


def version() -> None:
    """Print the version."""
    terminal.say(f"liqod {__version__}")
