"""``uncordon tenant`` and ``uncordon resourceslice``: accept work again."""

from liqod.cli.frame import Frame, command
from liqod.cli.options import RemoteId, SliceName, TenantName
from liqod.procedures.tenantstate import cordon_slice, set_state


@command(timeout=30.0)
async def tenant(frame: Frame, name: TenantName) -> None:
    """Accept new work from a cordoned consumer again."""
    async with frame.client() as client:
        await set_state(client, name, "Active", frame.progress)
    frame.print_text(f"{name} is active")


@command(timeout=30.0)
async def resourceslice(frame: Frame, name: SliceName, remote_cluster_id: RemoteId) -> None:
    """Accept new pods on a cordoned slice again."""
    async with frame.client() as client:
        await cordon_slice(client, name, remote_cluster_id, False, frame.progress)
    frame.print_text(f"{name} of {remote_cluster_id} accepts pods again")
