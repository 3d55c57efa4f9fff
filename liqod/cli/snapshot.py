"""Reads what ``status`` shows from the API server: custom resources, nodes and pods, no daemon."""

import time
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from liqod.errors import Forbidden, NotFound
from liqod.identity import certificates
from liqod.kube.client import Client
from liqod.kube.kinds import LEASES, MUTATING_WEBHOOKS, NODES, PODS, Kind
from liqod.kube.meta import ObjectMeta
from liqod.model import labels
from liqod.model.overview import Pod, Snapshot
from liqod.resources import (
    FOREIGN_CLUSTERS,
    IDENTITIES,
    NAMESPACE_OFFLOADINGS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
    ForeignCluster,
    Identity,
    NamespaceOffloading,
    ResourceSlice,
    Tenant,
    VirtualNode,
)

T = TypeVar("T")

ORDINARY = ("ContainerCreating", "PodInitializing")
"""Reasons of waiting containers that pass by themselves."""
REQUIRED = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
"""Conditions that a pod needs before it is ready, in their order."""


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _State(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None


class _Container(msgspec.Struct, frozen=True):
    name: str
    state: _State = _State()


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[_Condition, ...] = ()
    init_container_statuses: tuple[_Container, ...] = ()
    container_statuses: tuple[_Container, ...] = ()


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _PodSpec = _PodSpec()
    status: _Status = _Status()


class _Node(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    status: _Status = _Status()


async def take(client: Client, namespace: str, cluster_id: str) -> Snapshot:
    """A snapshot of the cluster; kinds that may not be read or are not there are empty."""
    virtual_nodes = await _list(client, VIRTUAL_NODES, VirtualNode)
    nodes = await _list(client, NODES, _Node, labels=f"{labels.TYPE}={labels.VIRTUAL_NODE_TYPE}")
    out: list[Pod] = []
    for node in virtual_nodes:
        found = await _list(client, PODS, _Pod, fields=f"spec.nodeName={node.name}")
        out += [_pod(pod) for pod in found]
    leader, age = await _leader(client, namespace)
    return Snapshot(
        cluster_id=cluster_id,
        leader=leader,
        leader_age=age,
        webhook=await _webhook(client),
        foreign_clusters=await _list(client, FOREIGN_CLUSTERS, ForeignCluster),
        slices=await _list(client, RESOURCE_SLICES, ResourceSlice),
        tenants=await _list(client, TENANTS, Tenant),
        virtual_nodes=virtual_nodes,
        offloadings=await _list(client, NAMESPACE_OFFLOADINGS, NamespaceOffloading),
        nodes={node.metadata.name: _unready(node.status) for node in nodes},
        pods=tuple(out),
        expiries=_expiries(await _list(client, IDENTITIES, Identity)),
        lent=await _lent(client),
    )


async def _list(
    client: Client, kind: Kind, decode: type[T], *, labels: str = "", fields: str = ""
) -> tuple[T, ...]:
    try:
        return tuple(await client.list(kind, decode=decode, labels=labels, fields=fields))
    except (NotFound, Forbidden):
        return ()


def _pod(pod: _Pod) -> Pod:
    ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    owners = [ref.name for ref in pod.metadata.owner_references if ref.kind == "DaemonSet"]
    return Pod(
        pod.metadata.namespace,
        pod.metadata.name,
        pod.spec.node_name,
        pod.status.phase,
        ready,
        "" if ready or pod.status.phase == "Succeeded" else _why(pod.status),
        owners[0] if owners and not ready else "",
    )


def _why(status: _Status) -> str:
    """Why a pod is not ready: the pod's own word, a container's, or a condition's."""
    if status.message or status.reason:
        return status.message or status.reason
    for container in (*status.init_container_statuses, *status.container_statuses):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in ("", *ORDINARY):
            return f"{container.name}: {waiting.message or waiting.reason}"
    for condition in status.conditions:
        if condition.type in REQUIRED and condition.status != "True" and condition.message:
            return condition.message
    return ""


def _unready(status: _Status) -> str:
    """Why a Node is not Ready; empty when it is."""
    for condition in status.conditions:
        if condition.type == "Ready":
            return "" if condition.status == "True" else condition.message or condition.reason
    return "it has no condition Ready"


def _expiries(identities: tuple[Identity, ...]) -> dict[tuple[str, str], float]:
    now = time.time()
    return {
        (identity.spec.cluster_id, identity.name): certificates.read(
            identity.spec.auth_params.signed_crt
        ).ends
        - now
        for identity in identities
        if identity.spec.auth_params.signed_crt
    }


async def _lent(client: Client) -> dict[str, int]:
    """How many pods run here for each consumer: those made from a shadow pod."""
    selector = f"{labels.MANAGED_BY}={labels.MANAGED_BY_SHADOW_POD}"
    count: dict[str, int] = {}
    for pod in await _list(client, PODS, _Pod, labels=selector):
        origin = pod.metadata.labels.get(labels.ORIGIN, "")
        count[origin] = count.get(origin, 0) + 1
    return count


async def _leader(client: Client, namespace: str) -> tuple[str, float | None]:
    """Who holds the daemon's Lease, and how many seconds ago it was renewed."""
    lease: dict[str, Any] | None = await client.find(LEASES, labels.LEADER_LEASE, namespace)
    if lease is None:
        return "", None
    spec = lease.get("spec", {})
    renewed = spec.get("renewTime")
    if not renewed:
        return "", None
    age = time.time() - datetime.fromisoformat(renewed).timestamp()
    return spec.get("holderIdentity") or "", max(age, 0.0)


async def _webhook(client: Client) -> str:
    """The daemon's verdict on its webhook's path, as it noted it; empty when unknown."""
    try:
        hooks = await client.list(MUTATING_WEBHOOKS)
    except Forbidden:
        return ""
    for hook in hooks:
        verdict = hook["metadata"].get("annotations", {}).get(labels.WEBHOOK_REACHABLE)
        if verdict:
            return str(verdict)
    return ""
