"""Makes the status of a ForeignCluster from the facts about its peer. Pure.

Roles, condition types and their words are Liqo's, as objects of a real peering show them:
``liqoctl`` and people's scripts read them. Times are added by the writer
(:func:`liqod.model.objects.conditions.all_dated`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from liqod.model.objects.conditions import is_status
from liqod.model.view.facts import LinkProblem, NodeFacts, PeerFacts
from liqod.model.view.networkfacts import NetworkFacts
from liqod.resources.core import (
    CONSUMER,
    CONSUMER_AND_PROVIDER,
    PROVIDER,
    UNKNOWN,
    Module,
    Modules,
    PeerCondition,
)

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
"""Each path to an API server, in words."""
DEGRADED = "APIServerDegraded"
"""Reason of the condition where the API server answers and something small does not work."""
UNUSABLE = "APIServerUnusable"
"""The same where something grave does not."""
REFUSES, UNTRUSTED = "APIServerRefuses", "APIServerUntrusted"
"""Reasons where it does not accept us (any more), and where its certificate is not trusted."""
ESTABLISHED, ERROR, PENDING = "Established", "Error", "Pending"
READY, NOT_READY, SOME_NOT_READY = "Ready", "NotReady", "SomeNotReady"


def role(facts: PeerFacts) -> str:
    """The role of the peer towards this cluster: provider, consumer, both or unknown."""
    if facts.lends and facts.borrows:
        return CONSUMER_AND_PROVIDER
    if facts.lends:
        return PROVIDER
    return CONSUMER if facts.borrows else UNKNOWN


def status(facts: PeerFacts, generation: int = 0) -> dict[str, Any]:
    """The whole status as JSON; its conditions carry no times yet.

    Args:
        facts: of the peer.
        generation: of the ForeignCluster.
    """
    namespaces = {"local": facts.tenant_namespace, "remote": facts.remote_namespace}
    made: dict[str, Any] = {
        "role": role(facts),
        "apiServerUrl": facts.server,
        "foreignProxyUrl": facts.proxy,
        "tenantNamespace": {key: value for key, value in namespaces.items() if value},
        "observedGeneration": generation,
        "conditions": _plain(_api_server(facts)),
        "modules": _modules(facts),
    }
    return {key: value for key, value in made.items() if value not in ("", [], {})}


def is_lost(status: Mapping[str, Any]) -> bool:
    """True if the peer's API server does not answer, by a status."""
    return is_status(status.get("conditions"), API_SERVER, ERROR)


def _modules(facts: PeerFacts) -> dict[str, Any]:
    authentication = (*_tenant(facts), *_identity(facts))
    nodes = facts.reflection.nodes
    modules = Modules(
        networking=Module(facts.network is not None, _networking(facts.network)),
        authentication=Module(facts.lends or facts.borrows, authentication),
        offloading=Module(bool(nodes), _offloading(nodes)),
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


def _api_server(facts: PeerFacts) -> tuple[PeerCondition, ...]:
    link = facts.link
    if not facts.lends or not facts.remote_namespace or link.state == "idle":
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


def _tenant(facts: PeerFacts) -> tuple[PeerCondition, ...]:
    if not facts.borrows:
        return ()
    if facts.tenant_ready:
        message = "The tenant has been successfully configured"
        return (PeerCondition(TENANT, READY, "TenantReady", message),)
    message = "The tenant is not correctly configured"
    return (PeerCondition(TENANT, NOT_READY, "TenantNotReady", message),)


def _identity(facts: PeerFacts) -> tuple[PeerCondition, ...]:
    if not facts.lends:
        return ()
    if facts.remote_namespace:
        message = "The identity has been successfully configured"
        return (PeerCondition(IDENTITY, READY, "IdentityReady", message),)
    message = "The identity is not correctly configured"
    return (PeerCondition(IDENTITY, NOT_READY, "IdentityNotReady", message),)


def _networking(network: NetworkFacts | None) -> tuple[PeerCondition, ...]:
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


def _offloading(nodes: tuple[NodeFacts, ...]) -> tuple[PeerCondition, ...]:
    if not nodes:
        return ()
    made = [node.runs for node in nodes if node.runs is not None]
    found = [_sum(VIRTUAL_NODES, "virtual nodes", "VirtualNodes", [node.kubelet for node in nodes])]
    if made:
        found.append(_sum(NODES, "nodes", "Nodes", made))
    return tuple(found)


def _sum(type_: str, words: str, name: str, good: list[bool]) -> PeerCondition:
    if all(good):
        return PeerCondition(type_, READY, f"{name}Ready", f"All {words} are ready")
    if any(good):
        message = f"Some {words} are not ready"
        return PeerCondition(type_, SOME_NOT_READY, f"{name}SomeNotReady", message)
    return PeerCondition(type_, NOT_READY, f"{name}NotReady", f"All {words} are not ready")
