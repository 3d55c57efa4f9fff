"""``uninstall``: take everything of liqod's out of a cluster."""

from typing import Annotated

import typer

from liqod.cli.frame import Frame, command
from liqod.cli.options import LiqoNamespace, Yes
from liqod.install import removal
from liqod.kube.kinds import NAMESPACES
from liqod.kube.meta import Partial
from liqod.kube.selection import Selection
from liqod.model import labels


@command(timeout=180.0)
async def uninstall(
    frame: Frame,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove the custom resource definitions too.")
    ] = False,
    yes: Yes = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Take everything of liqod's out of a cluster.

    Refused while it is peered. Stop the daemon first, unless it runs in the cluster. Custom
    resource definitions stay without --purge.

    \b
    Examples:
      liqod uninstall --purge
    """
    async with frame.client() as client:
        await removal.refuse_while_peered(client)
        mine = f"{labels.TENANT_NAMESPACE}={labels.TRUE}"
        found = await client.list(NAMESPACES, Selection(labels=mine), decode=Partial)
    doomed = [liqo_namespace, *(each.metadata.name for each in found)]
    namespaces = f"namespace{'s' if len(doomed) > 1 else ''} {', '.join(doomed)}"
    crds = ", and the custom resource definitions with every object of theirs" if purge else ""
    frame.confirm(
        f"removes the {namespaces}, and liqod's roles, policies and webhook{crds}", yes=yes
    )
    async with frame.client() as client:
        await removal.uninstall(client, liqo_namespace, purge=purge, progress=frame.progress)
    frame.say("nothing of liqod's is left" if purge else "liqod is uninstalled")
