"""Completions for the shell: commands, options, and from the kubeconfig's cluster peers, namespaces
and slices.

A person who presses Tab waits for it: it has a second, and where anything is wrong it offers
nothing and says nothing.
"""

import contextlib
import logging
import os
import shlex
import sys
from collections.abc import Awaitable, Callable
from io import StringIO
from pathlib import Path
from typing import Any, Final

import typer.completion

WITHIN = 1.0
"""Seconds."""
MOST = 500
VARIABLE: Final = "_LIQOD_COMPLETE"
"""The variable by which a shell's script asks for completions."""
_SHELLS: Final[Any] = typer.completion
"""Typer's part for shells; it exports none of it by name."""
FILES, NO_FILES = ":0", ":4"
"""The directives of kubectl's protocol: complete files, or none."""


def script(shell: str) -> str:
    """The script that has a shell complete liqod's command lines."""
    return str(_SHELLS.get_completion_script(prog_name="liqod", complete_var=VARIABLE, shell=shell))


def prepare() -> None:
    """Have typer answer a shell that asks for completions, where one does."""
    if VARIABLE in os.environ:
        _SHELLS.completion_init()


def kubectl() -> None:
    """Entry point of ``kubectl_complete-liqod``: print the completions that kubectl asks for.

    The words behind ``kubectl liqod`` are its arguments; the last one is still being typed.
    """
    from liqod.cli import app, terminal

    *words, last = sys.argv[1:] or [""]
    line = f"{shlex.join(['liqod', *words])} {shlex.quote(last) if last else ''}"
    # Of what typer can print, fish's has a completion with its help on each line, as kubectl's has.
    os.environ[VARIABLE] = "complete_fish"
    os.environ["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    os.environ["_TYPER_COMPLETE_ARGS"] = line
    said = StringIO()
    with contextlib.redirect_stdout(said):
        app.main([])
    found = [each for each in said.getvalue().splitlines() if each]
    for line in [*found, NO_FILES if found else FILES]:
        terminal.print_columns(*line.split("\t"))


def peers(ctx: typer.Context, incomplete: str) -> list[str]:
    """The peers' cluster ids that begin so."""
    return _names(ctx, incomplete, "FOREIGN_CLUSTERS")


def tenants(ctx: typer.Context, incomplete: str) -> list[str]:
    """The consumers' cluster ids that begin so."""
    return _names(ctx, incomplete, "TENANTS")


def slices(ctx: typer.Context, incomplete: str) -> list[str]:
    """The resource slices that begin so."""
    return _names(ctx, incomplete, "RESOURCE_SLICES")


def offloaded(ctx: typer.Context, incomplete: str) -> list[str]:
    """The offloaded namespaces that begin so."""
    return _names(ctx, incomplete, "NAMESPACE_OFFLOADINGS", "namespace")


def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    """The namespaces that begin so and may leave this cluster."""
    from liqod.apimachinery import labels
    from liqod.model.crossing import exclusions

    found = _names(ctx, incomplete, "")
    own = labels.LIQO_NAMESPACE
    return [name for name in found if not exclusions.namespace_stays(name, {}, own)]


def _names(ctx: typer.Context, incomplete: str, kind: str, field: str = "name") -> list[str]:
    try:
        logging.disable(logging.CRITICAL)
        found = _within(lambda: _listed(ctx, kind, field))
    except BaseException:  # a shell shows it in the middle of the line that is being typed
        return []
    return sorted({each for each in found if each.startswith(incomplete)})[:MOST]


def _within(look: Callable[[], Awaitable[list[str]]]) -> list[str]:
    import trio

    async def main() -> list[str]:
        with trio.move_on_after(WITHIN):
            return await look()
        return []

    return trio.run(main)


async def _listed(ctx: typer.Context, kind: str, field: str) -> list[str]:
    from liqod import resources
    from liqod.apimachinery.kinds import NAMESPACES
    from liqod.apimachinery.meta import Partial
    from liqod.cli.clusters import connect

    given = ctx.params.get("kubeconfig")
    async with await connect(
        Path(given) if given else None, str(ctx.params.get("context") or "")
    ) as client:
        wanted: Any = getattr(resources, kind) if kind else NAMESPACES
        found = await client.list(wanted, decode=Partial)
        return [str(getattr(each.metadata, field)) for each in found]
