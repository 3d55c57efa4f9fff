"""Unpeers on either side, as ``liqod unpeer`` does: lists objects, deletes, waits; or forgets.

The peer's local objects are deleted in the order that lets virtual nodes be drained; the tenant
namespace is marked, and the daemon deletes it when it is empty. A peer that does not answer leaves
a tombstone behind and blocks nothing (rule 2 of the architecture). A peer keeps its own objects of
the peering until an administrator ends it at the peer: they are listed, and deleted by a client
with the rights.
"""

import datetime
from contextlib import suppress
from typing import Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, ROLE_BINDINGS, SECRETS, Kind
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.cluster.ownid import own_cluster_id
from liqod.cluster.tenancy import find_tenant_namespace, users_of
from liqod.errors import ConfigError, Forbidden, LiqodError, NotFound
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.model.objects.conditions import holds
from liqod.model.peering.foreigncluster import API_SERVER, ERROR
from liqod.procedures import agreements, networkleaving
from liqod.resources import (
    FOREIGN_CLUSTERS,
    IDENTITIES,
    INCOMING_PEERINGS,
    NAMESPACE_MAPS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
    ForeignCluster,
    IncomingPeering,
)
from liqod.resources.peering import DENY
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress

PRUNED: Final = "pruned"
"""The tombstone of a tenant namespace that is left because a declaration is gone: it may return."""
PATIENCE = 3.0
"""Seconds for which a peer that seems not to answer is waited for before it is left behind."""


