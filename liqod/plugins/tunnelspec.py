"""The wanted state of a tunnel, as a backend is given it. Pure."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

Side = Literal["server", "client"]
TUNNEL_ADDRESSES: Final[Mapping[Side, str]] = {"server": "169.254.18.1", "client": "169.254.18.2"}
"""The sides' addresses on a tunnel, of one ``/30``: Liqo's."""


class TunnelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted state of one tunnel.

    Attributes:
        side: whether it is connected to, or connects.
        private_key: 32 bytes, X25519. Never shown, logged or put on a command line.
        public_key: 32 bytes, that belong to it.
        peer_public_key: 32 bytes, of the one peer that is at the other end.
        listen_port: of a server, and of a client that is to have a certain one; 0 for any.
        endpoints: ``address:port``, ``[v6]:port`` or ``name:port`` under which the other side may
            be reached, the preferred one first; of a server usually none.
        mtu: of the interface, in bytes.
        keepalive: seconds between packets that keep the path open; 0 for none.
        quiet: nothing is sent and nothing taken: the interface and the keys are there, for another
            machine has the tunnel, and this one is to take over in a moment. Told only to a
            backend that declares the ability
            (:attr:`liqod.plugins.providers.TunnelProvider.stands_by`).
        mark: firewall mark of its packets on the underlay; 0 for none. The same.
        last: where another machine of this cluster has received packets from last,
            ``address:port``: the first to try; empty for unknown.
        websocket: TCP port at which a server takes packets in a websocket, too, and a client sends
            them where nothing comes otherwise; 0 for none. Told only to a backend that says that it
            can (:attr:`liqod.plugins.providers.TunnelProvider.carried`).
    """

    side: Side
    private_key: bytes
    public_key: bytes
    peer_public_key: bytes
    listen_port: int = 0
    endpoints: tuple[str, ...] = ()
    mtu: int = 1340
    keepalive: int = 1
    quiet: bool = False
    mark: int = 0
    last: str = ""
    websocket: int = 0

    def __repr__(self) -> str:
        return (
            f"TunnelSpec({self.side}, port {self.listen_port}, to {', '.join(self.endpoints)},"
            f" mtu {self.mtu})"
        )
