"""Reads the objects of joined networks and of the overlay, for ``liqod network status``."""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES, NAMESPACES, Kind
from liqod.apimachinery.meta import Partial
from liqod.errors import ConfigError, Forbidden, NotFound
from liqod.kube.client import Client
from liqod.kube.leases import Lease
from liqod.kube.selection import Selection
from liqod.model.view.facts import PeerFacts
from liqod.model.view.networkfacts import JoinedFacts, joined, ways
from liqod.network.failover.lease import record_of
from liqod.network.orders.candidacy import Claim
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
    Connection,
    GatewayClient,
    GatewayServer,
)

T = TypeVar("T", bound=Resource)


class NodeNetworkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a node of this cluster, where there are several.

    Attributes:
        name: of the Node.
        address: the one by which the other nodes reach it.
        gateway: whether it is the gateway.
        state: ``gateway``, ``ok``, ``failing``, or ``silent`` where it never reported.
        latency: of a round trip to the gateway, as last reported; empty where it was not.
        dropped: packets that it has dropped.
        problem: the obstacle, a sentence; empty for none.
    """

    name: str
    address: str = ""
    gateway: bool = False
    state: str = ""
    latency: str = ""
    dropped: int = 0
    problem: str = ""


async def look(
    client: Client, peer: str = "", namespace: str = labels.LIQO_NAMESPACE
) -> list[PeerFacts]:
    """The facts of the networks of all peers, or of one, by id.

    Args:
        client: of this cluster.
        peer: its id; empty for all.
        namespace: liqod's own.

    Raises:
        ConfigError: there is no such peer.
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
    claim = record_of(lease).claim if lease is not None else Claim("", 0, "")
    return [await _of(client, each, wanted[each], claim) for each in sorted(wanted)]


async def nodes(client: Client) -> tuple[NodeNetworkStatus, ...]:
    """The nodes of the overlay, by name; none where there is no overlay."""
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


async def _of(client: Client, peer: str, place: str, lease: Claim) -> PeerFacts:
    async def those(kind: Kind, decode: type[T]) -> list[T]:
        return [
            each
            for each in await client.list(kind, Selection(place), decode=decode)
            if _is(each, peer)
        ]

    servers = await those(GATEWAY_SERVERS, GatewayServer)
    found = joined(
        await those(CONNECTIONS, Connection),
        (*servers, *await those(GATEWAY_CLIENTS, GatewayClient)),
        await those(CONFIGURATIONS, Configuration),
    )
    return PeerFacts(peer=peer, joined=replace(found, gateway=lease.holder, standbys=lease.others))


def _is(one: Resource, peer: str) -> bool:
    return one.metadata.labels.get(labels.REMOTE_CLUSTER_ID) == peer


def shown(facts: PeerFacts, own: tuple[NodeNetworkStatus, ...]) -> dict[str, Any]:
    """The network of a peer as one JSON object; ``live`` comes from the daemon.

    Args:
        facts: of the peer, with the network that is joined with it.
        own: this cluster's nodes, where there are several: the same of all peers.
    """
    made = asdict(facts.joined or JoinedFacts())
    problems = made.pop("problems")
    return {
        "peer": facts.peer,
        **made,
        "nodes": own,
        "problems": problems,
        "live": facts.network,
    }
