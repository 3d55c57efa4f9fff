"""What is known of joined networks, from the objects alone: for ``liqod network status``."""

from typing import Any

import msgspec

from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.kinds import NAMESPACES
from liqod.kube.meta import Partial
from liqod.kube.selection import Selection
from liqod.model import labels
from liqod.resources import CONFIGURATIONS, Configuration
from liqod.resources.base import Resource
from liqod.resources.networking import (
    CONNECTIONS,
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    ClusterRanges,
    Connection,
    Endpoint,
    GatewayClient,
    GatewayServer,
    StandardCondition,
)


class PeerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The network that is joined with one peer.

    Attributes:
        peer: its id.
        state: Connected, Connecting, Error; empty where there is no tunnel.
        latency: of a round trip, as text; empty where none was made.
        side: ``server`` where this cluster is dialled, ``client`` where it dials.
        backend: what makes the tunnel.
        endpoints: where the server is.
        mtu: of the tunnel, in bytes; 0 for the usual.
        own: this cluster's ranges, as the peer is told them.
        ranges: the peer's, as it uses them itself.
        aliases: those under which they are seen here, in the same order.
        problems: what is in the way, sentences.
    """

    peer: str
    state: str = ""
    latency: str = ""
    side: str = ""
    backend: str = ""
    endpoints: tuple[str, ...] = ()
    mtu: int = 0
    own: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


async def look(client: Client, peer: str = "") -> list[PeerStatus]:
    """The networks of all peers, or of one, by id.

    Raises:
        ConfigError: there is no such peer.
        LiqodError: as the client raises.
    """
    selector = f"{labels.TENANT_NAMESPACE}={labels.TRUE}"
    tenants = {
        each.metadata.labels.get(labels.REMOTE_CLUSTER_ID, ""): each.metadata.name
        for each in await client.list(NAMESPACES, Selection(labels=selector), decode=Partial)
    }
    if peer and peer not in tenants:
        known = ", ".join(sorted(tenants)) or "none"
        raise ConfigError(f"there is no peer {peer} here; peers are {known}")
    wanted = {peer: tenants[peer]} if peer else tenants
    return [await _of(client, each, wanted[each]) for each in sorted(wanted)]


async def _of(client: Client, peer: str, place: str) -> PeerStatus:
    servers = await client.list(GATEWAY_SERVERS, Selection(place), decode=GatewayServer)
    clients = await client.list(GATEWAY_CLIENTS, Selection(place), decode=GatewayClient)
    connections = await client.list(CONNECTIONS, Selection(place), decode=Connection)
    ranges = await client.list(CONFIGURATIONS, Selection(place), decode=Configuration)
    return status_of(
        peer,
        [each for each in servers if _is(each, peer)],
        [each for each in clients if _is(each, peer)],
        [each for each in connections if _is(each, peer)],
        [each for each in ranges if _is(each, peer)],
    )


def _is(one: Resource, peer: str) -> bool:
    return one.metadata.labels.get(labels.REMOTE_CLUSTER_ID) == peer


def status_of(
    peer: str,
    servers: list[GatewayServer],
    clients: list[GatewayClient],
    connections: list[Connection],
    configurations: list[Configuration],
) -> PeerStatus:
    """What the objects of one peer say. Pure."""
    facts: dict[str, Any] = {}
    problems: list[str] = []
    gateways: list[GatewayServer | GatewayClient] = [*servers, *clients]
    for one in gateways:
        bad = [each for each in one.status.conditions if each.status == "False"]
        problems += [f"{one.KIND.name} {one.name}: {each.message or each.reason}" for each in bad]
    gateway = _first(servers) or _first(clients)
    if isinstance(gateway, GatewayServer):
        ref, told = gateway.spec.server_template_ref, gateway.status.endpoint
        facts = {"side": "server", "endpoints": _endpoints(told), "mtu": gateway.spec.mtu}
    elif isinstance(gateway, GatewayClient):
        ref = gateway.spec.client_template_ref
        dialled = _endpoints(gateway.spec.endpoint)
        facts = {"side": "client", "endpoints": dialled, "mtu": gateway.spec.mtu}
    else:
        ref = None
        problems.append("there is no GatewayServer and no GatewayClient")
    if ref is not None:
        facts["backend"] = ref.name.rpartition("-")[0]
    for connection in connections:
        facts["state"] = connection.status.value
        latency = connection.status.latency
        facts["latency"] = latency.value if latency is not None else ""
    if not configurations:
        problems.append("there is no Configuration")
    for found in configurations:
        bad = [each for each in found.status.conditions if each.status == "False"]
        problems += [f"Configuration {found.name}: {each.message or each.reason}" for each in bad]
        facts |= {
            "own": _ranges(found.spec.local),
            "ranges": _ranges(found.spec.remote),
            "aliases": _ranges(found.status.remote),
        }
    return PeerStatus(peer=peer, **facts, problems=tuple(problems))


def _first(found: list[Any]) -> Any:
    """The gateway that counts: the one that was accepted, else any."""

    def accepted(conditions: tuple[StandardCondition, ...]) -> bool:
        return any(each.type == "Accepted" and each.status == "True" for each in conditions)

    good = [each for each in found if accepted(each.status.conditions)]
    return next(iter(good or found), None)


def _endpoints(endpoint: Endpoint | None) -> tuple[str, ...]:
    if endpoint is None:
        return ()
    port = endpoint.port if endpoint.port is not None else next(iter(endpoint.ports), 0)
    return tuple(f"[{a}]:{port}" if ":" in a else f"{a}:{port}" for a in endpoint.addresses)


def _ranges(side: ClusterRanges | None) -> tuple[str, ...]:
    return () if side is None else (*side.cidr.pod, *side.cidr.external)
