"""``run``: the daemon, which is a program of its own; named here for the help and the shell."""

from typing import Annotated

import typer


def run(
    config: Annotated[str, typer.Option()] = "",
    kubeconfig: Annotated[str, typer.Option()] = "",
    api_server_address_override: Annotated[str, typer.Option()] = "",
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False,
) -> None:
    """Run the daemon (`liqod run --help` has its options)."""
    # What is named here is for the shell, which completes it; the program itself reads its own.
