"""``unpeer``: end a peering, from either side."""

from pathlib import Path
from typing import Annotated

import typer

from liqod.apimachinery import labels
from liqod.cli import presence
from liqod.cli.clusters import connect_there
from liqod.cli.frame import Frame, command
from liqod.cli.options import LiqoNamespace, OwnFile, PeerId, Yes
from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.procedures import unpeering
from liqod.resources import FOREIGN_CLUSTERS, ForeignCluster


@command(timeout=180.0)
async def unpeer(
    frame: Frame,
    peer_id: PeerId,
    remote_kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Kubeconfig of the peer, to clear its side at once, too."),
    ] = None,
    own_file: OwnFile = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Give up what a dead peer still has of ours.")
    ] = False,
    yes: Yes = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """End a peering, from either side.

    It names what it deletes, and what the peer keeps until it is ended there, and asks first. A
    peer that does not answer holds nothing up. With --remote-kubeconfig the peer's side is cleared,
    too, as far as that kubeconfig has the rights.

    \b
    Examples:
      liqod unpeer milan
      liqod unpeer milan --yes --forget
    """
    async with frame.client() as client:
        doomed = await unpeering.plan(client, peer_id, liqo_namespace)
        await _require_peer(client, peer_id, doomed)
        kept = (await unpeering.half(client, peer_id, liqo_namespace)).summary(peer_id)
    if not doomed:
        frame.print_text(f"the peering with {peer_id} has been ended; the daemon forgets it soon")
        return
    told = f"; {kept}" if kept and remote_kubeconfig is None else ""
    frame.confirm(f"deletes {', '.join(doomed)}{told}", yes=yes)
    async with (
        frame.client() as local,
        presence.daemon(local, liqo_namespace, frame.progress, frame.timings),
    ):
        progress = frame.progress
        if forget:
            await unpeering.forget(local, peer_id, progress=progress)
        if remote_kubeconfig is None:
            end = await unpeering.unpeer(local, peer_id, liqo=liqo_namespace, progress=progress)
        else:
            async with connect_there(remote_kubeconfig, own=own_file) as remote:
                end = await unpeering.unpeer(
                    local, peer_id, remote=remote, liqo=liqo_namespace, progress=progress
                )
    frame.print_text(end.summary(peer_id))


async def _require_peer(client: Client, peer_id: str, doomed: list[str]) -> None:
    """Raises ConfigError where there is no such peer, nor anything left of one."""
    peers = await client.list(FOREIGN_CLUSTERS, decode=ForeignCluster)
    names = sorted(each.spec.cluster_id for each in peers)
    if peer_id not in names and not doomed:
        there = f"the peers are {', '.join(names)}" if names else "there are none"
        raise ConfigError(f"there is no peer {peer_id} here; {there}")
