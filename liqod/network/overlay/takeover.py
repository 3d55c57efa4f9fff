"""Leads the overlay to this node when it becomes the gateway: one write, and one order.

The leader writes the overlay as a whole (:mod:`.writer`). A node that takes over does not wait for
that: the leader may be the very one that is gone.
"""

from functools import partial
from typing import Any

from liqod.cluster.context import ClusterContext
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, always
from liqod.network.dataplane.overlayplan import Overlay, OverlayNode
from liqod.network.failover.role import Role
from liqod.network.orders.overlay import LeadOverlay, ReleaseOverlay
from liqod.network.overlay.remoteoverlay import RemoteOverlay
from liqod.resources.fabric import (
    FABRIC,
    INTERNAL_FABRICS,
    INTERNAL_NODES,
    InternalFabric,
    InternalNode,
)

OVERLAY = "overlay"
"""The one key."""


class Takeover(Controller[str]):
    """Keeps the InternalFabric and this machine's overlay so, while this node is the gateway.

    Args:
        role: whether it is.
        machine: its overlay.
        holder: the name of this daemon.
    """

    def __init__(
        self, context: ClusterContext, role: Role, machine: RemoteOverlay, holder: str
    ) -> None:
        self._context, self._role, self._machine, self._holder = context, role, machine, holder
        self._client = context.client
        self._nodes = Watched(INTERNAL_NODES, always(OVERLAY))
        self._fabrics = Watched(INTERNAL_FABRICS, always(OVERLAY), Selection(context.namespace))
        told = (role.wait_changed, machine.state.wait_changed)
        super().__init__(
            context,
            "network",
            self._nodes,
            self._fabrics,
            name="takeover",
            first=(OVERLAY,),  # it may be the gateway already
            tasks=[partial(self.whenever, wait, always(OVERLAY)) for wait in told],
        )

    async def reconcile(self, key: str) -> float | None:
        """Write and order that this node is the gateway, where it is."""
        fabric = self._fabrics.store.decode((self._context.namespace, FABRIC), InternalFabric)
        if self._role.now.active is False or fabric is None:
            # Without a fabric `liqod node` takes the overlay away: nobody is to put it back.
            self._machine.have(ReleaseOverlay())
        if not self._role.now.active or fabric is None or fabric.spec is None:
            return None
        nodes = {
            each.name: OverlayNode(
                name=each.name,
                address=each.spec.address,
                index=each.spec.index,
                pods=each.spec.pod_cidrs,
            )
            for each in self._nodes.store.values(InternalNode)
            if each.spec is not None
        }
        me = nodes.get(self._role.gateway)
        if me is None:
            return None  # the leader has not written it yet
        spec = fabric.spec
        if spec.gateway.node != me.name:
            gateway: dict[str, Any] = {
                "node": me.name,
                "index": me.index,
                "address": me.address,
                "epoch": spec.gateway.epoch + 1,
                "holder": self._holder,
            }
            version = fabric.metadata.resource_version
            patch = {"metadata": {"resourceVersion": version}, "spec": {"gateway": gateway}}
            await self._client.patch(INTERNAL_FABRICS, FABRIC, patch, self._context.namespace)
        overlay = Overlay(
            pods=spec.pod_cidrs,
            aliases={each.cidr: each.mtu for each in spec.aliases},
            vni=spec.vni,
            port=spec.port,
            mtu=spec.mtu,
        )
        self._machine.have(LeadOverlay(me, tuple(nodes.values()), overlay))
        self._machine.check()
        return None
