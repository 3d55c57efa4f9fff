"""The virtual nodes of one peer: a keeper for each VirtualNode of its tenant namespace.

Nodes that liqod made and whose VirtualNode is gone (its finalizer was taken off by hand, or by an
older daemon) are removed, once the list of VirtualNodes is beyond doubt.
"""

import logging
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES, NODES
from liqod.apimachinery.meta import Partial
from liqod.consumer.link import ProviderPeer
from liqod.consumer.nodes import nodelease, nodeplan
from liqod.consumer.nodes.nodecontroller import NodeController
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched, by_name
from liqod.resources import VIRTUAL_NODES
from liqod.telemetry.events import NodeChanged

log = logging.getLogger(__name__)

SELECTOR = f"{labels.TYPE}={labels.VIRTUAL_NODE_TYPE}"
"""Label selector of the Nodes that are virtual nodes."""
PEER = "peer"
"""The index of Nodes by the peer that they are labelled with."""


class VirtualNodes(Controller[str]):
    """Keeps the Nodes of one peer by its VirtualNodes; a key is the name of both.

    Args:
        peer: the provider.
    """

    def __init__(self, peer: ProviderPeer, timings: ConsumerTimings = ORDINARY) -> None:
        self._peer, self._timings = peer, timings
        self._keepers: dict[str, NodeController] = {}
        within = (peer.tenant_namespace,)
        self._virtual_nodes = Watched(VIRTUAL_NODES, by_name, within=within)
        which = Selection(labels=SELECTOR)
        self._nodes = Watched(NODES, self._own, which, indexes={PEER: _peer_of})
        watches = (self._virtual_nodes, self._nodes)
        # Several at once: while the API server is read for one, no keeper waits to be woken.
        super().__init__(peer, "node", *watches, name="virtual nodes", concurrency=4)

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Work until cancelled; Nodes then stay as they are, and their Leases lapse."""
        async with trio.open_nursery() as self._nursery:
            await super().run(task_status=task_status)
        raise AssertionError("a controller ends by cancellation only")

    def _own(self, change: StoreChange) -> Iterator[str]:
        """A Node with a keeper, or labelled as this peer's: every peer sees all."""
        name = change.key[1]
        if name in self._keepers or change.key in self._nodes.store.indexed(PEER, self._peer.id):
            yield name

    async def reconcile(self, name: str) -> float | None:
        """Have a keeper reconcile the node, or remove a Node without a VirtualNode."""
        if name in self._keepers:
            self._keepers[name].enqueue()
        elif (self._peer.tenant_namespace, name) in self._virtual_nodes.store:
            stores = self._virtual_nodes.store, self._nodes.store
            keeper = NodeController(self._peer, name, *stores, self._timings)
            # Here, not in the task: a second turn before that has begun would start another.
            self._keepers[name] = keeper
            self._nursery.start_soon(self._keep, keeper, name)
        else:
            return await self._remove_orphan(name)
        return None

    async def _keep(self, keeper: NodeController, name: str) -> None:
        await keeper.keep()
        del self._keepers[name]
        # It may have been made again before the keeper had ended, which was notified in vain.
        self.queue.add(name)

    async def _remove_orphan(self, name: str) -> float | None:
        """Remove a Node of this peer that no VirtualNode describes; not on a doubtful list."""
        live = self._nodes.store.get(("", name))
        if live is None:
            return None
        node = msgspec.json.decode(live, type=dict[str, Any])
        if not nodeplan.made_by_us(node, self._peer.id):
            return None
        where = self._peer.tenant_namespace
        if not await self._virtual_nodes.surely_gone((where, name), ending=False):
            return DOUBT
        client = self._peer.context.client
        log.info("removing a Node without a VirtualNode", extra={"node": name})
        await client.delete(NODES, name, uid=node["metadata"]["uid"])
        await client.delete(LEASES, name, nodelease.LEASE_NAMESPACE)
        self._peer.report(NodeChanged(node=name, removed=True))
        return None


def _peer_of(node: Partial) -> tuple[str, ...]:
    return (node.metadata.labels.get(labels.REMOTE_CLUSTER_ID, ""),)
