"""``node``: the small daemon of a node that is not the gateway; named here for help and shell."""

from typing import Annotated

import typer


def node(
    config: Annotated[str, typer.Option()] = "",
    name: Annotated[str, typer.Option()] = "",
    health_port: Annotated[int, typer.Option()] = 0,
    clean: Annotated[bool, typer.Option("--clean")] = False,
    clean_all: Annotated[bool, typer.Option("--clean-all")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False,
) -> None:
    """Run the daemon of another node (`liqod node --help`)."""
    # What is named here is for the shell, which completes it; the program itself reads its own.
