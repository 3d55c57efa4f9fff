"""Ends one cluster's half of a peering: its objects there, in the order in which they may go.

Either cluster has a half. A client of the one or of the other ends it, with an administrator's
rights.
"""

import datetime

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, ROLE_BINDINGS, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import find_tenant_namespace, users_of
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.procedures import agreements, networkleaving
from liqod.resources import (
    IDENTITIES,
    NAMESPACE_MAPS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
)
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress

KINDS = (VIRTUAL_NODES, RESOURCE_SLICES, NAMESPACE_MAPS, IDENTITIES, TENANTS)
"""Kinds of objects of a peering in a tenant namespace, but those of joined networks."""


async def plan(local: Client, peer: str, liqo: str = labels.LIQO_NAMESPACE) -> list[str]:
    """The objects of a peer's that unpeering deletes, one line each; empty if there is none."""
    agreed = await agreements.of_peer(local, liqo, peer)
    lines = [each.line for each in agreed]
    namespace = await find_tenant_namespace(local, peer)
    if namespace is None:
        return lines
    for kind in KINDS:
        found = await local.list(kind, Selection(namespace), decode=Partial)
        lines += [f"{kind.name} {each.metadata.name}" for each in found]
    lines += await networkleaving.parts(local, namespace)
    owned = await local.list(
        NAMESPACES, Selection(labels=f"{labels.REMOTE_CLUSTER_ID}={peer}"), decode=Partial
    )
    for each in owned:
        meta = each.metadata
        if meta.name == namespace:
            continue
        original = meta.annotations.get(labels.ORIGINAL_NAME, "?")
        lines.append(f"Namespace {meta.name} with all its pods (namespace {original} of {peer})")
    return [*lines, f"Namespace {namespace}"]


async def withdraw(
    local: Client, peer: str, namespace: str, liqo: str, progress: Progress, tombstone: str = ""
) -> None:
    """End a half: mark its tenant namespace, which the daemon deletes once it is empty.

    Args:
        local: a client of its cluster.
        peer: the other cluster's id.
        namespace: that one's tenant namespace here.
        liqo: liqod's namespace.
        progress: called with each awaited step.
        tombstone: the mark; by default the time.
    """
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    mark = {"metadata": {"annotations": {labels.TOMBSTONE: tombstone or now}}}
    await local.patch(NAMESPACES, namespace, mark)
    await local.delete_selected(TENANTS, Selection(namespace))
    await stop_borrowing(local, peer, namespace, liqo, progress)
    # Of no use without the tenant namespace, and revoked for good by this.
    await local.delete_selected(ROLE_BINDINGS, Selection(labels=users_of(peer)))


async def stop_borrowing(
    local: Client, peer: str, namespace: str, liqo: str, progress: Progress, *, joined: bool = False
) -> None:
    """Delete the objects of this cluster's borrowing, in the order that lets pods leave first.

    Args:
        local: a client of it.
        peer: the peer's id.
        namespace: the peer's tenant namespace.
        liqo: liqod's namespace.
        progress: called with each awaited step.
        joined: whether the networks stay joined.
    """
    await give_back(local, namespace)
    progress("drain and remove the virtual nodes")
    await poll_until(lambda: is_none_left(local, VIRTUAL_NODES, namespace))
    if not joined and await networkleaving.parts(local, namespace):
        progress("take the network away")
        await networkleaving.remove_network(local, peer, namespace, liqo)
    await local.delete_selected(IDENTITIES, Selection(namespace))


async def give_back(client: Client, namespace: str) -> None:
    """Delete the borrowed resources of a tenant namespace; virtual nodes are drained first."""
    sources = f"{labels.REPLICATION}={labels.TRUE}"
    await client.delete_selected(RESOURCE_SLICES, Selection(namespace, labels=sources))
    await client.delete_selected(VIRTUAL_NODES, Selection(namespace))


async def is_none_left(client: Client, kind: Kind, namespace: str) -> bool:
    """True if a namespace has no object of a kind."""
    return not await client.list(kind, Selection(namespace), decode=Partial)
