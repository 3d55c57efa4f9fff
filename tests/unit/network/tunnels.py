"""An order for a tunnel, as tests of both sides have it."""

from msgspec.structs import replace

from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.network.orders.candidacy import GatewayState
from liqod.network.orders.tunnels import Gateway, TunnelOrder

RANGES = PeerRanges(
    own=ClusterCidrs(("10.244.0.0/16",), ("10.70.0.0/16",)),
    peer=ClusterCidrs(("10.244.0.0/16",), ("10.70.0.0/16",)),
    seen=ClusterCidrs(("10.71.0.0/16",), ("10.72.0.0/16",)),
)
GATEWAY = Gateway(
    side="client",
    backend="wireguard",
    name="g",
    uid="u",
    mtu=1340,
    endpoints=("192.0.2.1:51840",),
    websocket=443,
)
ORDER = TunnelOrder(
    peer="milan",
    ranges=RANGES,
    gateway=GATEWAY,
    private_key=bytes(31) + b"\x01",
    public_key=bytes(31) + b"\x02",
    peer_key=bytes(31) + b"\x03",
)
LENDS = replace(ORDER, ranges=replace(RANGES, lent={"10.70.0.5": "192.0.2.5"}))
"""The same tunnel, and an address is lent besides."""
ELSEWHERE = replace(ORDER, gateway=replace(GATEWAY, endpoints=("192.0.2.7:51840",)))
"""Another tunnel."""
BY_VXLAN = replace(ORDER, gateway=replace(GATEWAY, backend="vxlan"))
ACTIVE, STANDBY, UNKNOWN = GatewayState(), GatewayState(active=False), GatewayState(active=None)
WARM = frozenset(("wireguard",))
