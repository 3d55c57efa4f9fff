"""``unoffload namespace``: bring a namespace back."""

from contextlib import suppress

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cli import presence, terminal
from liqod.cli.frame import Frame, command
from liqod.cli.options import LiqoNamespace, OffloadedNamespace, Yes
from liqod.consumer.namespaces.heldvolumes import lying, would_be_lost
from liqod.errors import ConfigError, Forbidden
from liqod.procedures.offload import NAME, bring_back, remote_namespaces
from liqod.resources import NAMESPACE_OFFLOADINGS


@command(timeout=300.0)
async def namespace(
    frame: Frame,
    name: OffloadedNamespace,
    yes: Yes = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Bring a namespace back: its remote namespaces on the peers are deleted with all that is in
    them.

    Pods of Deployments and the like are moved first, as a drain would: in steps, within their
    disruption budgets, and for no longer than the daemon's consumer.drain_timeout.

    While volumes lie at a peer, which would be lost, it refuses and names their claims.

    \b
    Examples:
      liqod unoffload namespace shop
    """
    async with frame.client() as client:
        if await client.find(NAMESPACES, name, decode=Partial) is None:
            raise ConfigError(f"there is no namespace {name}")
        found = await client.find(NAMESPACE_OFFLOADINGS, NAME, name)
        held: dict[str, list[str]] = {}
        with suppress(Forbidden):  # who may not look is refused by the daemon, later
            held = {} if found is None else await lying(client, name)
    for peer, names in held.items():
        raise ConfigError(would_be_lost(names, f"at {peer}"))
    if found is None:
        terminal.note(f"{name} is not offloaded")
        return
    frame.confirm(f"deletes {remote_namespaces(found)}, with every pod and object in it", yes=yes)
    async with (
        frame.client() as client,
        presence.daemon(client, liqo_namespace, frame.progress, frame.timings),
    ):
        silent = await bring_back(client, found, frame.progress)
    frame.progress.done()
    remote = found.get("status", {}).get("remoteNamespaceName", name)
    for peer in silent:
        terminal.note(f"{peer} does not answer: it removes {remote} when it does")
