"""The status of joined networks, by their objects and by a daemon: ``liqod network status``."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES, NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.errors import ConfigError, Forbidden, NotFound
from liqod.kube.client import Client
from liqod.kube.leases import Lease
from liqod.kube.selection import Selection
from liqod.model.network import podpath
from liqod.model.view.networkfacts import NetworkFacts, ways
from liqod.network.failover.election import Claim
from liqod.network.failover.lease import said
from liqod.resources import (
    CONFIGURATIONS,
    INTERNAL_FABRICS,
    INTERNAL_NODES,
    Configuration,
    InternalFabric,
    InternalNode,
)
from liqod.resources.base import Resource
from liqod.resources.fabric import FABRIC
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


class NodeNetworkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node of this cluster, where there are several.

    Attributes:
        name: of the Node.
        address: where the other nodes reach it.
        gateway: whether it is the gateway.
        state: ``gateway``, ``ok``, ``failing``, or ``silent`` where it never said anything.
        latency: of a round trip to the gateway, as it was last told; empty where it was not.
        dropped: packets that it has dropped.
        problem: what is in the way, a sentence; empty for nothing.
    """

    name: str
    address: str = ""
    gateway: bool = False
    state: str = ""
    latency: str = ""
    dropped: int = 0
    problem: str = ""


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
        pods: whether a packet goes from a pod's address here to one there and back, as
            :data:`liqod.apimachinery.labels.PODS`; empty where nobody says.
        gateway: name of the node that has the tunnels, where one of several has them.
        standbys: names of the others.
        nodes: this cluster's own, where there are several: the same of all peers.
        problems: what is in the way, sentences.
        live: what the daemon of this cluster knows at this moment; None where it was not asked.
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
    pods: str = ""
    gateway: str = ""
    standbys: tuple[str, ...] = ()
    nodes: tuple[NodeNetworkStatus, ...] = ()
    problems: tuple[str, ...] = ()
    live: NetworkFacts | None = None


def joined(found: list[PeerStatus], live: Mapping[str, NetworkFacts]) -> list[PeerStatus]:
    """The same, with what the daemon knows."""
    return [replace(each, live=live.get(each.peer)) for each in found]


async def look(
    client: Client, peer: str = "", namespace: str = labels.LIQO_NAMESPACE
) -> list[PeerStatus]:
    """The networks of all peers, or of one, by id.

    Args:
        client: of this cluster.
        peer: the one; empty for all.
        namespace: liqod's own.

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
    lease = await client.find(LEASES, labels.GATEWAY_LEASE, namespace, decode=Lease)
    claim = said(lease).claim if lease is not None else Claim("", 0, "")
    own = await nodes(client) if wanted else ()
    found = [await _of(client, each, wanted[each]) for each in sorted(wanted)]
    return [replace(each, gateway=claim.holder, standbys=claim.others, nodes=own) for each in found]


async def nodes(client: Client) -> tuple[NodeNetworkStatus, ...]:
    """The nodes of the overlay, by name; none where there is no overlay.

    Raises:
        LiqodError: as the client raises.
    """
    try:
        fabrics = await client.list(INTERNAL_FABRICS, decode=InternalFabric)
        every = await client.list(INTERNAL_NODES, decode=InternalNode)
    except (NotFound, Forbidden):
        return ()  # an installation from before
    return nodes_of(next((each for each in fabrics if each.name == FABRIC), None), every)


def nodes_of(
    fabric: InternalFabric | None, every: Iterable[InternalNode]
) -> tuple[NodeNetworkStatus, ...]:
    """The status of each node, by both kinds of objects. Pure."""
    if fabric is None or fabric.spec is None:
        return ()
    every = list(every)
    told = {each.name: each for each in ways(fabric, every)}
    found = []
    for each in sorted(every, key=lambda one: one.name):
        way, dropped = told.get(each.name), each.status.dropped
        state = "gateway"
        if way is not None:
            state = "failing" if way.problem else "silent" if way.told is None else "ok"
        found.append(
            NodeNetworkStatus(
                name=each.name,
                address=each.spec.address if each.spec is not None else "",
                gateway=way is None,
                state=state,
                latency=each.status.latency if way is not None else "",
                dropped=dropped.forged + dropped.spoofed + dropped.strangers if way else 0,
                problem=_problem(state, way.problem if way is not None else ""),
            )
        )
    return tuple(found)


def _problem(state: str, said: str) -> str:
    return said or ("`liqod node` has never run there" if state == "silent" else "")


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
    """The status of one peer's network, by its objects. Pure."""
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
        facts["pods"] = pods = connection.metadata.annotations.get(labels.PODS, "")
        path = podpath.read(pods)
        if path.state == "failed" and connection.status.value == "Connected":
            problems.append(f"from pod to pod: {path.why}")
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
