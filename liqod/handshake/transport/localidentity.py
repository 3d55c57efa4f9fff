"""Selects the key that this cluster proves in a meeting, while one follows another.

A peer that knows the present key meets that, one that knows the former key alone meets the former:
a listener by the key that a dialler calls, a dialler by what is known of the peer. New agreements
are made with the present key.
"""

from collections.abc import Awaitable, Callable

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import tenant_of
from liqod.handshake.protocol.outputs import CAPABILITIES, ExpectedPeer, LocalIdentity
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.peering import providerkeys

SelectIdentity = Callable[[ExpectedPeer], Awaitable[LocalIdentity]]
"""This side, as whom somebody is dialled."""
KnowsFormerKey = Callable[[ExpectedPeer], Awaitable[bool]]
"""Returns True if a peer knows this cluster by its former key alone."""


async def present_key(client: Client, key: str) -> str:
    """The key (SHA-256, hexadecimal) that has followed one of a provider's; or that very one."""
    everywhere = Selection(labels=f"{labels.TENANT_NAMESPACE}={labels.TRUE}", cached=True)
    for each in await client.list(NAMESPACES, everywhere, decode=Partial):
        note = each.metadata.annotations.get(labels.PROVIDER_KEYS)
        found = key if tenant_of(each) is None else providerkeys.follow(note, key)
        if found != key:
            return found
    return key


async def no_former_key(expected: ExpectedPeer) -> bool:
    """There is no former key."""
    return False


class LocalIdentities:
    """This side, as it is met with now.

    Args:
        cluster_id: of this cluster.
        private: its key, PEM.

    Attributes:
        present: with the present key.
        former: with the former one; None where there is none.
    """

    def __init__(self, cluster_id: str, private: bytes) -> None:
        self._id = cluster_id
        self.take(private)

    def take(
        self, private: bytes, former: bytes = b"", knowing: KnowsFormerKey = no_former_key
    ) -> None:
        """Go by these keys from now on.

        Args:
            private: the present one, PEM.
            former: the one before; empty for none.
            knowing: says who knows that one alone.
        """
        self.present, self._knowing = self._side(private), knowing
        self.former = self._side(former) if former else None

    def _side(self, private: bytes) -> LocalIdentity:
        return LocalIdentity(cluster_id=self._id, private=private, capabilities=CAPABILITIES)

    async def towards(self, expected: ExpectedPeer) -> LocalIdentity:
        """The identity to dial a peer with. Raises LiqodError where that cannot be looked up."""
        if self.former is not None and await self._knowing(expected):
            return self.former
        return self.present
