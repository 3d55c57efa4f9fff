"""Facts about the network that is joined with one peer, for the doctor and for viewers. Pure.

The package that keeps the network fills :class:`NetworkFacts` from memory; the doctor's layers
(:mod:`liqod.plugins.checks.network`) find by it the part that fails first. :class:`JoinedFacts` and
the nodes' paths are filled in this module, from objects.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.model.network import podpath
from liqod.model.network.pathfigures import PathFigures
from liqod.model.objects import conditions
from liqod.resources import Configuration
from liqod.resources.fabric import APPLIED, REACHABLE, InternalFabric, InternalNode
from liqod.resources.networking import (
    ClusterRanges,
    Connection,
    GatewayClient,
    GatewayEndpoint,
    GatewayServer,
    StandardCondition,
)


class NodeWay(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node's path to the gateway.

    Attributes:
        name: of the Node.
        missing: its missing parts, such as ``route to 10.71.0.0/16``.
        told: seconds since it last reported; None: never.
        problem: the reason why it cannot be set up; empty where nothing blocks it.
    """

    name: str
    missing: tuple[str, ...] = ()
    told: float | None = None
    problem: str = ""


class PodTrip(msgspec.Struct, frozen=True, omit_defaults=True):
    """A packet from a local pod to a pod of the peer, and back.

    Attributes:
        ago: seconds since.
        took: seconds it took.
        error: the reason why it did not come back; empty where it did.
        way: its source and its destination, as text.
    """

    ago: float
    took: float = 0.0
    error: str = ""
    way: str = ""


ALIVE: Final = 1.5
"""Seconds since the last probe came back within which the tunnel counts as answering."""
QUIET: Final = 30.0
"""Seconds for which a working tunnel may receive nothing: one sends something every 25 s."""


class NetworkFacts(PathFigures, frozen=True, kw_only=True, omit_defaults=True):
    """The facts about the network of one peer, those that are measured beside those of its objects.

    Attributes:
        problem: the missing right or program for joining networks; empty for none.
        waits: the step that a tunnel waits for; empty for none.
        configured: both sides have their ranges.
        gateways: whether the existing gateway works, by its side (``server``, ``client``).
        stands: whether packets get through; None while that is not checked.
        why: the reason, as a clause.
        own: ranges of this cluster's and their aliases at the peer, as that reports, in the same
            form; empty without a report, as from Liqo.
        aliases: ranges of the peer's and their local aliases, such as
            ``10.244.0.0/16 as 10.71.0.0/16``.
        backend: name of the tunnel's backend.
        side: ``server`` or ``client``.
        api: the path to the peer's API server, ``direct`` or ``in-band``; empty where no request
            is sent.
        candidates: possible endpoints of the other gateway, the preferred one first.
        port: at which this side listens; 0 where it does not.
        mtu: of the tunnel, in bytes.
        gateway: name of the node with the active gateway.
        standbys: names of the others that could be.
        nodes: the paths of the other nodes.
        pods: the newest trip from pod to pod; None: none yet.
    """

    problem: str = ""
    waits: str = ""
    configured: bool = False
    gateways: dict[str, bool] = msgspec.field(default_factory=dict)
    stands: bool | None = None
    why: str = ""
    own: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    backend: str = ""
    side: str = ""
    api: str = ""
    candidates: tuple[str, ...] = ()
    port: int = 0
    mtu: int = 0
    gateway: str = ""
    standbys: tuple[str, ...] = ()
    nodes: tuple[NodeWay, ...] = ()
    pods: PodTrip | None = None

    @property
    def answers(self) -> bool:
        """True if a probe through the tunnel has come back just now."""
        return self.echo is not None and self.echo < ALIVE

    @property
    def carries(self) -> bool:
        """True if anything has come from the other gateway lately."""
        return self.heard is not None and self.heard < QUIET

    def rounded(self) -> "NetworkFacts":
        """The same with ages in tenths of a second: smaller differences are not shown again."""
        ages = {name: getattr(self, name) for name in ("heard", "arrived", "handshake", "echo")}
        changed = {name: round(age, 1) for name, age in ages.items() if age is not None}
        trip = self.pods
        if trip is not None:
            trip = msgspec.structs.replace(trip, ago=round(trip.ago, 1), took=round(trip.took, 6))
        rtt = None if self.rtt is None else round(self.rtt, 6)
        loss = None if self.loss is None else round(self.loss, 3)
        return msgspec.structs.replace(self, rtt=rtt, loss=loss, pods=trip, **changed)


class JoinedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about the network of one peer that its objects have.

    Attributes:
        state: Connected, Connecting, Error; empty where there is no tunnel.
        latency: of a round trip, as text; empty where none was made.
        side: ``server`` where this cluster is dialled, ``client`` where it dials.
        backend: its backend.
        endpoints: of the server.
        mtu: of the tunnel, in bytes; 0 for the usual.
        own: this cluster's ranges, as sent to the peer.
        ranges: the peer's, as it uses them itself.
        aliases: their local aliases, in the same order.
        pods: whether a packet goes from a local pod's address to one of the peer's and back, as
            :data:`liqod.apimachinery.labels.PODS`; empty without a report.
        gateway: name of the node that has the tunnels, where one of several has them.
        standbys: names of the others.
        problems: the obstacles, as sentences.
    """

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
    problems: tuple[str, ...] = ()

    @property
    def fault(self) -> str:
        """The reason why it does not work, from its Connection, as a clause; empty if it does."""
        if self.state != "Connected":
            return f"the tunnel is {self.state or 'not there yet'}"
        path = podpath.read(self.pods)
        return f"from pod to pod {path.why}" if path.state == "failed" else ""


FOLLOWS = 0.0
"""Seconds since a node was last seen, where it has no fault."""


def ways(
    fabric: InternalFabric | None,
    nodes: Iterable[InternalNode],
    refused: Mapping[str, str] | None = None,
) -> tuple[NodeWay, ...]:
    """The paths of all nodes but the gateway, by name; none where there is no overlay.

    Args:
        fabric: the InternalFabric.
        nodes: the InternalNodes.
        refused: the reason why a Node, or a range of one, is missing from them, by its name.
    """
    if fabric is None or fabric.spec is None:
        return ()
    gateway = fabric.spec.gateway.node
    found = {each.name: _of(each, fabric) for each in nodes if each.name != gateway}
    for name, why in (refused or {}).items():
        if name != gateway and (name not in found or not found[name].problem):
            found[name] = NodeWay(name, told=FOLLOWS, problem=why)
    return tuple(found[name] for name in sorted(found))


def _of(node: InternalNode, fabric: InternalFabric) -> NodeWay:
    status = node.status
    applied = conditions.of_type(status.conditions, APPLIED)
    if applied is None:
        return NodeWay(node.name)
    problem = ""
    if applied.status != "True":
        problem = applied.message or applied.reason
    elif status.observed_generation < (
        node.metadata.generation or 0
    ) or status.fabric_generation < (fabric.metadata.generation or 0):
        problem = "it has not followed the last change: `liqod node` may not run there"
    else:
        reached = conditions.of_type(status.conditions, REACHABLE)
        if reached is not None and reached.status == "False":
            problem = reached.message or reached.reason
    return NodeWay(node.name, told=FOLLOWS, problem=problem)


def joined(
    connections: Sequence[Connection],
    gateways: Sequence[GatewayServer | GatewayClient] | None = None,
    configurations: Sequence[Configuration] | None = None,
) -> JoinedFacts:
    """The facts of one peer's network by its objects.

    Args:
        connections: its Connections.
        gateways: its GatewayServers and GatewayClients; None: not read.
        configurations: its Configurations; None: not read.
    """
    facts: dict[str, Any] = {}
    problems: list[str] = []
    for one in gateways or ():
        bad = [each for each in one.status.conditions if each.status in ("False", "Unknown")]
        problems += [f"{one.KIND.name} {one.name}: {each.message or each.reason}" for each in bad]
    servers = [each for each in gateways or () if isinstance(each, GatewayServer)]
    gateway = _first(servers) or _first(gateways or ())
    if isinstance(gateway, GatewayServer):
        ref, told = gateway.spec.server_template_ref, gateway.status.endpoint
        facts = {"side": "server", "endpoints": _endpoints(told), "mtu": gateway.spec.mtu}
    elif isinstance(gateway, GatewayClient):
        ref = gateway.spec.client_template_ref
        dialled = _endpoints(gateway.spec.endpoint)
        facts = {"side": "client", "endpoints": dialled, "mtu": gateway.spec.mtu}
    else:
        ref = None
        if gateways is not None:
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
    if configurations is not None and not configurations:
        problems.append("there is no Configuration")
    for found in configurations or ():
        bad = [each for each in found.status.conditions if each.status == "False"]
        problems += [f"Configuration {found.name}: {each.message or each.reason}" for each in bad]
        facts |= {
            "own": _ranges(found.spec.local),
            "ranges": _ranges(found.spec.remote),
            "aliases": _ranges(found.status.remote),
        }
    return JoinedFacts(**facts, problems=tuple(problems))


def _first(found: Sequence[Any]) -> Any:
    """The gateway that counts: the one that was accepted, else any."""

    def accepted(conditions: tuple[StandardCondition, ...]) -> bool:
        return any(each.type == "Accepted" and each.status == "True" for each in conditions)

    good = [each for each in found if accepted(each.status.conditions)]
    return next(iter(good or found), None)


def _endpoints(endpoint: GatewayEndpoint | None) -> tuple[str, ...]:
    if endpoint is None:
        return ()
    port = endpoint.port if endpoint.port is not None else next(iter(endpoint.ports), 0)
    return tuple(f"[{a}]:{port}" if ":" in a else f"{a}:{port}" for a in endpoint.addresses)


def _ranges(side: ClusterRanges | None) -> tuple[str, ...]:
    return () if side is None else (*side.cidr.pod, *side.cidr.external)
