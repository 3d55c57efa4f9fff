"""Finds and ends the handshake's records of a peer: requests of both sides, and invitations.

They are records only: the objects of a peering are others. A command that ends the peering, or the
trust, ends these first, so that nothing begins it again.
"""

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS, Kind
from liqod.apimachinery.meta import ObjectMeta
from liqod.cluster.tenancy import consumer_keys, find_tenant
from liqod.errors import NotFound
from liqod.kube import times
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.peering import providerkeys
from liqod.procedures.answering import STANDING, is_barred, key_of
from liqod.procedures.peeringrequest import secret_of
from liqod.resources import (
    INCOMING_PEERINGS,
    INVITATIONS,
    OUTGOING_PEERINGS,
    IncomingPeering,
    Invitation,
    OutgoingPeering,
)


class AgreementRecord(msgspec.Struct, frozen=True):
    """A record of the handshake.

    Attributes:
        kind, meta: its kind and metadata.
        left: number of times that others could still have used an invitation.
    """

    kind: Kind
    meta: ObjectMeta
    left: int = 0

    @property
    def line(self) -> str:
        """The record in words, and the loss that its end is for others."""
        loss = f", which others could have used ({self.left} more): they need another one"
        return f"{self.kind.name} {self.meta.name}{loss if self.left else ''}"


async def of_peer(
    client: Client, namespace: str, peer: str, *, revoking: bool = False
) -> list[AgreementRecord]:
    """Every request from or to a cluster, and every invitation that is its own.

    A decision never to accept a cluster of that id is none of these: it is about a key, which may
    be another cluster's, and stays until an operator lifts it.

    Args:
        client: of this cluster.
        namespace: liqod's own.
        peer: the cluster's id.
        revoking: also invitations that others may use, too, where it has used one and so has its
            line, and those for its key.
    """
    here = Selection(namespace)
    try:
        asking = await client.list(INCOMING_PEERINGS, here, decode=IncomingPeering)
        asked = await client.list(OUTGOING_PEERINGS, here, decode=OutgoingPeering)
        invited = await client.list(INVITATIONS, here, decode=Invitation)
    except NotFound:
        return []  # an installation from before these kinds
    asking = [each for each in asking if each.spec.cluster_id == peer]
    asked = [each for each in asked if peer in (each.spec.cluster_id, each.status.cluster_id)]
    keys: set[str] = set()
    if revoking:
        keys = {*map(key_of, asking), *(each.status.key for each in asked)}
        keys = (keys | {await _accepted_key(client, peer)}) - {""}
    found = [
        AgreementRecord(INCOMING_PEERINGS, each.metadata) for each in asking if not is_barred(each)
    ]
    found += [AgreementRecord(OUTGOING_PEERINGS, each.metadata) for each in asked]
    found += [
        AgreementRecord(INVITATIONS, each.metadata, _left(each, peer, keys))
        for each in invited
        if _is_of(each, peer, keys, revoking=revoking)
    ]
    return found


async def keys_of(client: Client, namespace: str, peer: str, role: str) -> frozenset[str]:
    """The keys that a cluster has shown in its agreed requests, or that are noted of it.

    Args:
        client: of this cluster.
        namespace: liqod's own.
        peer: the cluster's id.
        role: its role, ``consumer`` or ``provider``.
    """
    here, tenant = Selection(namespace), await find_tenant(client, peer)
    marks = {} if tenant is None else tenant.annotations
    try:
        if role == "consumer":
            asking = await client.list(INCOMING_PEERINGS, here, decode=IncomingPeering)
            # Any cluster may request by that id: only accepted ones count.
            mine = (each for each in asking if each.spec.cluster_id == peer)
            keys = {key_of(each) for each in mine if each.status.phase in STANDING}
            return consumer_keys(marks) | keys - {""}
        asked = await client.list(OUTGOING_PEERINGS, here, decode=OutgoingPeering)
    except NotFound:
        return frozenset()  # an installation from before these kinds
    shown = (each.status.key for each in asked if each.status.cluster_id == peer)
    return providerkeys.with_next(marks.get(labels.PROVIDER_KEYS), shown)


async def _accepted_key(client: Client, peer: str) -> str:
    """The key by which a consumer was accepted, also one that was revoked; empty for none."""
    tenant = await find_tenant(client, peer)
    return "" if tenant is None else tenant.annotations.get(labels.ACCEPTED_KEY, "")


def _is_of(invitation: Invitation, peer: str, keys: set[str], *, revoking: bool) -> bool:
    """True if an invitation is a cluster's own: for it alone, or used up by it."""
    users = invitation.status.used_by
    if invitation.spec.cluster_id == peer or invitation.spec.key in keys:
        return True
    used = any(use.cluster_id == peer or use.key in keys for use in users)
    return used and (revoking or len(users) >= invitation.spec.uses)


def _left(invitation: Invitation, peer: str, keys: set[str]) -> int:
    """The number of times that others could still have used an invitation."""
    spec = invitation.spec
    if spec.cluster_id == peer or spec.key in keys:
        return 0
    try:
        over = times.seconds(spec.expires) <= times.seconds(times.now())
    except ValueError:
        return 0
    return 0 if over else max(spec.uses - len(invitation.status.used_by), 0)


async def end(client: Client, namespace: str, peer: str, *, revoking: bool = False) -> list[str]:
    """Delete the records, with the secrets of unused invitations; a line for each."""
    gone = []
    for each in await of_peer(client, namespace, peer, revoking=revoking):
        if await client.delete(each.kind, each.meta.name, namespace, uid=each.meta.uid):
            gone.append(each.line)
        if each.kind is OUTGOING_PEERINGS:
            await client.delete(SECRETS, secret_of(each.meta.name), namespace)
    return gone
