"""Ends the tunnels of a machine that was the gateway, once another machine is.

It is for a daemon that stands by without ``[network] candidates``: the tunnels that it, or the
process before it, has made have the same keys as the new gateway's. Packets of this machine's own
pods would go on by them, and the peer would take this machine for the gateway again.

The leader writes itself into the InternalFabric with the Node that it runs on. As long as that does
not name the present leader, or names this very machine (two daemons at one), everything stands.
"""

import logging

import msgspec

from liqod.apimachinery.kinds import NODES
from liqod.cluster.context import ClusterContext
from liqod.errors import NetworkError
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, always
from liqod.network.overlay import members
from liqod.network.remotemachine import AGAIN, RemoteMachine
from liqod.network.sweeping import known_peers
from liqod.resources.fabric import FABRIC, INTERNAL_FABRICS, InternalFabric
from liqod.runtime.observable import Observable

TUNNELS = "tunnels"
"""The one key."""

log = logging.getLogger(__name__)


class YieldedTunnels(Controller[str]):
    """Has no tunnel on this machine while the leader is at another one.

    Args:
        machine: this machine.
        leader: the leader's name in its Lease; empty while there is none.
    """

    def __init__(
        self, context: ClusterContext, machine: RemoteMachine, leader: Observable[str]
    ) -> None:
        self._context, self._machine, self._leader = context, machine, leader
        self._fabrics = Watched(INTERNAL_FABRICS, always(TUNNELS), Selection(context.namespace))
        super().__init__(
            context,
            "network",
            self._fabrics,
            name="tunnels of another gateway",
            first=(TUNNELS,),
            tasks=[lambda: self.whenever(leader.wait_changed, always(TUNNELS))],
        )

    async def reconcile(self, key: str) -> float | None:
        """End all tunnels, where the gateway surely is elsewhere."""
        fabric = self._fabrics.store.decode((self._context.namespace, FABRIC), InternalFabric)
        if fabric is None or fabric.spec is None:
            return None
        gateway = fabric.spec.gateway
        if gateway.holder != self._leader.now:
            return None
        if await self._own_node() in ("", gateway.node):
            return None
        facts = await self._machine.look()
        if facts.problem:
            return AGAIN.last
        found = await self._machine.unknown(())
        if not found:
            return None
        for peer in await known_peers(self._context):
            await self._machine.end(peer)
        # Those of peers that are not known any more.
        swept = await self._machine.sweep(found, ())
        if swept.problem:
            raise NetworkError(swept.problem)
        log.info("the gateway is %s: this machine has no tunnels any more", gateway.node)
        return None

    async def _own_node(self) -> str:
        """Name of the Node that this machine is; empty for none."""
        settings, client = self._context.config.network, self._context.client
        found = () if settings.node else await client.list(NODES)
        nodes = [members.member(msgspec.json.encode(each)) for each in found]
        own = (self._context.machine_address, *settings.advertise)
        return members.local((each for each in nodes if each is not None), settings.node, own)
