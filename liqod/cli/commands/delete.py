"""``delete peering-user``: revoke the kubeconfig by which a consumer may peer."""

from typing import Annotated

import typer

from liqod.cli.frame import Frame, command
from liqod.cli.options import Yes
from liqod.procedures import peeringusers


@command(timeout=60.0)
async def peering_user(
    frame: Frame,
    consumer_cluster_id: Annotated[str, typer.Option(help="The consumer that was let in.")],
    yes: Yes = False,
) -> None:
    """Revoke the peering user of a consumer; a peering that it made stays.

    \b
    Examples:
      liqod delete peering-user --consumer-cluster-id rome
    """
    frame.confirm(f"revokes the kubeconfig by which {consumer_cluster_id} may peer", yes=yes)
    async with frame.client() as client:
        frame.progress(f"revoke the peering user of {consumer_cluster_id}")
        gone = await peeringusers.delete(client, consumer_cluster_id)
    text = "revoked" if gone else "there was no peering user"
    frame.print_text(f"{consumer_cluster_id}: {text}")
