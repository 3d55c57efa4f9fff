"""Deletes the objects of a joined network, in the order in which they may go.

The daemons remove its state from machines when they see that the objects go.
"""

from typing import Final

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.apimachinery.meta import Partial
from liqod.kube.client import Client
from liqod.kube.deletion import delete_all
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.resources import CONFIGURATIONS
from liqod.resources.networking import GATEWAY_CLIENTS, GATEWAY_SERVERS, PUBLIC_KEYS
from liqod.runtime.polling import poll_until

TAKEN_DOWN_WITHIN: Final = 5.0
"""Seconds that a daemon may take to have nothing of a peer's on its machine any more."""
ORDER: Final = (GATEWAY_CLIENTS, GATEWAY_SERVERS, PUBLIC_KEYS, CONFIGURATIONS)
"""The kinds of objects of a joined network, in the order in which they are deleted."""


async def parts(client: Client, namespace: str) -> list[str]:
    """The objects of a joined network in a tenant namespace, one line for each."""
    lines = []
    for kind in ORDER:
        found = await client.list(kind, Selection(namespace), decode=Partial)
        lines += [f"{kind.name} {each.metadata.name}" for each in found]
    return lines


async def take(client: Client, namespace: str) -> list[str]:
    """Delete the objects of a joined network; returns those deleted, one line for each."""
    lines = []
    for kind in ORDER:
        found = await client.list(kind, Selection(namespace), decode=Partial)
        gone = await delete_all(client, kind, found)
        lines += [f"{kind.name} {namespace}/{each.metadata.name}" for each in gone]
    return lines


async def remove_network(client: Client, peer: str, namespace: str, liqo: str) -> None:
    """Delete the network of a peer on this side, and wait until the daemon has removed it.

    The private key of the tunnel is the last part that is removed from the machine. A daemon that
    does not run blocks nothing: it removes the rest when it starts.

    Args:
        client: an administrator's.
        peer: its id.
        liqo: liqod's own namespace.
    """
    for kind in ORDER:
        await client.delete_selected(kind, Selection(namespace))
    await is_taken_down(client, peer, liqo)


async def is_taken_down(client: Client, peer: str, liqo: str) -> bool:
    """True if no part of a tunnel is on its machine any more; waits some seconds for a daemon.

    Args:
        client, peer, liqo: as of :func:`remove_network`.
    """

    async def gone() -> bool:
        kept = await client.find(SECRETS, ids.gateway_resource(peer), liqo, decode=Partial)
        return kept is None or labels.TUNNEL not in kept.metadata.labels

    with trio.move_on_after(TAKEN_DOWN_WITHIN):
        return await poll_until(gone)
    return False


async def clear(remote: Client, namespace: str) -> None:
    """Delete our objects at a peer, with a peering user's rights: it deletes by name."""
    for kind in ORDER:
        for each in await remote.list(kind, Selection(namespace), decode=Partial):
            await remote.delete(kind, each.metadata.name, namespace)
