"""``top``: the live view, a program of its own; named here for the help and the shell."""

from typing import Annotated

import typer

from liqod.cli import completion


def top(
    socket: Annotated[str, typer.Option()] = "",
    url: Annotated[str, typer.Option()] = "",
    kubeconfig: Annotated[str, typer.Option()] = "",
    context: Annotated[str, typer.Option()] = "",
    token_file: Annotated[str, typer.Option()] = "",
    ca_file: Annotated[str, typer.Option()] = "",
    read_only: Annotated[bool, typer.Option("--read-only")] = False,
    screen: Annotated[str, typer.Option()] = "",
    peer: Annotated[str, typer.Option(autocompletion=completion.peers)] = "",
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
