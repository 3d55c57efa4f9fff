"""The state of both ends of a peer's tunnel, handed from the objects to the tunnel's maker."""

import msgspec

from liqod.identity.tunnelkeys import TunnelKeys
from liqod.network.orders.tunnels import Gateway

NO_GATEWAY = "there is no GatewayServer and no GatewayClient of the peer"


class TunnelEndpoints(msgspec.Struct, frozen=True):
    """Both ends of one tunnel.

    Attributes:
        gateway: this cluster's; None while there is none.
        keys: its keys.
        peer_key: 32 bytes, the peer's public key; empty while it is missing.
        waits: the object it waits for, as a sentence; empty for none.
        refused: the objects are there, and cannot be.
        looked: whether they were looked at.
    """

    gateway: Gateway | None = None
    keys: TunnelKeys | None = None
    peer_key: bytes = b""
    waits: str = NO_GATEWAY
    refused: bool = False
    looked: bool = False
