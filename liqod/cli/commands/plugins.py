"""``plugins``: what each plugin is, and why one is left out."""

from pathlib import Path
from typing import Annotated

import typer

from liqod.cli import output
from liqod.cli.commands.check import configured
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.plugins import loader


@command(cluster=False, outputs=OUTPUTS)
async def plugins(
    frame: Frame,
    config: Annotated[Path | None, typer.Option(help="The daemon's configuration.")] = None,
) -> None:
    """What each plugin is, and why one is left out."""
    tables = configured(config).plugins
    loaded = loader.load(blocked=tables.blocked, settings=tables.settings).records
    if frame.show(loaded):
        return
    rows = [[p.name, p.kind, p.version, p.package, p.state, p.why or "-"] for p in loaded]
    header = ["NAME", "KIND", "VERSION", "PACKAGE", "STATE", "WHY"]
    frame.say(output.table(rows, header), lines=True)
