"""Unpeers on either side, as ``liqod unpeer`` does: lists objects, deletes, waits; or forgets.

The peer's local objects are deleted in the order that lets virtual nodes be drained; the tenant
namespace is marked, and the daemon deletes it when it is empty. A peer that does not answer leaves
a tombstone behind and blocks nothing (rule 2 of the architecture). A peer keeps its own objects of
the peering until an administrator ends it at the peer: they are listed, and deleted by a client
with the rights (:mod:`liqod.procedures.otherhalf`).
"""

from contextlib import suppress
from typing import Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.cluster.ownid import own_cluster_id
from liqod.cluster.tenancy import find_tenant_namespace
from liqod.errors import ConfigError, NotFound
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.objects.conditions import holds
from liqod.model.peering.foreigncluster import API_SERVER, ERROR
from liqod.procedures import agreements, networkleaving, onehalf
from liqod.procedures.otherhalf import OtherHalf
from liqod.resources import (
    FOREIGN_CLUSTERS,
    IDENTITIES,
    INCOMING_PEERINGS,
    TENANTS,
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
        namespace: its tenant namespace of this cluster, where no more than that is left in it.
        runs: ``liqod`` where it certainly runs that; empty for Liqo, and where it is unknown.
    """

    here: str = ""
    lends: bool = False
    borrows: bool = False
    joined: bool = False
    namespace: str = ""
    runs: str = ""

    def summary(self, peer: str) -> str:
        """The half and the step that ends it, as a clause; empty for none."""
        parts = {
            "its virtual nodes and slices": self.borrows,
            f"its Tenant {self.here}": self.lends,
            "its gateway": self.joined,
            f"the namespace {self.namespace} with the key that it has accepted": self.namespace,
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
        cleared: those that were deleted of it, one line each.
    """

    complete: bool
    pending: str = ""
    keeps: Half = NOTHING_KEPT
    cleared: tuple[str, ...] = ()

    def summary(self, peer: str) -> str:
        """The result, for people: with the remaining steps, and their cluster."""
        if not self.complete:
            return (
                f"unpeered from {peer}, which does not answer: what it still has of ours is "
                f"removed when it does; `liqod unpeer {peer} --forget` gives it up"
            )
        cleared = f"cleared there: {', '.join(self.cleared)}" if self.cleared else ""
        return "; ".join(filter(None, (f"unpeered from {peer}", cleared, self.keeps.summary(peer))))


async def half(local: Client, peer: str, liqo: str = labels.LIQO_NAMESPACE) -> Half:
    """The objects that the peer has made of the peering, as far as local objects show."""
    namespace = await find_tenant_namespace(local, peer)
    if namespace is None:
        return NOTHING_KEPT
    cluster = await local.find(FOREIGN_CLUSTERS, peer, decode=ForeignCluster)
    told = cluster is not None and labels.PEER_DAEMON in cluster.metadata.annotations
    return Half(
        here=await own_cluster_id(local, liqo),
        lends=not await onehalf.is_none_left(local, IDENTITIES, namespace),
        borrows=not await onehalf.is_none_left(local, TENANTS, namespace),
        joined=bool(await networkleaving.parts(local, namespace)),
        runs="liqod" if told else "",
    )


async def unpeer(
    local: Client,
    peer: str,
    *,
    other: OtherHalf | None = None,
    liqo: str = labels.LIQO_NAMESPACE,
    progress: Progress,
    tombstone: str = "",
) -> Departed:
    """End every peering with a peer, in both directions, from this side.

    Args:
        local: an administrator's client of this cluster.
        peer: the peer's id.
        other: the peer's half, which is then ended, too, as far as the rights at the peer go.
        liqo: liqod's namespace in this cluster.
        progress: called with each awaited step.
        tombstone: the mark of the tenant namespace; by default the time.
    """
    keeps = await half(local, peer, liqo)
    await agreements.end(local, liqo, peer)
    namespace = await find_tenant_namespace(local, peer)
    if other is not None and keeps.borrows:
        # While this cluster still serves it: pods of a provider that is gone cannot be moved.
        borrows = not await other.end_borrowing(progress)
        keeps = msgspec.structs.replace(keeps, borrows=borrows)
    if namespace is not None:
        progress(f"withdraw from {peer}")
        await onehalf.withdraw(local, peer, namespace, liqo, progress, tombstone)
    end = await wait_gone(local, peer, namespace, progress)
    if other is None:
        return msgspec.structs.replace(end, keeps=keeps)
    # After what is this cluster's there has been cleared: from now on it has no right to.
    progress(f"clear what is ours at {peer}")
    kept = await other.end(progress)
    if not end.complete:
        end = await wait_gone(local, peer, namespace, progress)
    keeps = msgspec.structs.replace(
        keeps,
        here=other.here,
        borrows=keeps.borrows and bool(kept),
        lends=False,
        joined=False,
        namespace=kept,
    )
    return msgspec.structs.replace(end, keeps=keeps, cleared=other.cleared)


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
        await onehalf.stop_borrowing(local, peer, namespace, liqo, _tell_nobody, joined=lends)
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
    if not await onehalf.is_none_left(local, TENANTS, namespace):
        return True
    asked = await local.list(INCOMING_PEERINGS, Selection(liqo), decode=IncomingPeering)
    return any(each.spec.cluster_id == peer and each.spec.decision != DENY for each in asked)


def _tell_nobody(step: str) -> None:
    """Nobody waits for the steps."""
