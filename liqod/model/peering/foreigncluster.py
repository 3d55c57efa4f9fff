"""Makes the status of a ForeignCluster from the facts about its peer. Pure.

Roles, condition types and their words are Liqo's, as objects of a real peering show them:
``liqoctl`` and people's scripts read them. Times are added by the writer
(:func:`liqod.model.objects.conditions.all_dated`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from liqod.model.objects.conditions import holds, is_status
from liqod.model.view.facts import LinkFacts, LinkProblem
from liqod.resources.core import (
    CONSUMER,
    CONSUMER_AND_PROVIDER,
    PROVIDER,
    UNKNOWN,
    Module,
    Modules,
    PeerCondition,
)
from liqod.resources.nodes import NODE, RUNNING, VIRTUAL_KUBELET, VirtualNode

API_SERVER = "APIServerStatus"
TENANT = "AuthTenantStatus"
IDENTITY = "AuthIdentityControlPlaneStatus"
VIRTUAL_NODES = "OffloadingVirtualNodeStatus"
NODES = "OffloadingNodeStatus"
CONFIGURATION, GATEWAY = "NetworkConfigurationStatus", "NetworkGatewayPresence"
SERVER, CLIENT = "NetworkGatewayServerStatus", "NetworkGatewayClientStatus"
CONNECTION = "NetworkConnectionStatus"
ANSWERS = "its API server answers"
"""Beginning of a reason where the API server answers, even if other things do not work."""
REACHED = {
    "direct": "directly",
    "in-band": "in-band: through the tunnel",
    "channel": "by the channel to its daemon",
}
"""Each way to an API server, in words."""
DEGRADED = "APIServerDegraded"
"""Reason of the condition where the API server answers and something small does not work."""
UNUSABLE = "APIServerUnusable"
"""The same where something grave does not."""
REFUSES, UNTRUSTED = "APIServerRefuses", "APIServerUntrusted"
"""Reasons where it does not know us (any more), and where we do not know who answers."""
ESTABLISHED, ERROR, PENDING = "Established", "Error", "Pending"
READY, NOT_READY, SOME_NOT_READY = "Ready", "NotReady", "SomeNotReady"


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """State of the network that is joined with a peer.

    Attributes:
        configured: the ranges of both sides are known.
        gateways: whether the gateway that is there works, by its side (``server``, ``client``).
        stands: whether packets get through; None while nobody has looked.
        why: the reason, as a clause.
    """

    configured: bool = False
    gateways: Mapping[str, bool] = {}
    stands: bool | None = None
    why: str = ""


class ForeignClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a peer, from which its status is made.

    Attributes:
        lends: it is our provider: it gave us an identity, or we ask it for something.
        borrows: it is our consumer: it has a Tenant here.
        tenant_ready: the Tenant was accepted.
        identity_ready: there is a kubeconfig for its control plane.
        api_server: URL of its API server; empty if not known.
        proxy: HTTP proxy on the way to it.
        local: its tenant namespace here.
        remote: our tenant namespace there; empty if not known.
        link: of the way to its API server.
        virtual_nodes: our virtual nodes on it.
        network: the network that is joined with it; None where none is.
        generation: generation of the ForeignCluster.
    """

    lends: bool = False
    borrows: bool = False
    tenant_ready: bool = False
    identity_ready: bool = False
    api_server: str = ""
    proxy: str = ""
    local: str = ""
    remote: str = ""
    link: LinkFacts = LinkFacts()
    virtual_nodes: tuple[VirtualNode, ...] = ()
    network: Joined | None = None
    generation: int = 0


def role(facts: ForeignClusterFacts) -> str:
    """The role of the peer towards this cluster: provider, consumer, both or unknown."""
    if facts.lends and facts.borrows:
        return CONSUMER_AND_PROVIDER
    if facts.lends:
        return PROVIDER
    return CONSUMER if facts.borrows else UNKNOWN


def status(facts: ForeignClusterFacts) -> dict[str, Any]:
    """The whole status as JSON; its conditions carry no times yet."""
    namespaces = {"local": facts.local, "remote": facts.remote}
    made: dict[str, Any] = {
        "role": role(facts),
        "apiServerUrl": facts.api_server,
        "foreignProxyUrl": facts.proxy,
        "tenantNamespace": {key: value for key, value in namespaces.items() if value},
        "observedGeneration": facts.generation,
        "conditions": _plain(_api_server(facts)),
        "modules": _modules(facts),
    }
    return {key: value for key, value in made.items() if value not in ("", [], {})}


def is_lost(status: Mapping[str, Any]) -> bool:
    """True if a status says that the peer's API server does not answer."""
    return is_status(status.get("conditions"), API_SERVER, ERROR)


