"""Has the nodes take the overlay down before their daemons and their objects go.

A node does it by itself when the InternalFabric is gone, and says so; nobody else can.
"""

from typing import Final

from liqod.errors import ConfigError, NotFound
from liqod.kube.client import Client
from liqod.model.objects import conditions
from liqod.resources.fabric import (
    APPLIED,
    INTERNAL_FABRICS,
    INTERNAL_NODES,
    InternalFabric,
    InternalNode,
)
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress

WITHIN: Final = 10.0
"""Seconds that nodes may take; one that is switched off does it when it is back."""


async def overlay_down(client: Client, progress: Progress) -> list[str]:
    """Take the InternalFabric away, and wait for the nodes.

    Args:
        client: an administrator's.
        progress: told what is waited for.

    Returns:
        The names of nodes that did not say that they have done it.
    """
    try:
        fabrics = await client.list(INTERNAL_FABRICS, decode=InternalFabric)
        nodes = await _applied(client)
    except NotFound:
        return []
    gateways = {each.spec.gateway.node for each in fabrics if each.spec is not None}
    waiting = nodes - gateways
    for each in fabrics:
        where = (INTERNAL_FABRICS, each.name, each.namespace)
        await client.delete(*where, uid=each.metadata.uid)

    async def done() -> bool:
        nonlocal waiting
        waiting &= await _applied(client)
        if waiting:
            progress(f"waiting for {', '.join(sorted(waiting))} to take the overlay down")
        return not waiting

    try:
        await poll_until(done, longest_pause=0.5, within=WITHIN, failing=lambda: ConfigError(""))
    except ConfigError:
        return sorted(waiting)
    return []


async def _applied(client: Client) -> set[str]:
    """The nodes that say that they have applied it."""
    every = await client.list(INTERNAL_NODES, decode=InternalNode)
    return {each.name for each in every if conditions.holds(each.status.conditions, APPLIED)}
