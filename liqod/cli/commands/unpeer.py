"""``unpeer``: end a peering, from either side."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from liqod.procedures import onehalf, otherhalf, unpeering
from liqod.procedures.otherhalf import OtherHalf
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
    remote_liqo_namespace: Annotated[
        str, typer.Option(help="The same at the peer.")
    ] = labels.LIQO_NAMESPACE,
) -> None:
    """End a peering, from either side.

    It names what it deletes, and what the peer keeps until it is ended there, and asks first. A
    peer that does not answer holds nothing up.

    With --remote-kubeconfig the peer's side is ended, too. An administrator's ends all of it, its
    tenant namespace with the key that it has accepted as well. A peering user may delete what its
    own cluster made there; what is left is named.

    \b
    Examples:
      liqod unpeer milan
      liqod unpeer milan --remote-kubeconfig milan.kubeconfig
      liqod unpeer milan --yes --forget
    """
    where = (remote_kubeconfig, liqo_namespace, remote_liqo_namespace)
    async with (
        frame.client() as local,
        _other_half(local, peer_id, *where, own=own_file) as other,
    ):
        doomed = await onehalf.plan(local, peer_id, liqo_namespace)
        there = other.doomed if other is not None else ()
        await _require_peer(local, peer_id, [*doomed, *there])
        kept = (await unpeering.half(local, peer_id, liqo_namespace)).summary(peer_id)
        if not doomed and not there:
            ended = f"the peering with {peer_id} has been ended; the daemon forgets it soon"
            frame.print_text(ended)
            return
        deletes = [f"deletes {', '.join(doomed)}"] if doomed else []
        deletes += [f"deletes {', '.join(there)} at {peer_id}"] if there else []
        deletes += [kept] if kept and other is None else []
        frame.confirm("; ".join(deletes), yes=yes)
        async with presence.daemon(local, liqo_namespace, frame.progress, frame.timings):
            if forget:
                await unpeering.forget(local, peer_id, progress=frame.progress)
            end = await unpeering.unpeer(
                local, peer_id, other=other, liqo=liqo_namespace, progress=frame.progress
            )
    frame.print_text(end.summary(peer_id))


@asynccontextmanager
async def _other_half(
    local: Client,
    peer_id: str,
    kubeconfig: Path | None,
    liqo_namespace: str,
    remote_liqo_namespace: str,
    *,
    own: bool,
) -> AsyncIterator[OtherHalf | None]:
    """The peer's half, while its client is open; None without a kubeconfig of it."""
    if kubeconfig is None:
        yield None
        return
    async with connect_there(kubeconfig, own=own) as remote:
        yield await otherhalf.find(
            *(local, remote, peer_id), liqo=liqo_namespace, remote_liqo=remote_liqo_namespace
        )


async def _require_peer(client: Client, peer_id: str, doomed: list[str]) -> None:
    """Raises ConfigError where there is no such peer, nor anything left of one."""
    peers = await client.list(FOREIGN_CLUSTERS, decode=ForeignCluster)
    names = sorted(each.spec.cluster_id for each in peers)
    if peer_id not in names and not doomed:
        there = f"the peers are {', '.join(names)}" if names else "there are none"
        raise ConfigError(f"there is no peer {peer_id} here; {there}")
