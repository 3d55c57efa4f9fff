"""All that a peer's network is made of on this machine, as one value. Pure."""

from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from liqod.model.network.ranges import PeerRanges
from liqod.network.orders.candidacy import GatewayState
from liqod.network.orders.tunnels import Gateway, TunnelOrder
from liqod.plugins.tunnelspec import TunnelSpec


class DesiredTunnel(msgspec.Struct, frozen=True):
    """All that a peer's network is made of.

    Attributes:
        ranges: of both clusters.
        gateway: this end of the tunnel.
        spec: of the tunnel.
        active: whether packets take this tunnel, or this machine is a standby.
        cut: whether connections to the peer are ended, since nothing has come for long.
    """

    ranges: PeerRanges
    gateway: Gateway
    spec: TunnelSpec
    active: bool = True
    cut: bool = False


def desired_tunnel(
    order: TunnelOrder,
    where: GatewayState,
    stands_by: Collection[str],
    offers: bool | None = None,
    *,
    cut: bool = False,
) -> DesiredTunnel:
    """The desired network of a peer.

    Args:
        order: the daemon's.
        where: whether this machine is the gateway.
        stands_by: backends whose tunnels can be quiet.
        offers: whether the peer's gateway reports to take the tunnel in a websocket; a client's
            annotation does not show that this has ended. None: no report yet.
        cut: whether connections to the peer are to be ended.
    """
    gateway, active = order.gateway, bool(where.active)
    warm = gateway.backend in stands_by
    spec = TunnelSpec(
        side=gateway.side,
        private_key=order.private_key,
        public_key=order.public_key,
        peer_public_key=order.peer_key,
        listen_port=gateway.port,
        endpoints=gateway.endpoints,
        mtu=gateway.mtu,
        quiet=warm and not active,
        mark=where.mark if warm else 0,
        last=where.endpoints.get(order.peer, "") if warm and active else "",
        websocket=0 if gateway.side == "client" and offers is False else gateway.websocket,
    )
    return DesiredTunnel(order.ranges, gateway, spec, active, cut and active)


def is_same(stands: DesiredTunnel, wants: DesiredTunnel) -> bool:
    """True if an existing tunnel is the desired one, but for what changes nothing of it."""
    spec = replace(stands.spec, websocket=wants.spec.websocket)
    return replace(stands, ranges=wants.ranges, spec=spec, cut=wants.cut) == wants
