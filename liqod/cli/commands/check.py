"""``check``: read the configuration as the daemon would."""

import os
from pathlib import Path
from typing import Annotated

import typer

from liqod.cli import hostcheck, terminal
from liqod.cli.frame import Frame, command
from liqod.config import ENVIRONMENT, Config, load
from liqod.errors import ConfigError, Misuse
from liqod.model.view.figures import counted
from liqod.network import machinesocketdial
from liqod.network.dataplane.kernel import capabilities
from liqod.plugins import loader


@command(cluster=False)
async def check(
    frame: Frame,
    config: Annotated[Path | None, typer.Option(help="The daemon's configuration.")] = None,
) -> None:
    """Read the configuration as `liqod run` would.

    It reads the file of --config or LIQOD_CONFIG and the variables LIQOD_…, and says which. It also
    says which ports are taken, and what its user lacks for joining the networks of peers.
    """
    read = configured(config)
    tables = read.plugins
    try:
        loaded = loader.load(blocked=tables.blocked, settings=tables.settings)
    except ConfigError as error:
        raise Misuse(str(error)) from error
    wrong = [p for p in loaded.records if p.state == "left out"]
    for plugin in wrong:
        terminal.note(f"plugin {plugin.name}: {plugin.why}")
    if wrong:
        frame.die(f"{counted(len(wrong), 'plugin')} would be left out")
    for problem in hostcheck.problems(read):
        terminal.note(f"on this host it would not start: {problem}")
    lacks = await machinesocketdial.problem(Path(read.network.machine))
    if lacks and read.network.enabled:
        terminal.note(
            f"run by this user it would join no networks: {lacks} (docs/how-to/systemd.md)"
        )
        if (missing := capabilities.look()) is not None:
            terminal.note(f"run by this user `liqod node` could join none: {missing}")
        if problem := hostcheck.machine_problem(read):
            terminal.note(f"on this host `liqod node` could be no candidate: {problem}")
    variables = sorted(name for name in os.environ if name in ENVIRONMENT)
    named = f" with {', '.join(variables)}" if variables else ""
    file = str(config or os.environ.get("LIQOD_CONFIG", ""))
    if file:
        frame.print_text(f"the configuration {file}{named} is good")
    else:
        frame.print_text(f"no file was read, since none is named: the defaults{named} are good")


def configured(path: Path | None) -> Config:
    """The configuration as the daemon would read it. Raises Misuse where it makes no sense."""
    try:
        return load(str(path) if path else None, os.environ)
    except ConfigError as error:
        raise Misuse(str(error)) from error
