"""The virtual nodes of one peer: a keeper for each VirtualNode of its tenant namespace.

Nodes that liqod made and whose VirtualNode is gone (its finalizer was taken off by hand, or by an
older daemon) are removed, once the list of VirtualNodes is beyond doubt.
"""

import contextlib
import logging
from typing import Any, NoReturn

import msgspec
import trio

from liqod.consumer.nodes import nodeplan
from liqod.consumer.nodes.nodes import NodeKeeper
from liqod.inspect.events import NodeChanged
from liqod.kube.cache.informer import Informer
from liqod.kube.cache.store import Change
from liqod.kube.definitions import is_defined
from liqod.kube.kinds import LEASES, NODES
from liqod.kube.meta import Partial
from liqod.kube.queue import KeyedQueue
from liqod.kube.selection import Selection
from liqod.model import labels
from liqod.peer import Peer
from liqod.resources import VIRTUAL_NODES

log = logging.getLogger(__name__)

SELECTOR = f"{labels.TYPE}={labels.VIRTUAL_NODE_TYPE}"
"""Label selector of the Nodes that are virtual nodes."""
DOUBT_AGAIN = 10.0
PEER = "peer"
"""The index of Nodes by the peer that they are labelled with."""


class VirtualNodes:
    """Keeps the Nodes of one peer as its VirtualNodes say."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._keepers: dict[str, NodeKeeper] = {}
        self._orphans: KeyedQueue[str] = KeyedQueue(name="orphaned nodes")

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Work until cancelled; Nodes then stay as they are, and their Leases lapse."""
        informers = self._peer.home.informers
        async with (
            informers.share(VIRTUAL_NODES) as virtual_nodes,
            informers.share(NODES, Selection(labels=SELECTOR), indexes={PEER: _peer_of}) as nodes,
            trio.open_nursery() as nursery,
        ):

            async def keep(keeper: NodeKeeper, name: str) -> None:
                await keeper.run()
                del self._keepers[name]
                if (self._peer.tenant_namespace, name) in virtual_nodes.store:
                    start(name)  # deleted, and made again before the keeper had ended

            def start(name: str) -> None:
                keeper = NodeKeeper(self._peer, name, virtual_nodes.store, nodes.store)
                self._keepers[name] = keeper
                nursery.start_soon(keep, keeper, name)

            def virtual_node_changed(change: Change) -> None:
                name = change.key[1]
                if name in self._keepers:
                    self._keepers[name].look()
                elif change.new is not None:
                    start(name)

            def node_changed(change: Change) -> None:
                name = change.key[1]
                if name in self._keepers:
                    self._keepers[name].look()
                elif change.key in nodes.store.indexed(PEER, self._peer.id):
                    self._orphans.add(name)

            async def orphan(name: str) -> float | None:
                return await self._remove_orphan(name, virtual_nodes, nodes)

            with contextlib.ExitStack() as stack:
                where = self._peer.tenant_namespace
                stack.callback(virtual_nodes.subscribe(virtual_node_changed, namespace=where))
                stack.callback(nodes.subscribe(node_changed))
                failed = self._peer.failures("node")
                await self._orphans.run(orphan, on_error=failed, task_status=task_status)
        raise AssertionError("the queue ends by cancellation only")

    async def _remove_orphan(
        self, name: str, virtual_nodes: Informer, nodes: Informer
    ) -> float | None:
        """Remove a Node of this peer that no VirtualNode stands for; not on a doubtful list."""
        live = nodes.store.get(("", name))
        if live is None or name in self._keepers:
            return None
        node = msgspec.json.decode(live, type=dict[str, Any])
        if not nodeplan.made_by_us(node, self._peer.id):
            return None
        if virtual_nodes.suspect is not None:
            return DOUBT_AGAIN
        client, where = self._peer.home.client, self._peer.tenant_namespace
        if not await is_defined(client, VIRTUAL_NODES):
            return DOUBT_AGAIN
        if await client.find(VIRTUAL_NODES, name, where) is not None:
            return DOUBT_AGAIN
        log.info("removing a Node without a VirtualNode", extra={"node": name})
        await client.delete(NODES, name, uid=node["metadata"]["uid"])
        await client.delete(LEASES, name, nodeplan.LEASE_NAMESPACE)
        self._peer.report(NodeChanged(node=name, removed=True))
        return None


def _peer_of(node: Partial) -> tuple[str, ...]:
    return (node.metadata.labels.get(labels.REMOTE_CLUSTER_ID, ""),)
