"""``--get a.b.c``: one value out of what a command shows, for shell scripts."""

import re
from typing import Annotated, Any

import msgspec
import typer

from liqod.cli import common, terminal

Get = Annotated[str, typer.Option("--get", help="Print one value only, such as a.b.0.c.")]

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
    """
    if path:
        try:
            found = pick(value, path)
        except KeyError as error:
            common.die(str(error.args[0]))
        if isinstance(found, str):
            terminal.say_value(found)
        else:
            terminal.say_json(msgspec.json.encode(found).decode())
        return True
    if output != "text":
        common.emit(value, output)
        return True
    return False
