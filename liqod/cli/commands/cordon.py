"""``cordon tenant`` and ``cordon resourceslice``: keep what a consumer runs, accept nothing new."""

from liqod.cli.frame import Frame, command
from liqod.cli.options import RemoteId, SliceName, TenantName
from liqod.procedures.tenantstate import cordon_slice, set_state


@command(timeout=30.0)
async def tenant(frame: Frame, name: TenantName) -> None:
    """Keep what a consumer runs here, and accept nothing new from it.

    \b
    Examples:
      liqod cordon tenant rome
    """
    async with frame.client() as client:
        await set_state(client, name, "Cordoned", frame.progress)
    frame.print_text(f"{name} is cordoned: what runs stays, nothing new is accepted")


@command(timeout=30.0)
async def resourceslice(frame: Frame, name: SliceName, remote_cluster_id: RemoteId) -> None:
    """Accept no new pods on one slice.

    \b
    Examples:
      liqod cordon resourceslice milan --remote-cluster-id rome
    """
    async with frame.client() as client:
        await cordon_slice(client, name, remote_cluster_id, True, frame.progress)
    frame.print_text(f"{name} of {remote_cluster_id} is cordoned")
