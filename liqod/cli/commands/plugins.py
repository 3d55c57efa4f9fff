"""``plugins``: list the plugins, whether each works, and why one is left out; begin one."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from liqod.cli import output, plugintemplate, terminal
from liqod.cli.commands.check import configured
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.model.view.daemonfacts import PluginFacts


class Shown(msgspec.Struct, frozen=True):
    """A plugin, or one thing that it provides.

    Attributes:
        name, kind, version, package: as of :class:`liqod.model.view.daemonfacts.PluginFacts`.
        state: as there; ``failing`` for one that is active and does not work.
        why: one sentence where it is not active, or does not work.
    """

    name: str
    kind: str
    version: str
    package: str
    state: str
    why: str


@command(within=30.0, daemon=True, outputs=OUTPUTS)
async def plugins(
    frame: Frame,
    config: Annotated[
        Path | None, typer.Option(help="A configuration: what a daemon would load by it here.")
    ] = None,
) -> None:
    """List the plugins, with the state of each and its reason.

    Where this cluster's daemon runs on this machine, it is asked. Elsewhere, and with --config, it
    is what `liqod run` would load here.
    """
    from liqod.cli import inspectorclient  # brings the websocket, which other commands do without

    found: list[Shown] | None = None
    if config is None:
        try:
            where = await inspectorclient.place(
                frame.socket, frame.cluster_id, frame.kubeconfig, frame.context
            )
            async with inspectorclient.connect(where) as viewer:
                _, state = await viewer.snapshot()
                found = [_shown(each) for each in state.plugins.values()]
        except inspectorclient.NoDaemon as error:
            if frame.socket is not None or frame.cluster_id:
                raise
            terminal.note(f"{error.what}: this is what one would load here")
    if found is None:
        found = _here(config)
    if frame.show(found):
        return
    rows = [[p.name, p.kind, p.version, p.package, p.state, p.why or "-"] for p in found]
    header = ["NAME", "KIND", "VERSION", "PACKAGE", "STATE", "WHY"]
    frame.print_text(output.table(rows, header), lines=True)


@command(cluster=False)
async def new(
    frame: Frame,
    kind: Annotated[
        str,
        typer.Argument(help="Its kind: reflector, discovery, check or network.", metavar="KIND"),
    ],
    name: Annotated[str, typer.Argument(help="Its name, such as lamps.", metavar="NAME")],
    output: Annotated[
        Path | None, typer.Option(help="The folder to make.", show_default="liqod-NAME")
    ] = None,
) -> None:
    """Write a package with a plugin that works, and with the tests of its contract.

    \b
    Examples:
      liqod plugins new reflector lamps
      liqod plugins new check kubernetes-version --output examples/plugins/kubernetes-version
    """
    files = plugintemplate.package(kind, name)
    folder = output or Path(f"liqod-{name}")
    plugintemplate.write(folder, files)
    for each in sorted(files):
        frame.print_text(f"{folder / each}")


def _shown(plugin: PluginFacts) -> Shown:
    """A plugin as a daemon reports it."""
    failing = plugin.state == "active" and plugin.failure
    state, why = ("failing", plugin.failure) if failing else (plugin.state, plugin.why)
    return Shown(plugin.name, plugin.kind, plugin.version, plugin.package, state, why)


def _here(config: Path | None) -> list[Shown]:
    """The plugins that this program would load."""
    from liqod.plugins import loader

    tables = configured(config).plugins
    loaded = loader.load(blocked=tables.blocked, settings=tables.settings).records
    return [Shown(p.name, p.kind, p.version, p.package, p.state, p.why) for p in loaded]
