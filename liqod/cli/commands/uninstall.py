"""``uninstall``: take everything of liqod's out of a cluster."""

from typing import Annotated

import typer

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cli import terminal
from liqod.cli.frame import Frame, command
from liqod.cli.options import LiqoNamespace, Yes
from liqod.cluster.ownid import cluster_id
from liqod.errors import ConfigError, NotFound
from liqod.install import clustersetdns, removal
from liqod.kube.client import Client
from liqod.kube.selection import Selection


@command(timeout=180.0)
async def uninstall(
    frame: Frame,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove the custom resource definitions too.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Give up what dead peers still have of ours.")
    ] = False,
    yes: Yes = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Take everything of liqod's out of a cluster.

    Refused while it is peered, or where Helm has installed it. Stop the daemon first, unless it
    runs in the cluster. Custom resource definitions stay without --purge. Garbage that a killed
    daemon left of its peers' networks on this machine goes too, where that may be done.

    \b
    Examples:
      liqod uninstall --purge
    """
    async with frame.client() as client:
        await removal.refuse(client, liqo_namespace, forget=forget)
        mine = f"{labels.TENANT_NAMESPACE}={labels.TRUE}"
        found = await client.list(NAMESPACES, Selection(labels=mine), decode=Partial)
        own_id = await _own_id(client, liqo_namespace)
        dns = ", and the names of the set from CoreDNS" * await clustersetdns.is_given(client)
    doomed = [liqo_namespace, *(each.metadata.name for each in found)]
    namespaces = f"namespace{'s' if len(doomed) > 1 else ''} {', '.join(doomed)}"
    crds = ", and the custom resource definitions with every object of theirs" if purge else ""
    frame.confirm(
        f"removes the {namespaces}, and liqod's roles, policies and webhook{dns}{crds}", yes=yes
    )
    async with frame.client() as client:
        silent = await removal.uninstall(
            client, liqo_namespace, purge=purge, forget=forget, progress=frame.progress
        )
    # Not with the other commands: they would all read what the kernel speaks.
    from liqod.network.cleaning import sweep_all

    for line in await sweep_all(own_id):
        frame.progress(line)
    for name in silent:
        terminal.note(f"the node {name} does not answer: run `liqod node --clean` there")
    frame.print_text("nothing of liqod's is left" if purge else "liqod is uninstalled")


async def _own_id(client: Client, liqo_namespace: str) -> str:
    """This cluster's id; empty where the installation is not whole."""
    try:
        return await cluster_id(client, liqo_namespace)
    except (ConfigError, NotFound):
        return ""
