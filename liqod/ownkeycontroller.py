"""Notifies the components of this cluster's keys, and finds peers that know only its former key."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from liqod.cluster.context import ClusterContext
from liqod.consumer.identities.clusterkeys import ClusterKeys, CurrentKeys
from liqod.consumer.identities.formerkey import Bound, bound, listener_of, needing
from liqod.handshake.protocol.outputs import ExpectedPeer
from liqod.handshake.transport.localidentity import LocalIdentities, present_key
from liqod.kube.client import Client
from liqod.kube.controller import Controller
from liqod.resources.authentication import CONTROL_PLANE

if TYPE_CHECKING:
    from liqod.handshake.handshakemanager import HandshakeManager

KEY: Final = "own keys"
UseKeys = Callable[[ClusterKeys], None]
"""Called with the keys that this cluster has now."""


async def knows_former(client: Client, own: ClusterKeys, expected: ExpectedPeer) -> bool:
    """True if a peer knows this cluster by its former key alone.

    Args:
        client: of this cluster.
        own: its keys.
        expected: who is dialled.
    """
    if own.former is None:
        return False
    found = await bound(client)
    who = expected.cluster_id or await _holder(client, found, expected.key)
    return who in needing(own, found)


async def _holder(client: Client, found: Bound, key: str) -> str:
    """The provider to whose listener with that key this cluster's credentials lead."""
    for each in found.identities:
        leads = listener_of(each.spec.auth_params.proxy_url)
        if each.spec.type != CONTROL_PLANE or not leads:
            continue
        if key in (leads, await present_key(client, leads)):
            return each.spec.cluster_id
    return ""


def own_side(client: Client, cluster_id: str, own: ClusterKeys) -> LocalIdentities:
    """This side of meetings, with these keys."""
    made = LocalIdentities(cluster_id, own.private)
    if own.former is not None:
        made.take(own.private, own.former.private, partial(knows_former, client, own))
    return made


def pass_keys_to(handshake: "HandshakeManager", client: Client) -> UseKeys:
    """The callback that passes this cluster's keys to the handshake."""

    def take(own: ClusterKeys) -> None:
        former = b"" if own.former is None else own.former.private
        handshake.take(own.private, former, partial(knows_former, client, own))

    return take


class OwnKeyController(Controller[str]):
    """Notifies the users of this cluster's keys when they change.

    Args:
        take: called each time.
    """

    def __init__(self, context: ClusterContext, *take: UseKeys) -> None:
        self._own, self._take = CurrentKeys(context, KEY), take
        super().__init__(context, "ownkeys", self._own.watched, first=(KEY,))

    async def reconcile(self, key: str) -> None:
        """Pass on the keys that this cluster has now."""
        own = await self._own.now()
        for each in self._take:
            each(own)
