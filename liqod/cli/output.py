"""Output of commands: values as JSON or YAML, one value of them (``--get a.b.c``), and tables."""

import os
import re
import shutil
import sys
import textwrap
from typing import Any

import msgspec
import yaml

from liqod.cli import terminal
from liqod.errors import ConfigError
from liqod.model.text import printable

MINIMAL = 24
"""Columns that the last column of a table has in any case."""
_INDEX = re.compile(r"-?[0-9]{1,9}")


def pick(value: Any, path: str) -> Any:
    """The value at a path of names and numbers, of structs, dicts and lists.

    Raises:
        KeyError: there is nothing there; the text names what there is.
    """
    found = msgspec.to_builtins(value)
    for part in path.split("."):
        match found:
            case dict() if part in found:
                found = found[part]
            case list() | tuple() if _INDEX.fullmatch(part) and (
                -len(found) <= int(part) < len(found)
            ):
                found = found[int(part)]
            case dict():
                raise KeyError(f"there is no {part} in {path}: {', '.join(map(str, found))}")
            case list() | tuple():
                raise KeyError(f"there is no {part} in {path}: it has {len(found)} entries")
            case _:
                raise KeyError(f"there is no {part} in {path}: it ends before")
    return found


def show(value: Any, output: str, path: str = "") -> bool:
    """Print as ``-o`` and ``--get`` say; False where neither says anything.

    A text is printed as it is, so that a script needs no quotes removed; anything else as JSON.

    Raises:
        ConfigError: there is nothing at that path.
    """
    if path:
        try:
            found = pick(value, path)
        except KeyError as error:
            raise ConfigError(str(error.args[0])) from None
        if isinstance(found, str):
            terminal.print_value(found)
        else:
            terminal.print_json(msgspec.json.encode(found).decode())
        return True
    if output != "text":
        emit(value, output)
        return True
    return False


def emit(value: Any, output: str) -> None:
    """Print a value as JSON or YAML; structs are turned into JSON values first."""
    plain = msgspec.to_builtins(value)
    if output == "json":
        terminal.print_json(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
    else:
        terminal.print_text(yaml.safe_dump(plain, sort_keys=False), lines=True)


def table(rows: list[list[str]], header: list[str], *, width: int = 0) -> str:
    """Columns as wide as their widest cell, two spaces between, like ``kubectl get``.

    Args:
        rows: of as many cells as the header has.
        header: names of the columns.
        width: columns of the terminal, within which the last column is wrapped; 0 is unlimited.
    """
    lines = [header, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    before = sum(widths[:-1]) + 2 * len(widths[:-1])
    room = max(width - before, MINIMAL) if width else max(widths[-1], 1)
    out = []
    for line in lines:
        start = "".join(cell.ljust(size + 2) for cell, size in zip(line[:-1], widths, strict=False))
        first, *more = textwrap.wrap(line[-1], room, break_on_hyphens=False) or [""]
        out += [start + first, *(" " * before + text for text in more)]
    return "\n".join(line.rstrip() for line in out)


def width() -> int:
    """Columns of the terminal (or as ``COLUMNS`` says); 0 where the output goes elsewhere."""
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