def _modules(facts: ForeignClusterFacts) -> dict[str, Any]:
    authentication = (*_tenant(facts), *_identity(facts))
    offloading = _offloading(facts.virtual_nodes)
    modules = Modules(
        networking=Module(facts.network is not None, _networking(facts.network)),
        authentication=Module(facts.lends or facts.borrows, authentication),
        offloading=Module(bool(facts.virtual_nodes), offloading),
    )
    return {
        name: {
            "enabled": module.enabled,
            **({"conditions": _plain(module.conditions)} if module.conditions else {}),
        }
        for name, module in msgspec.structs.asdict(modules).items()
    }


def _plain(found: Iterable[PeerCondition]) -> list[dict[str, Any]]:
    plain: list[dict[str, Any]] = msgspec.to_builtins(list(found))
    return plain


def _api_server(facts: ForeignClusterFacts) -> tuple[PeerCondition, ...]:
    link = facts.link
    if not facts.lends or not facts.identity_ready or link.state == "idle":
        return ()
    degraded = link.state == "up" and bool(link.degraded)
    if degraded and not link.grave:
        return (PeerCondition(API_SERVER, ESTABLISHED, DEGRADED, link.why),)
    if link.state == "up" and not degraded:
        message = "The foreign cluster API Server is ready"
        return (PeerCondition(API_SERVER, ESTABLISHED, "APIServerReady", message),)
    message = link.why or "The foreign cluster API Server is not ready"
    reason = UNUSABLE if degraded else _REASONS[link.problem]
    return (PeerCondition(API_SERVER, ERROR, reason, message),)


_REASONS: dict[LinkProblem, str] = {
    "": "APIServerNotReady",
    "refused": REFUSES,
    "untrusted": UNTRUSTED,
}


def _tenant(facts: ForeignClusterFacts) -> tuple[PeerCondition, ...]:
    if not facts.borrows:
        return ()
    if facts.tenant_ready:
        message = "The tenant has been successfully configured"
        return (PeerCondition(TENANT, READY, "TenantReady", message),)
    message = "The tenant is not correctly configured"
    return (PeerCondition(TENANT, NOT_READY, "TenantNotReady", message),)


def _identity(facts: ForeignClusterFacts) -> tuple[PeerCondition, ...]:
    if not facts.lends:
        return ()
    if facts.identity_ready:
        message = "The identity has been successfully configured"
        return (PeerCondition(IDENTITY, READY, "IdentityReady", message),)
    message = "The identity is not correctly configured"
    return (PeerCondition(IDENTITY, NOT_READY, "IdentityNotReady", message),)


def _networking(network: Joined | None) -> tuple[PeerCondition, ...]:
    if network is None:
        return ()
    found = [
        _is(network.configured, CONFIGURATION, "NetworkConfiguration", "the network configuration"),
        _is(bool(network.gateways), GATEWAY, "Gateway", "a gateway of this cluster"),
    ]
    for side, works in network.gateways.items():
        type_ = SERVER if side == "server" else CLIENT
        found.append(_is(works, type_, f"Gateway{side.capitalize()}", f"the gateway {side}"))
    if network.stands is None:
        message = network.why or "nobody has looked yet whether packets get through"
        found.append(PeerCondition(CONNECTION, PENDING, "ConnectionPending", message))
    elif network.stands:
        message = network.why or "packets get through"
        found.append(PeerCondition(CONNECTION, ESTABLISHED, "ConnectionEstablished", message))
    else:
        message = network.why or "no packet gets through"
        found.append(PeerCondition(CONNECTION, ERROR, "ConnectionError", message))
    return tuple(found)


def _is(works: bool, type_: str, name: str, words: str) -> PeerCondition:
    if works:
        return PeerCondition(type_, READY, f"{name}Ready", f"{words} is ready")
    return PeerCondition(type_, NOT_READY, f"{name}NotReady", f"{words} is not ready")


def _offloading(nodes: tuple[VirtualNode, ...]) -> tuple[PeerCondition, ...]:
    if not nodes:
        return ()
    kubelets = [_runs(node, VIRTUAL_KUBELET) for node in nodes]
    made = [node for node in nodes if node.spec.create_node is not False]
    found = [_sum(VIRTUAL_NODES, "virtual nodes", "VirtualNodes", kubelets)]
    if made:
        found.append(_sum(NODES, "nodes", "Nodes", [_runs(node, NODE) for node in made]))
    return tuple(found)


def _runs(node: VirtualNode, type_: str) -> bool:
    return holds(node.status.conditions, type_, RUNNING)


def _sum(type_: str, words: str, name: str, good: list[bool]) -> PeerCondition:
    if all(good):
        return PeerCondition(type_, READY, f"{name}Ready", f"All {words} are ready")
    if any(good):
        message = f"Some {words} are not ready"
        return PeerCondition(type_, SOME_NOT_READY, f"{name}SomeNotReady", message)
    return PeerCondition(type_, NOT_READY, f"{name}NotReady", f"All {words} are not ready")
