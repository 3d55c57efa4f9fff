"""A Deployment for each gateway, as Liqo's tools look for it; its pod represents the tunnel.

``liqoctl`` goes on only when the Deployment ``gw-<peer>`` has a Ready pod: with Liqo that pod is
the gateway. Here the daemon is, mostly outside of the cluster or in a pod of its own. So this pod
is never scheduled (a gate that nobody opens prevents it, and ``kubectl get`` shows the gate),
runs nothing, and is Ready when the gateway is accepted and its tunnel in order. Its condition names
the gateway. Its phase is that of the gateway, too: monitors take a pod that is Pending for
long for one in trouble.
"""

from functools import partial
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import DEPLOYMENTS, PODS
from liqod.apimachinery.meta import ObjectMeta, Partial, owner_reference
from liqod.kube import times
from liqod.kube.controller import Controller
from liqod.kube.ensure import ensure
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, always
from liqod.model import ids
from liqod.model.objects import conditions
from liqod.network.gateway.connections import Connections
from liqod.network.gateway.gatewayobjects import kind_of
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.orders.tunnels import Gateway, TunnelState
from liqod.peers.peer import Peer
from liqod.runtime.observable import Observable

STAND_IN: Final = "standin"
"""The one key: a peer has one gateway that counts."""
SELECTION: Final = Selection(labels=f"{labels.STAND_IN}={labels.TRUE}")
READY: Final = "Ready"
RUNNING: Final = "Running"
PENDING: Final = "Pending"
GATE: Final = labels.STAND_IN_GATE
BROKEN: Final = "Error"
"""State of a tunnel that cannot be as desired, independent of the other side."""

Json = dict[str, Any]


class GatewayDeployments(Controller[str]):
    """Keeps the Deployment of a peer's gateway, and reports its state in its pod's conditions.

    Args:
        ends: of the tunnel.
        connections: has the state of the tunnel.
    """

    def __init__(
        self, peer: Peer, ends: Observable[TunnelEndpoints], connections: Connections
    ) -> None:
        self._peer = peer
        self._client = peer.context.client
        self._ends = ends
        self._connections = connections
        within = (peer.tenant_namespace,)
        self._deployments = Watched(DEPLOYMENTS, always(STAND_IN), SELECTION, within=within)
        self._pods = Watched(PODS, always(STAND_IN), SELECTION, within=within)
        told = (ends.wait_changed, connections.wait_reported)
        super().__init__(
            peer,
            "network",
            self._deployments,
            self._pods,
            name="stand-ins of gateways",
            tasks=[partial(self.whenever, wait, always(STAND_IN)) for wait in told],
            budget=peer.work,
        )

    async def reconcile(self, key: str) -> float | None:
        """Have the Deployment of the gateway that counts alone, with its state in the pod."""
        ends, place = self._ends.now, self._peer.tenant_namespace
        if not ends.looked:
            return None
        works = self._connections.state.state != BROKEN
        self._peer.network.set_gateways(
            {ends.gateway.side: works} if ends.gateway is not None else {}
        )
        name = ids.gateway_resource(ends.gateway.name) if ends.gateway is not None else ""
        for one in self._deployments.store.values(Partial):
            if one.metadata.namespace == place and one.metadata.name != name:
                uid = one.metadata.uid
                await self._client.delete(DEPLOYMENTS, one.metadata.name, place, uid=uid)
        if ends.gateway is None:
            return None
        wanted = deployment(self._peer.id, place, ends.gateway)
        live = self._deployments.store.get((place, name))
        await ensure(self._client, DEPLOYMENTS, wanted, live=live)
        for pod in self._pods.store.values(GatewayPod):
            if pod.metadata.namespace == place and pod.metadata.deletion_timestamp is None:
                await self._write_status(pod)
        return None

    async def _write_status(self, pod: "GatewayPod") -> None:
        """Let a pod show the state of the gateway."""
        found = pod.status.conditions
        told = conditions.dated(ready(self._connections.state), found, times.now())
        phase = RUNNING if told["status"] == "True" else PENDING
        known = told.items() <= (conditions.find(found, READY) or {}).items()
        if known and pod.status.phase == phase:
            return
        others = [one for one in found if one["type"] != READY]
        # The scheduler writes the same list: a writer that missed the other's write tries again.
        version = {"resourceVersion": pod.metadata.resource_version}
        status = {"phase": phase, "conditions": [*others, told]}
        patch = {"metadata": version, "status": status}
        where = (PODS, pod.metadata.name, patch, pod.metadata.namespace)
        await self._client.patch(*where, subresource="status")


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""
    conditions: tuple[Json, ...] = ()


class GatewayPod(msgspec.Struct, frozen=True):
    """A pod that represents a tunnel, for reading."""

    metadata: ObjectMeta
    status: _Status = _Status()


def ready(state: TunnelState) -> Json:
    """The condition of a pod whose gateway is accepted, by the state of its tunnel."""
    broken = state.state == BROKEN
    return {
        "type": READY,
        "status": "False" if broken else "True",
        "reason": "TunnelError" if broken else "GatewayAccepted",
        "message": state.why
        if broken
        else f"{GATE}: liqod's daemon is this gateway; nothing runs here",
    }


def deployment(peer: str, namespace: str, gateway: Gateway) -> Json:
    """The Deployment of a gateway: it goes with it.

    Args:
        peer: the peer's id.
        namespace: its tenant namespace here.
        gateway: the one that counts.
    """
    owner = ObjectMeta(name=gateway.name, uid=gateway.uid)
    marks = {labels.STAND_IN: labels.TRUE, labels.REMOTE_CLUSTER_ID: peer}
    # Those of Liqo's gateways, by which its tools find the one that is active. They are no part of
    # the selector, which cannot be changed.
    shown = {
        **marks,
        labels.NETWORKING_COMPONENT: labels.GATEWAY_COMPONENT,
        labels.GATEWAY_NAME: gateway.name,
        labels.GATEWAY_NAMESPACE: namespace,
        labels.ACTIVE_GATEWAY: labels.TRUE,
    }
    container = {
        "name": "gateway",
        "image": "liqod",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
        },
    }
    return {
        "metadata": {
            "name": ids.gateway_resource(gateway.name),
            "namespace": namespace,
            "labels": shown,
            "ownerReferences": [owner_reference(kind_of(gateway), owner)],
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": marks},
            "template": {
                "metadata": {"labels": shown},
                "spec": {
                    "schedulingGates": [{"name": GATE}],
                    "automountServiceAccountToken": False,
                    # For admission rules of this cluster: a pod that never starts requests nothing.
                    "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [container],
                },
            },
        },
    }