class Half(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a peering that a peer has made, and keeps until it is ended at the peer.

    Attributes:
        here: this cluster's id.
        lends: its Tenant of this cluster, with certificates and rights.
        borrows: its slices, virtual nodes and identity.
        joined: its gateway.
        runs: ``liqod`` where it certainly runs that; empty for Liqo, and where it is unknown.
    """

    here: str = ""
    lends: bool = False
    borrows: bool = False
    joined: bool = False
    runs: str = ""

    def summary(self, peer: str) -> str:
        """The half and the step that ends it, as a clause; empty for none."""
        parts = {
            "its virtual nodes and slices": self.borrows,
            f"its Tenant {self.here}": self.lends,
            "its gateway": self.joined,
        }
        kept = [part for part, is_kept in parts.items() if is_kept]
        if not kept:
            return ""
        end = f"`liqod unpeer {self.here}`"
        if not self.runs:
            end += f" (where it runs Liqo, `liqoctl force unpeer {self.here}`)"
        return f"{peer} keeps {', '.join(kept)} until {end} is run there"


NOTHING_KEPT = Half()


class Departed(msgspec.Struct, frozen=True):
    """The result of an unpeering.

    Attributes:
        complete: nothing is left, in this cluster or (of ours) at the peer.
        pending: our objects at the peer, which does not answer; empty if complete.
        keeps: the objects that the peer keeps of its own half.
    """

    complete: bool
    pending: str = ""
    keeps: Half = NOTHING_KEPT

    def summary(self, peer: str) -> str:
        """The result, for people: with the remaining steps, and their cluster."""
        if not self.complete:
            return (
                f"unpeered from {peer}, which does not answer: what it still has of ours is "
                f"removed when it does; `liqod unpeer {peer} --forget` gives it up"
            )
        return "; ".join(filter(None, (f"unpeered from {peer}", self.keeps.summary(peer))))


async def plan(local: Client, peer: str, liqo: str = labels.LIQO_NAMESPACE) -> list[str]:
    """The local objects that unpeering deletes, one line each; empty if there is no such peer."""
    agreed = await agreements.of_peer(local, liqo, peer)
    lines = [each.line for each in agreed]
    namespace = await find_tenant_namespace(local, peer)
    if namespace is None:
        return lines
    for kind in (VIRTUAL_NODES, RESOURCE_SLICES, NAMESPACE_MAPS, IDENTITIES, TENANTS):
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


async def half(local: Client, peer: str, liqo: str = labels.LIQO_NAMESPACE) -> Half:
    """The objects that the peer has made of the peering, as far as local objects show."""
    namespace = await find_tenant_namespace(local, peer)
    if namespace is None:
        return NOTHING_KEPT
    cluster = await local.find(FOREIGN_CLUSTERS, peer, decode=ForeignCluster)
    told = cluster is not None and labels.PEER_DAEMON in cluster.metadata.annotations
    return Half(
        here=await own_cluster_id(local, liqo),
        lends=not await _none(local, IDENTITIES, namespace),
        borrows=not await _none(local, TENANTS, namespace),
        joined=bool(await networkleaving.parts(local, namespace)),
        runs="liqod" if told else "",
    )


async def unpeer(
    local: Client,
    peer: str,
    *,
    remote: Client | None = None,
    liqo: str = labels.LIQO_NAMESPACE,
    progress: Progress,
    tombstone: str = "",
) -> Departed:
    """End every peering with a peer, in both directions, from this side.

    Args:
        local: an administrator's client of this cluster.
        peer: the peer's id.
        remote: a client of the peer, which then clears its half, too: with a peering user's rights
            its Tenant and its end of the network, with an administrator's also its borrowing.
        liqo: liqod's namespace in this cluster.
        progress: called with each awaited step.
        tombstone: the mark of the tenant namespace; by default the time.
    """
    keeps = await half(local, peer, liqo)
    await agreements.end(local, liqo, peer)
    namespace = await find_tenant_namespace(local, peer)
    if remote is not None and keeps.borrows:
        # While this cluster still serves it: pods of a provider that is gone cannot be moved.
        borrows = not await end_borrowing(remote, await _place_there(local, remote, liqo), progress)
        keeps = msgspec.structs.replace(keeps, borrows=borrows)
    if namespace is not None:
        progress(f"withdraw from {peer}")
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        mark = {"metadata": {"annotations": {labels.TOMBSTONE: tombstone or now}}}
        await local.patch(NAMESPACES, namespace, mark)
        await local.delete_selected(TENANTS, Selection(namespace))
        await _stop_borrowing(local, peer, namespace, liqo, progress)
        # Of no use without the tenant namespace, and revoked for good by this.
        await local.delete_selected(ROLE_BINDINGS, Selection(labels=users_of(peer)))
    if remote is not None:
        progress(f"clear what is ours at {peer}")
        await _clear_there(local, remote, peer, liqo)
        keeps = msgspec.structs.replace(keeps, lends=False, joined=False)
    end = await wait_gone(local, peer, namespace, progress)
    return msgspec.structs.replace(end, keeps=keeps)


async def end_declared(local: Client, peer: str, liqo: str = labels.LIQO_NAMESPACE) -> None:
    """End the borrowing from a peer whose OutgoingPeering was deleted, as the daemon does.

    Where nothing is lent to it and liqod made the tenant namespace, the whole peering ends.

    Args:
        local: a client of this cluster.
        peer: the peer's id.
        liqo: liqod's namespace in this cluster.
    """
    namespace = await find_tenant_namespace(local, peer)
    if namespace is None:
        return
    live = await local.get(NAMESPACES, namespace, decode=Partial)
    lends = await _lends(local, peer, namespace, liqo)
    if not lends and live.metadata.labels.get(labels.MANAGED_BY_LIQOD) == labels.TRUE:
        # One that an administrator has set stays: no declaration takes back a command.
        tombstone = live.metadata.annotations.get(labels.TOMBSTONE, PRUNED)
        await unpeer(local, peer, liqo=liqo, progress=_tell_nobody, tombstone=tombstone)
    else:
        await _stop_borrowing(local, peer, namespace, liqo, _tell_nobody, joined=lends)
    with suppress(NotFound):
        mark = {"metadata": {"annotations": {labels.DECLARED_BY: None}}}
        await local.patch(NAMESPACES, namespace, mark)


async def stay(local: Client, tenant: ObjectMeta) -> None:
    """Take back the mark that :func:`end_declared` has set; a request makes anew what is deleted.

    Args:
        local: a client of this cluster.
        tenant: the peer's tenant namespace.
    """
    if tenant.annotations.get(labels.TOMBSTONE) == PRUNED:
        mark = {"metadata": {"annotations": {labels.TOMBSTONE: None}}}
        await local.patch(NAMESPACES, tenant.name, mark)


async def forget(local: Client, peer: str, *, progress: Progress) -> None:
    """Give up our objects at a peer; deletes the tombstone at once.

    Raises:
        ConfigError: there is no such peer.
    """
    namespace = await find_tenant_namespace(local, peer)
    if namespace is None:
        raise ConfigError(f"there is no peer {peer} here")
    progress(f"forget {peer}")
    # The Identities first, or their Secrets would be made again.
    await local.delete_selected(IDENTITIES, Selection(namespace))
    await local.delete_selected(SECRETS, Selection(namespace, labels=labels.IDENTITY_TYPE))


async def wait_gone(
    local: Client, peer: str, namespace: str | None, progress: Progress
) -> Departed:
    """Wait until no local object is left, or the peer does not answer."""
    progress(f"take leave of {peer}")
    since = trio.current_time()

    async def look() -> Departed | None:
        cluster = await local.find(FOREIGN_CLUSTERS, peer, decode=ForeignCluster)
        left = None
        if namespace is not None:
            left = await local.find(NAMESPACES, namespace, decode=Partial)
        if cluster is None and left is None:
            return Departed(complete=True)
        if cluster is not None and trio.current_time() - since > PATIENCE:
            tombstone = cluster.metadata.annotations.get(labels.TOMBSTONE)
            down = holds(cluster.status.conditions, API_SERVER, ERROR)
            if tombstone and down:
                return Departed(complete=False, pending=tombstone)
        return None

    return await poll_until(look)


async def _lends(local: Client, peer: str, namespace: str, liqo: str) -> bool:
    """True if a peer borrows from this cluster, or may by a decision."""
    if not await _none(local, TENANTS, namespace):
        return True
    asked = await local.list(INCOMING_PEERINGS, Selection(liqo), decode=IncomingPeering)
    return any(each.spec.cluster_id == peer and each.spec.decision != DENY for each in asked)


async def _stop_borrowing(
    local: Client, peer: str, namespace: str, liqo: str, progress: Progress, *, joined: bool = False
) -> None:
    """Delete the objects of this cluster's borrowing, in the order that lets pods leave first.

    Args:
        namespace: the peer's tenant namespace.
        joined: whether the networks stay joined.
    """
    await _give_back(local, namespace)
    progress("drain and remove the virtual nodes")
    await poll_until(lambda: _none(local, VIRTUAL_NODES, namespace))
    if not joined and await networkleaving.parts(local, namespace):
        progress("take the network away")
        await networkleaving.remove_network(local, peer, namespace, liqo)
    await local.delete_selected(IDENTITIES, Selection(namespace))


def _tell_nobody(step: str) -> None:
    """Nobody waits for the steps."""


async def _give_back(client: Client, namespace: str) -> None:
    """Delete the borrowed resources of a tenant namespace; virtual nodes are drained first."""
    sources = f"{labels.REPLICATION}={labels.TRUE}"
    await client.delete_selected(RESOURCE_SLICES, Selection(namespace, labels=sources))
    await client.delete_selected(VIRTUAL_NODES, Selection(namespace))


async def end_borrowing(remote: Client, namespace: str, progress: Progress) -> bool:
    """End a peer's borrowing from this cluster; False where the client has not the right.

    Args:
        remote: of the peer.
        namespace: this cluster's tenant namespace at the peer.
        progress: called with each step.
    """
    try:
        await _give_back(remote, namespace)
    except Forbidden:
        return False
    progress("drain and remove the peer's virtual nodes")
    await poll_until(lambda: _none(remote, VIRTUAL_NODES, namespace))
    await remote.delete_selected(IDENTITIES, Selection(namespace))
    return True


async def _place_there(local: Client, remote: Client, liqo: str) -> str:
    """This cluster's tenant namespace at a peer."""
    if remote.namespace != "default":
        return remote.namespace
    here = await own_cluster_id(local, liqo)
    return await find_tenant_namespace(remote, here) or ids.tenant_namespace(here)


async def _clear_there(local: Client, remote: Client, peer: str, liqo: str) -> None:
    here = await own_cluster_id(local, liqo)
    namespace = await _place_there(local, remote, liqo)
    try:
        await remote.delete(TENANTS, here, namespace)
        await remote.delete(SECRETS, labels.NONCE_SECRET, namespace)
        await networkleaving.clear(remote, namespace)
    except LiqodError as error:
        raise ConfigError(f"{peer} keeps the Tenant {here}: {error}") from error


async def _none(client: Client, kind: Kind, namespace: str) -> bool:
    return not await client.list(kind, Selection(namespace), decode=Partial)
