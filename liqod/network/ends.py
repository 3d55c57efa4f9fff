"""What is known of both ends of a peer's tunnel, handed from the objects to what makes it."""

import msgspec
import trio

from liqod.identity.tunnelkeys import TunnelKeys
from liqod.network.gatewayplan import Gateway

NO_GATEWAY = "there is no GatewayServer and no GatewayClient of the peer"


class Ends(msgspec.Struct, frozen=True):
    """Both ends of one tunnel.

    Attributes:
        gateway: this cluster's; None while there is none.
        keys: its keys.
        peer_key: 32 bytes, the peer's public key; empty while it is not known.
        waits: what is waited for, as a sentence; empty where nothing is.
        refused: the objects are there, and cannot be.
        looked: whether they were looked at.
    """

    gateway: Gateway | None = None
    keys: TunnelKeys | None = None
    peer_key: bytes = b""
    waits: str = NO_GATEWAY
    refused: bool = False
    looked: bool = False


class KnownEnds:
    """The ends of one peer's tunnel, as they are known now.

    Attributes:
        now: the same.
    """

    def __init__(self) -> None:
        self.now = Ends()
        self._changed = trio.Event()

    def know(self, ends: Ends) -> None:
        """Say what is known from now on."""
        if ends != self.now:
            self.now = ends
            changed, self._changed = self._changed, trio.Event()
            changed.set()

    async def wait_changed(self) -> None:
        """Wait until something else is known."""
        await self._changed.wait()
