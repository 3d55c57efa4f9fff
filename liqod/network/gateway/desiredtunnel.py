"""All that a peer's network is made of, as one value. Pure."""

from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from liqod.model.network.ranges import PeerRanges
from liqod.network.gateway.gatewayplan import Gateway
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.orders.candidacy import GatewayState
from liqod.plugins.providers import TunnelSpec


class DesiredTunnel(msgspec.Struct, frozen=True):
    """All that a peer's network is made of.

    Attributes:
        ranges: of both clusters.
        gateway: this end of the tunnel.
        spec: of the tunnel.
        active: whether packets take this tunnel, or this machine is a standby.
    """

    ranges: PeerRanges
    gateway: Gateway
    spec: TunnelSpec
    active: bool = True


def desired_tunnel(
    peer: str,
    ends: TunnelEndpoints,
    ranges: PeerRanges,
    where: GatewayState,
    stands_by: Collection[str],
    offers: bool | None = None,
) -> DesiredTunnel | None:
    """The desired network of a peer; None while an end is missing.

    Args:
        peer: its id.
        ends: of the tunnel.
        ranges: of both clusters.
        where: whether this machine is the gateway.
        stands_by: backends whose tunnels can be quiet.
        offers: whether the peer's gateway reports to take the tunnel in a websocket; a client's
            annotation does not show that this has ended. None: no report yet.
    """
    if ends.gateway is None or ends.keys is None or not ends.peer_key:
        return None
    gateway, active = ends.gateway, bool(where.active)
    warm = gateway.backend in stands_by
    spec = TunnelSpec(
        side=gateway.side,
        private_key=ends.keys.private,
        public_key=ends.keys.public,
        peer_public_key=ends.peer_key,
        listen_port=gateway.port,
        endpoints=gateway.endpoints,
        mtu=gateway.mtu,
        quiet=warm and not active,
        mark=where.mark if warm else 0,
        last=where.endpoints.get(peer, "") if warm and active else "",
        websocket=0 if gateway.side == "client" and offers is False else gateway.websocket,
    )
    return DesiredTunnel(ranges, gateway, spec, active)


def is_same(stands: DesiredTunnel, wants: DesiredTunnel) -> bool:
    """True if an existing tunnel is the desired one, but for what changes nothing of it."""
    spec = replace(stands.spec, websocket=wants.spec.websocket)
    return replace(stands, ranges=wants.ranges, spec=spec) == wants
