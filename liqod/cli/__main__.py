"""``python -m liqod.cli``: write ``docs/reference/commands.md``, every command with its options."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import typer.main

from liqod.cli.app import COMMANDS, tree

FILE: Final = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
INTRODUCTION: Final = """\
# Commands

Made by `python -m liqod.cli` from the program itself. A command that fails ends with status 1, one
that cannot be understood with 2; each explains itself with `--help`.
"""
ELSEWHERE: Final = {
    "run": "`--config FILE` names its [configuration](configuration.md).",
    "node": "[Every node but the gateway](../background/network.md#several-nodes) has one; "
    "`liqod node --help` names its options.",
    "top": "[Its own page](top.md) has its options, views and keys.",
    "demo": "[A page of its own](../start/demo.md) says what it shows; with "
    "`--once` it ends by itself.",
}
"""Commands that start without this package, and where to read on."""


def render() -> str:
    """The whole page."""
    whole = typer.main.get_command(tree())
    lines = [INTRODUCTION]
    for words in COMMANDS:
        command: Any = whole
        for word in words.split():
            command = command.commands[word]
        lines += _section(words, command)
    return "\n".join(lines)


def _section(words: str, command: Any) -> list[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    names = "".join(f" {_shown(each)}" for each in arguments)
    about, _, examples = (command.help or "").partition("\b")
    lines = [f"## `liqod {words}{names}`", "", *_paragraphs(about)]
    if words in ELSEWHERE:
        return [*lines, ELSEWHERE[words], ""]
    shown = [each for each in options if each.name != "help" and not each.hidden]
    if shown:
        lines += ["| option | meaning | default |", "| --- | --- | --- |"]
        lines += [_row(each, command) for each in shown]
        lines.append("")
    steps = [line.strip() for line in examples.splitlines() if line.strip().startswith("liqod ")]
    return [*lines, *(f"    {step}" for step in steps), *([""] if steps else [])]


def _shown(argument: Any) -> str:
    """An argument as it is typed; in brackets where it may be left out."""
    name = str(argument.metavar or argument.name.upper())
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _paragraphs(text: str) -> Iterable[str]:
    for paragraph in text.strip().split("\n\n"):
        yield " ".join(paragraph.split())
        yield ""


def _row(option: Any, command: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    shown = option.show_default if isinstance(option.show_default, str) else _default(option)
    return f"| {names} | {(option.help or '').replace('|', '/')} | {shown} |"


def _default(option: Any) -> str:
    value = option.default
    if option.required:
        return "has to be given"
    if value in (None, "", (), []) or isinstance(value, bool):
        return ""
    return f"`{value.value if hasattr(value, 'value') else value}`"


if __name__ == "__main__":
    FILE.write_text(render())
