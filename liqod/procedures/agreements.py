"""What the hand-shake has left of a peer here: requests of both sides, and invitations.

They are records: what a peering is made of is elsewhere. Whoever ends the peering, or the trust,
ends these first, so that nothing begins it again.
"""

from liqod.errors import NotFound
from liqod.kube.client import Client
from liqod.kube.kinds import SECRETS, Kind
from liqod.kube.meta import ObjectMeta
from liqod.kube.selection import Selection
from liqod.resources import (
    INCOMING_PEERINGS,
    INVITATIONS,
    OUTGOING_PEERINGS,
    IncomingPeering,
    Invitation,
    OutgoingPeering,
)

Found = tuple[Kind, ObjectMeta]


async def of_peer(
    client: Client, namespace: str, peer: str, *, revoking: bool = False
) -> list[Found]:
    """Every request from or to a cluster, and every invitation that is its own.

    Args:
        client: of this cluster.
        namespace: liqod's own.
        peer: the cluster's id.
        revoking: of invitations that others may use, too, also those that it has used.

    Raises:
        LiqodError: the API server does not answer, or refuses.
    """
    here = Selection(namespace)
    try:
        asking = await client.list(INCOMING_PEERINGS, here, decode=IncomingPeering)
        asked = await client.list(OUTGOING_PEERINGS, here, decode=OutgoingPeering)
        invited = await client.list(INVITATIONS, here, decode=Invitation)
    except NotFound:
        return []  # an installation from before these kinds
    found: list[Found] = [
        (INCOMING_PEERINGS, each.metadata) for each in asking if each.spec.cluster_id == peer
    ]
    found += [
        (OUTGOING_PEERINGS, each.metadata)
        for each in asked
        if peer in (each.spec.cluster_id, each.status.cluster_id)
    ]
    found += [
        (INVITATIONS, each.metadata) for each in invited if _is_of(each, peer, revoking=revoking)
    ]
    return found


def _is_of(invitation: Invitation, peer: str, *, revoking: bool) -> bool:
    """Whether an invitation is a cluster's own: for it alone, or used up by it."""
    users = [use.cluster_id for use in invitation.status.used_by]
    if invitation.spec.cluster_id == peer:
        return True
    return peer in users and (revoking or len(users) >= invitation.spec.uses)


async def end(client: Client, namespace: str, peer: str, *, revoking: bool = False) -> list[str]:
    """Delete them, with the secrets of invitations that were not used; a line for each.

    Raises:
        LiqodError: the API server refuses, or does not answer.
    """
    gone = []
    for kind, meta in await of_peer(client, namespace, peer, revoking=revoking):
        if await client.delete(kind, meta.name, namespace, uid=meta.uid):
            gone.append(f"{kind.name} {meta.name}")
        if kind is OUTGOING_PEERINGS:
            await client.delete(SECRETS, secret_of(meta.name), namespace)
    return gone


def secret_of(name: str) -> str:
    """Name of the Secret with the invitation of a request, by the request's."""
    return f"{name}-invitation"
