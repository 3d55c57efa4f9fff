"""Judges a peer's gateway objects: the one that counts, or why one is refused. Pure.

Of all GatewayServers and GatewayClients of a peer one counts: the oldest that can be had. The
template that it names selects the backend of its tunnel: ``<backend>-server``,
``<backend>-client``, in liqod's own namespace, as Liqo's ``wireguard-server``.
"""

import ipaddress
import re
from collections.abc import Container, Iterable, Mapping
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.model.crossing.addresses import parse
from liqod.model.network.pathfigures import LEAST_MTU
from liqod.network.dataplane.names import OVERLAY_PORT
from liqod.network.failover.candidatemessages import PORT as CANDIDATES
from liqod.network.gateway.gatewayobjects import (
    TEMPLATES,
    Object,
    age,
    first_port,
    reported_port,
    requested_port,
    side_of,
)
from liqod.network.orders.tunnels import Listening
from liqod.resources.base import ObjectRef
from liqod.resources.networking import (
    GROUP,
    VERSION,
    GatewayClient,
    GatewayEndpoint,
    GatewayServer,
)

NOT_MADE: Final = "BackendNotAllowed"
"""The reason where this cluster makes no tunnels of that kind; ``status.backends`` has those that
it makes."""
OTHER_NAMESPACE: Final = "OtherNamespace"
"""The reason where it is not in the peer's tenant namespace."""
CANNOT_JOIN: Final = "CannotJoin"
"""The reason where this machine lacks something, or is not configured to do it."""
UNDECIDED: Final = "Undecided"
"""The reason where it is not known yet what this machine can do; the condition is ``Unknown``."""
PORTS: Final = 1024
"""How many ports from there are tried where one is another gateway's already."""
MTU: Final = 1340
"""Default MTU of a tunnel, in bytes: Liqo's, which fits through most clouds."""
MOST_MTU: Final = 9000
LEAST_PORT: Final = 1024
KEPT: Final = frozenset(
    (2379, 2380, 4789, OVERLAY_PORT, 5353, 6081, 6443, 8472, *range(10248, 10260), CANDIDATES)
)
"""Ports that no gateway has, of neither protocol, besides those below and those of liqod's own
(:attr:`LocalFacts.kept`), but for its backend's own: a writer of GatewayServers is not to take the
place of a kubelet, an API server, a store, a CNI's overlay or this daemon that is down."""
ENDPOINTS: Final = 8
"""Addresses of a peer's gateway that are tried."""
WEBSOCKET: Final = "websocket"
"""The backend by whose rules tunnels are carried where no UDP passes."""
_NAME = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*\.?",
    re.IGNORECASE,
)


class GatewayRefusal(msgspec.Struct, frozen=True):
    """Why a gateway is not.

    Attributes:
        reason: one word, for programs.
        message: a sentence, for people.
    """

    reason: str
    message: str


USUAL: Final = Listening()


class LocalFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of this cluster by which gateways are judged.

    Attributes:
        namespace: liqod's own.
        backends: those that may be used, by name.
        networks: this cluster's own, textual prefixes.
        problem: why no tunnel can be here at all, a clause; empty where one can.
        websocket: whether servers take their tunnels in a websocket, too.
        kept: ports at which this daemon listens itself, when it runs.
        undecided: the backends of which it is not known whether they work here, and why, a clause.
        unknown: why nothing is known of this machine, a clause; empty where something is.
    """

    namespace: str
    backends: Mapping[str, Listening]
    networks: tuple[str, ...] = ()
    problem: str = ""
    websocket: bool = False
    kept: frozenset[int] = frozenset()
    undecided: Mapping[str, str] = {}
    unknown: str = ""


def judged(
    found: Iterable[Object], peer: str, here: LocalFacts
) -> tuple[Object | None, dict[str, GatewayRefusal]]:
    """The one that counts, and by UID why the others do not.

    Args:
        found: all of the peer's tenant namespace, without those that are being deleted.
        peer: its id.
        here: what decides.
    """
    chosen: Object | None = None
    refused: dict[str, GatewayRefusal] = {}
    for one in sorted(found, key=age):
        problem = refusal(one, peer, here)
        if problem is None and chosen is not None:
            first = f"{chosen.KIND.name} {chosen.metadata.name}"
            problem = GatewayRefusal(
                "AnotherIsFirst", f"{first} is there since before: one peer, one way"
            )
        if problem is not None:
            refused[one.metadata.uid] = problem
        else:
            chosen = one
    return chosen, refused


def elsewhere(one: Object, peer: str, namespace: str) -> GatewayRefusal:
    """Why a gateway outside of its peer's tenant namespace is none.

    `liqoctl create` makes it in the namespace of the kubeconfig where no other is given.
    """
    message = (
        f"gateways of {peer} belong into the namespace {namespace}: delete this one, and make it "
        f"there (liqoctl create {one.KIND.name.lower()} … -n {namespace})"
    )
    return GatewayRefusal(OTHER_NAMESPACE, message)


def refusal(one: Object, peer: str, here: LocalFacts) -> GatewayRefusal | None:
    """Why a gateway cannot be; None where it can."""
    if here.unknown:
        return None
    if here.problem:
        return GatewayRefusal(CANNOT_JOIN, f"the network cannot be joined here: {here.problem}")
    marked = one.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")
    if marked != peer:
        whose = f"of {marked!r}" if marked else "without the label of a peer"
        message = f"it is a gateway {whose}, in the tenant namespace of {peer}"
        return GatewayRefusal("ForeignPeer", message)
    backend = backend_of(one, here)
    if isinstance(backend, GatewayRefusal):
        return backend
    if one.spec.mtu and not LEAST_MTU <= one.spec.mtu <= MOST_MTU:
        message = f"mtu {one.spec.mtu}: {LEAST_MTU} to {MOST_MTU} can be"
        return GatewayRefusal("MtuOutOfRange", message)
    if isinstance(one, GatewayClient):
        return _client(one, here)
    return _server(one, here, backend) if backend in here.backends else None


def backend_of(one: Object, here: LocalFacts) -> str | GatewayRefusal:
    """The backend that the template means."""
    side = side_of(one)
    named = one.spec.server_template_ref if isinstance(one, GatewayServer) else None
    if isinstance(one, GatewayClient):
        named = one.spec.client_template_ref
    ref = named or ObjectRef()
    backend, dash, which = ref.name.rpartition("-")
    ours = (
        ref.kind == TEMPLATES[side]
        and ref.api_version == f"{GROUP}/{VERSION}"
        and ref.namespace == here.namespace
        and dash
        and which == side
    )
    if not ours:
        shown = f"{ref.kind or 'no kind'} {ref.namespace}/{ref.name}"
        return GatewayRefusal(
            "ForeignTemplate",
            f"it names the template {shown}; {TEMPLATES[side]} {here.namespace}/<backend>-{side} "
            "is what this cluster has",
        )
    if backend not in here.backends and backend not in here.undecided:
        known = ", ".join(sorted(here.backends)) or "none"
        return GatewayRefusal(NOT_MADE, f"tunnels by {backend!r}: this cluster makes {known}")
    return backend


def undecided(one: Object, here: LocalFacts) -> str:
    """The reason why a gateway that is not refused may yet be; empty where it surely can be.

    Parts of it that are there stay meanwhile, and no other one counts in its place.
    """
    if here.unknown:
        return f"it is not known yet whether the network can be joined here: {here.unknown}"
    backend = backend_of(one, here)
    assert isinstance(backend, str)
    why = here.undecided.get(backend, "")
    return why and f"it is not known yet whether tunnels by {backend!r} can be made here: {why}"


def _server(one: GatewayServer, here: LocalFacts, backend: str) -> GatewayRefusal | None:
    endpoint = one.spec.endpoint
    if endpoint is None:
        return None
    if endpoint.service_type == "ExternalName":
        return GatewayRefusal("ServiceType", "a gateway cannot be an ExternalName")
    found = (endpoint.port, *endpoint.ports, endpoint.node_port, *endpoint.node_ports)
    named = [port for port in found if port is not None]
    how = here.backends[backend]
    # One that has its port already keeps it: a version before may have given it.
    closed = (each for each in named if _kept(each, how, here.kept) and each != reported_port(one))
    kept = next(closed, None)
    if kept is not None and not _ports(named):
        said = f"{how.transport} port {kept} is kept for other programs"
        return GatewayRefusal("PortKept", said)
    return _ports(named)


def _kept(port: int, how: Listening, ours: Container[int] = ()) -> bool:
    """True for a port of what else runs on a gateway's machine, and may just not now."""
    return port != how.port and (port < LEAST_PORT or port in KEPT or port in ours)


