"""``drain tenant``: send a consumer's work away, but stay peered."""

from liqod.apimachinery import labels
from liqod.cli import presence
from liqod.cli.frame import Frame, command
from liqod.cli.options import LiqoNamespace, TenantName, Yes
from liqod.procedures.tenantstate import drain, find_tenant, lent_to


@command(timeout=300.0)
async def tenant(
    frame: Frame,
    name: TenantName,
    yes: Yes = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Send a consumer's work away and withdraw its rights, but stay peered.

    A consumer's daemon moves its pods first, in steps and within their disruption budgets, for no
    longer than provider.drain_timeout. `liqod revoke` does not wait.

    \b
    Examples:
      liqod drain tenant rome --yes
    """
    async with frame.client() as client:
        found = await find_tenant(client, name)
        lent = ", ".join(await lent_to(client, name, found["metadata"]["namespace"]))
    frame.confirm(f"deletes {lent or 'nothing, since nothing is lent'}", yes=yes)
    async with (
        frame.client() as client,
        presence.daemon(client, liqo_namespace, frame.progress, frame.timings),
    ):
        await drain(client, name, frame.progress)
    frame.print_text(f"{name} is drained; `liqod activate tenant {name}` takes it back")
