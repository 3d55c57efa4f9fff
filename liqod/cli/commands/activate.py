"""``activate tenant``: accept a drained consumer again."""

from liqod.cli.frame import Frame, command
from liqod.cli.options import TenantName
from liqod.procedures.tenantstate import set_state


@command(timeout=30.0)
async def tenant(frame: Frame, name: TenantName) -> None:
    """Accept a drained consumer again."""
    async with frame.client() as client:
        await set_state(client, name, "Active", frame.progress)
    frame.print_text(f"{name} is active")