def _client(one: GatewayClient, here: LocalFacts) -> GatewayRefusal | None:
    endpoint = one.spec.endpoint or GatewayEndpoint()
    if not endpoint.addresses or first_port(endpoint) is None:
        return GatewayRefusal("NoEndpoint", "it does not say where the peer's gateway is")
    if len(endpoint.addresses) > ENDPOINTS:
        return GatewayRefusal(
            "TooManyEndpoints", f"{len(endpoint.addresses)} addresses: {ENDPOINTS} do"
        )
    problem = _ports(port for port in (endpoint.port, *endpoint.ports) if port is not None)
    if problem is not None:
        return problem
    for address in endpoint.addresses:
        why = endpoint_problem(address, here)
        if why is not None:
            return GatewayRefusal("BadEndpoint", f"the peer's gateway at {address!r}: {why}")
    return None


def _ports(ports: Iterable[int]) -> GatewayRefusal | None:
    wrong = next((port for port in ports if not 1 <= port <= 65535), None)
    return (
        None
        if wrong is None
        else GatewayRefusal("PortOutOfRange", f"port {wrong}: 1 to 65535 can be")
    )


def endpoint_problem(address: str, here: LocalFacts) -> str | None:
    """Why a peer's gateway cannot be there, as a clause; None where it can."""
    parsed = parse(address)
    if parsed is None:
        return None if _NAME.fullmatch(address) else "it is neither an address nor a name"
    if parsed.is_loopback or parsed.is_unspecified or parsed.is_multicast:
        return "nobody else is there"
    if parsed.is_link_local:
        return "it is good on one link only"
    for prefix in here.networks:
        if parsed in ipaddress.ip_network(prefix, strict=False):
            return f"it lies in this cluster's own network {prefix}"
    return None


def port_of(
    one: GatewayServer, others: Iterable[GatewayServer], how: Listening = USUAL
) -> int | GatewayRefusal:
    """Where a server listens: as before, where it may, else where nobody else does.

    Two that took the same at once both see it; the younger one moves.

    Args:
        one: the server.
        others: those of all peers; it may be among them.
        how: its backend's servers listen.
    """
    asked, exact = requested_port(one, how.port)
    others = [each for each in others if _hinders(each, one, how)]
    if how.shared and not exact:
        # Nothing is gained by another port, but for where somebody else has it.
        exact = True
    taken: dict[int, tuple[str, bool, str, str]] = {}
    for other in sorted(others, key=age, reverse=True):
        held = reported_port(other)
        if held and other.metadata.uid != one.metadata.uid:
            taken[held] = age(other)
    had = reported_port(one)
    if exact:
        if asked in taken and (had != asked or taken[asked] < age(one)):
            return GatewayRefusal("PortTaken", f"port {asked} is another peer's on this machine")
        return asked
    near = range(asked, min(asked + PORTS, 65536))
    if had in near and (had not in taken or taken[had] > age(one)):
        return had
    free = next((port for port in near if port not in taken and not _kept(port, how)), 0)
    return free or GatewayRefusal("PortTaken", f"no port from {asked} on is free on this machine")


def _hinders(other: GatewayServer, one: GatewayServer, how: Listening) -> bool:
    """True if two servers cannot listen at one port."""
    told = other.status.endpoint
    if told is not None and (told.protocol or "UDP") != how.transport:
        return False
    return not how.shared or _named(other) != _named(one)


def _named(one: GatewayServer) -> str:
    return one.spec.server_template_ref.name if one.spec.server_template_ref else ""


def websocket_of(one: Object, backend: str, here: LocalFacts) -> int:
    """TCP port at which the server of a gateway takes the tunnel in a websocket, too; 0 for none.

    A server's own configuration tells whether it does, and a client's annotation.
    """
    how = here.backends.get(WEBSOCKET)
    if how is None or not here.backends[backend].carried:
        return 0
    if isinstance(one, GatewayServer):
        return how.port if here.websocket else 0
    said = one.metadata.annotations.get(labels.WEBSOCKET, "")
    port = int(said) if said.isascii() and said.isdecimal() and len(said) <= 5 else 0
    return port if port <= 65535 else 0
