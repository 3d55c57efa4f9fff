"""The tree of commands. ``liqod run``, ``liqod node``, ``liqod top`` and ``liqod demo`` are here by
name only: they start without this package.

A verb's module is imported when the command line leads to it: all of them together take longer to
import than most verbs take to do their work.
"""

import importlib
import inspect
import os
import signal
import sys
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from liqod import __version__
from liqod.cli import completion, terminal
from liqod.cli.timings import ORDINARY, TIMINGS, CommandTimings

GROUPS = {
    "network": "The networks that are joined with peers.",
    "test": "Try what is there.",
    "generate": "Make credentials for others.",
    "rotate": "Change what others know this cluster by.",
    "delete": "Take credentials back.",
    "invite": "Let others borrow from this cluster by one line.",
    "plugins": "What is plugged in, and templates of plugins.",
    "inbox": "Who asks to borrow from this cluster.",
    "offload": "Spread a namespace over peers.",
    "unoffload": "Bring a namespace back.",
    "cordon": "Accept no new work.",
    "uncordon": "Accept work again.",
    "drain": "Send a peer's work away.",
    "activate": "Accept a drained peer again.",
}
COMMANDS = (
    "run",
    "node",
    "install",
    "uninstall",
    "migrate",
    "peer",
    "unpeer",
    "revoke",
    "rotate key",
    "invite",
    "invite list",
    "invite revoke",
    "inbox",
    "inbox accept",
    "inbox deny",
    "top",
    "status",
    "doctor",
    "network status",
    "events",
    "tasks",
    "history",
    "logs",
    "diff",
    "plan",
    "explain",
    "discover",
    "plugins",
    "plugins new",
    "check",
    "completion",
    "demo",
    "version",
    "test network",
    "generate peering-user",
    "generate node",
    "delete peering-user",
    "offload namespace",
    "unoffload namespace",
    "cordon tenant",
    "cordon resourceslice",
    "uncordon tenant",
    "uncordon resourceslice",
    "drain tenant",
    "activate tenant",
)
"""Every command, in the order of the help. The verb is the name of a module of
:mod:`liqod.cli.commands`, and the last word that of its function."""

MISTAKE: Final[Any] = typer.BadParameter.__base__
"""A command line that is none; typer has no public name for what all of these are."""


def _print_version(asked: bool) -> None:
    if asked:
        terminal.print_text(f"liqod {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Nothing of its own."""


def tree(words: Sequence[str] = ()) -> typer.Typer:
    """The commands that a command line may mean: those of its first word, or else all."""
    made = typer.Typer(
        name="liqod",
        help="Join Kubernetes clusters peer to peer: lend and borrow capacity as ordinary nodes.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    # A callback keeps one command alone from becoming the program itself.
    made.callback()(_options)
    groups: dict[str, typer.Typer] = {}
    known = {command.split()[0] for command in COMMANDS}
    first = words[0] if words and words[0] in known else ""
    for command in COMMANDS:
        verb, _, what = command.partition(" ")
        if first not in ("", verb):
            continue
        if not what and verb in GROUPS:
            groups[verb] = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
            groups[verb].callback()(_alone(_function(command)))
            continue
        if not what:
            made.command(verb)(_function(command))
            continue
        if verb not in groups:
            groups[verb] = typer.Typer(
                help=GROUPS[verb], no_args_is_help=True, rich_markup_mode=None
            )
            groups[verb].callback()(lambda: None)
        groups[verb].command(what)(_function(command))
    for verb, group in groups.items():
        made.add_typer(group, name=verb)
    return made


def _alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command that has others below it: it is meant where none of these is."""

    def bare(**given: Any) -> None:
        above = given.pop("above")
        if above.invoked_subcommand is None:
            function(**given)

    signature = inspect.signature(function)
    first = inspect.Parameter("above", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [first, *signature.parameters.values()]
    # Typer reads the options from these.
    bare.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    bare.__annotations__ = {each.name: each.annotation for each in parameters}
    bare.__doc__ = function.__doc__
    return bare


def _function(command: str) -> Callable[..., Any]:
    """The function of ``commands/<verb>.py`` that is called like the command's last word."""
    words = command.split()
    module = importlib.import_module(f"liqod.cli.commands.{words[0]}")
    found: Callable[..., Any] = getattr(module, words[-1].replace("-", "_"))
    return found


def _program() -> str:
    """The program as it was called: by its own name, or as a plugin of kubectl."""
    return "kubectl liqod" if Path(sys.argv[0]).name == "kubectl-liqod" else "liqod"


def _below(mistake: Any) -> str:
    """The commands of a group, where one was named that is none of them."""
    above = mistake.ctx
    if above is None or above.parent is None or "No such command" not in mistake.format_message():
        return ""
    commands = getattr(above.command, "commands", {})
    return "".join(f"There is: {above.command_path} {name}\n" for name in commands)


def main(arguments: Sequence[str] | None = None, timings: CommandTimings = ORDINARY) -> int:
    """Run one command line; the exit status.

    A reader that goes away, as in ``liqod status | head -1``, ends it without a word.

    Args:
        arguments: the words of the command line; None for the process's own.
        timings: how long the command waits for daemons.
    """
    chosen = TIMINGS.set(timings)
    try:
        return _main(arguments)
    finally:
        TIMINGS.reset(chosen)


def _main(arguments: Sequence[str] | None) -> int:
    status: object = 0
    try:
        try:
            words = list(sys.argv[1:] if arguments is None else arguments)
            completion.prepare()
            status = tree(words)(words, prog_name=_program(), standalone_mode=False)
        except SystemExit as end:
            status = end.code
        except typer.Abort:
            terminal.note("liqod: interrupted")
            status = 128 + signal.SIGINT
        except MISTAKE as mistake:
            said = StringIO()
            mistake.show(said)
            said.write(_below(mistake))
            terminal.note(said.getvalue(), lines=True)
            status = mistake.exit_code
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more when it ends, and must not fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return status if isinstance(status, int) else int(status is not None)
