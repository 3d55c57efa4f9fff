"""The tree of commands. ``liqod run`` and ``liqod top`` are here by name only: they start
without this package.

A verb's module is imported when the command line leads to it: all of them together take longer to
import than most verbs take to do their work.
"""

import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from liqod import __version__
from liqod.cli import completing, terminal

GROUPS = {
    "generate": "Make credentials for others.",
    "delete": "Take credentials back.",
    "offload": "Spread a namespace over peers.",
    "unoffload": "Bring a namespace back.",
    "cordon": "Accept no new work.",
    "uncordon": "Accept work again.",
    "drain": "Send a peer's work away.",
    "activate": "Accept a drained peer again.",
}
COMMANDS = {
    "run": "app.run",
    "install": "installing.install",
    "uninstall": "installing.uninstall",
    "migrate": "migrating.migrate",
    "peer": "peering.peer",
    "unpeer": "peering.unpeer",
    "revoke": "revoking.revoke",
    "top": "app.top",
    "status": "looking.status",
    "doctor": "doctoring.doctor",
    "events": "watching.events",
    "tasks": "watching.tasks",
    "history": "watching.history",
    "logs": "looking.logs",
    "plugins": "looking.plugins",
    "check": "looking.check",
    "version": "looking.version",
    "generate peering-user": "peering.generate_peering_user",
    "delete peering-user": "peering.delete_peering_user",
    "offload namespace": "offloading.offload",
    "unoffload namespace": "offloading.unoffload",
    "cordon tenant": "tenants.cordon_tenant",
    "cordon resourceslice": "tenants.cordon_slice",
    "uncordon tenant": "tenants.uncordon_tenant",
    "uncordon resourceslice": "tenants.uncordon_slice",
    "drain tenant": "tenants.drain_tenant",
    "activate tenant": "tenants.activate_tenant",
}
"""Every command and the function of this package that does it, in the order of the help."""


def run(
    config: Annotated[str, typer.Option()] = "",
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False,
) -> None:
    """Run the daemon (`liqod run --help` has its options)."""
    # What is named here is for the shell, which completes it; the program itself reads its own.


def top(
    socket: Annotated[str, typer.Option()] = "",
    url: Annotated[str, typer.Option()] = "",
    token_file: Annotated[str, typer.Option()] = "",
    ca_file: Annotated[str, typer.Option()] = "",
    read_only: Annotated[bool, typer.Option("--read-only")] = False,
    screen: Annotated[str, typer.Option()] = "",
    peer: Annotated[str, typer.Option(autocompletion=completing.peers)] = "",
    replay: Annotated[str, typer.Option()] = "",
    speed: Annotated[float, typer.Option()] = 1.0,
    no_color: Annotated[bool, typer.Option("--no-color")] = False,
    web: Annotated[bool, typer.Option("--web")] = False,
    web_write: Annotated[bool, typer.Option("--web-write")] = False,
    port: Annotated[int, typer.Option()] = 8390,
) -> None:
    """Look at running daemons, live.

    `liqod top --help` has its options.
    """


def _tell_version(asked: bool) -> None:
    if asked:
        terminal.say(f"liqod {__version__}")
        raise typer.Exit


def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Print the version and exit."
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
        add_completion=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    # A callback keeps one command alone from becoming the program itself.
    made.callback()(_program)
    groups: dict[str, typer.Typer] = {}
    known = {command.split()[0] for command in COMMANDS}
    first = words[0] if words and words[0] in known else ""
    for command, place in COMMANDS.items():
        verb, _, what = command.partition(" ")
        if first not in ("", verb):
            continue
        if not what:
            made.command(verb)(_function(place))
            continue
        if verb not in groups:
            groups[verb] = typer.Typer(
                help=GROUPS[verb], no_args_is_help=True, rich_markup_mode=None
            )
            groups[verb].callback()(lambda: None)
        groups[verb].command(what)(_function(place))
    for verb, group in groups.items():
        made.add_typer(group, name=verb)
    return made


def _function(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(f"liqod.cli.{module}"), name)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit status.

    A reader that goes away, as in ``liqod status | head -1``, ends it without a word.
    """
    status: object = 0
    try:
        try:
            words = list(sys.argv[1:] if arguments is None else arguments)
            tree(words)(words, prog_name="liqod")
        except SystemExit as end:
            status = end.code
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more when it ends, and must not fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return status if isinstance(status, int) else int(status is not None)
