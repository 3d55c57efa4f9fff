"""``demo``: the demo, a program of the simulator's; named here for the help and the shell."""

from typing import Annotated

import typer


def demo(once: Annotated[bool, typer.Option("--once")] = False) -> None:
    """See liqod at work: three embedded clusters.

    It needs the distribution liqod-simulator beside liqod. `liqod demo --help` has its options.
    """
    # What is named here is for the shell, which completes it; the program itself reads its own.
