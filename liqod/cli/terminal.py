"""The output of all commands: everything that they print goes through here.

Names, messages and reasons come from peers. Nothing of them may move a cursor, turn the writing or
begin a line that looks like ours (:mod:`liqod.model.text`). A test holds every module of the
commands to it.
"""

import sys

from liqod.model.text import printable, printable_json
from liqod.model.view.redact import without_invitations


def print_text(text: str, *, lines: bool = False) -> None:
    """Print a line, or with ``lines`` several, whose line feeds are ours."""
    sys.stdout.write(printable(text, lines=lines).rstrip("\n") + "\n")


def print_columns(*columns: str) -> None:
    """Print a line for a program that finds its columns by tabs."""
    sys.stdout.write("\t".join(map(printable, columns)) + "\n")


def note(text: str, *, lines: bool = False) -> None:
    """The same on stderr, for what is no result; an invitation that was mistyped stays secret."""
    shown = printable(without_invitations(text), lines=lines)
    sys.stderr.write(shown.rstrip("\n") + "\n")


def print_json(text: str) -> None:
    """Print JSON: the same value, with nothing in it that a terminal would obey."""
    sys.stdout.write(printable_json(text) + "\n")


def print_value(text: str) -> None:
    """Print one value: as it is for a program, and fit to be seen for a person."""
    sys.stdout.write((printable(text, lines=True) if sys.stdout.isatty() else text) + "\n")


def pass_on(data: bytes) -> None:
    """Hand on bytes that were asked for as they are: what a container has written."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def flush() -> None:
    """Show what was said now, not when more has come together."""
    sys.stdout.flush()


def redraw(text: str, *, live: bool, last: bool = False) -> None:
    """Show how far something is; ``live`` in the place of what was shown before.

    Args:
        text: one line.
        live: it is a terminal that can do that.
        last: nothing is to be shown in its place.
    """
    start = "\r\033[K" if live else ""
    end = "\n" if last or not live else ""
    sys.stderr.write(f"{start}{printable(text)}{end}")
    sys.stderr.flush()
