"""One virtual node: its Node and Lease, from the VirtualNode's first day to its drain.

A keeper has a queue of its own, so that a slow drain or a failing write of one node delays no
other. It works from the stores and writes only differences. The Node is made again when
others delete it; the name of a real node (or another peer's) is refused and left alone.
"""

import contextlib
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES, NODES, PODS
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.consumer.link import IDLE, ProviderPeer
from liqod.consumer.nodes import nodedrain, nodeevents, nodelease, nodeplan, virtualnodestatus
from liqod.consumer.nodes.nodeevents import DRAINING as DRAINING_EVENT
from liqod.consumer.nodes.nodeevents import NodeEvent
from liqod.consumer.nodes.pendingpods import PendingPods
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.errors import AlreadyExists, Conflict, Invalid, NotFound
from liqod.kube import recorder, times
from liqod.kube.cache.store import IndexedStore
from liqod.kube.controller import Controller
from liqod.kube.definitions import is_defined
from liqod.kube.deletion import set_finalizers
from liqod.kube.watched import DOUBT
from liqod.model import finalizers
from liqod.model.peering.heartbeat import HeartbeatVerdict
from liqod.resources import VIRTUAL_NODES, VirtualNode
from liqod.resources.nodes import CREATING, DELETING, DRAINING, NONE, RUNNING
from liqod.runtime.backoff import Backoff
from liqod.runtime.gather import either
from liqod.telemetry.events import NodeChanged, NodeDraining

log = logging.getLogger(__name__)

Json = dict[str, Any]
FINALIZER = labels.HOLD_VIRTUAL_NODE
NODE, LEASE = "node", "lease"
RETRY = Backoff(first=0.05, last=10.0)
"""Less than a Lease lasts."""
REFUSED_AGAIN = 30.0
CONFLICT_PAUSE = 0.2
"""Seconds for the watch to bring another's writes."""
SETTLE = 10.0
"""Seconds after the start during which a silent link is not yet taken for a dead peer: the Node of
a daemon that starts again stays as it is until the first answer, or the lack of one."""


class NodeController(Controller[str]):
    """Keeps one virtual node of one peer; its keys are the Node and its Lease.

    Args:
        peer: the peer of the node.
        name: of the VirtualNode and its Node.
        virtual_nodes: every VirtualNode of this cluster.
        nodes: the Nodes labelled as virtual nodes.
    """

    def __init__(
        self,
        peer: ProviderPeer,
        name: str,
        virtual_nodes: IndexedStore,
        nodes: IndexedStore,
        timings: ConsumerTimings = ORDINARY,
    ) -> None:
        self._peer, self._timings = peer, timings
        self._name = name
        self._client = peer.context.client
        self._virtual_nodes = virtual_nodes
        self._nodes = nodes
        self._ended = trio.Event()
        self._leased = self._leasing = ""
        self._shown: tuple[object, ...] = ()
        self._settled = False
        self._cordoned: bool | None = None
        self._pods = PendingPods(
            name,
            lambda: peer.link.daemon.heard,
            lambda: nodeplan.counted_pods(self._virtual_node()),
        )
        self._started = float("-inf")
        super().__init__(
            peer,
            "node",
            name=f"node {name}",
            first=(NODE,),  # nothing else enqueues the first turn
            tasks=(self._follow_link, self._follow_network, self._count_waiting),
            concurrency=2,  # the Lease is renewed while a drain waits
            backoff=RETRY,
        )

    def enqueue(self) -> None:
        """Reconcile the node: something changed that it depends on."""
        self.queue.add(NODE)

    async def prepare(self) -> None:
        """Begin to count how long a link that is down has had to come up."""
        self._started = trio.current_time()

    async def keep(self) -> None:
        """Keep the node until its VirtualNode is gone, or until cancelled."""
        await either(self.run, self._ended.wait)

    async def _follow_link(self) -> None:
        while True:
            await self._peer.link.wait_changed()
            self._settled = True
            self.enqueue()

    async def _follow_network(self) -> None:
        while True:
            await self._peer.network.wait_changed()
            self.enqueue()

    async def _count_waiting(self) -> None:
        context, node = self._peer.context, self._virtual_node
        await self._pods.keep(
            lambda: context.informers.find(PODS, context.own_pods.selection),
            lambda: nodeplan.has_places(node()),
            self.enqueue,
            self._timings,
        )

    async def reconcile(self, key: str) -> float | None:
        """Make the Node as it should be, or renew its Lease."""
        try:
            return await (self._keep() if key == NODE else self._renew())
        except Conflict:
            return CONFLICT_PAUSE

    def failed(self, key: str, error: Exception) -> None:
        """Either part of the node failed; it is tried again."""
        self._peer.report(NodeChanged(node=self._name, failed=key, reason=str(error)))
        log.warning("virtual node", extra={"node": self._name, "step": key, "reason": str(error)})

    # The present and the wanted state

    def _virtual_node(self) -> VirtualNode | None:
        return self._virtual_nodes.decode((self._peer.tenant_namespace, self._name), VirtualNode)

    def _facts(self) -> nodeplan.NodeState:
        context, link, network = self._peer.context, self._peer.link, self._peer.network
        asked = link.reason != IDLE
        tunnel = self._peer.settings.pod_network == "tunnel"
        self._pods.refresh()  # a share may have what has begun to run since
        return nodeplan.NodeState(
            up=link.up and not link.degradations.blind and asked,
            reason=link.why if asked else "there is no identity for the peer yet",
            closed=link.degradations.grave,
            pod_network=self._peer.pod_network,
            unjoined=network.waits if tunnel and network.ranges is None else "",
            broken=network.why if network.connected is False else "",
            address=context.node_address,
            port=context.kubelet_port,
            version=context.version,
            daemon=link.daemon.verdict if asked else HeartbeatVerdict(),
            waiting=self._pods.waiting,
            settled=self._pods.settled,
            held=self._pods.held,
            placed=self._pods.placed,
            sent=self._pods.sent,
            provider_ids=context.config.consumer.provider_ids,
        )

    async def _live(self) -> Json | None:
        """The Node as the store has it, or as the server does where the store has none."""
        known = self._nodes.decode(("", self._name), dict[str, Any])
        return known if known is not None else await self._client.find(NODES, self._name)

    async def _keep(self) -> float | None:
        """Reconcile the node once; the seconds until the next time."""
        node = self._virtual_node()
        if node is None:
            live = await self._live()
            if live is not None and nodeplan.made_by_us(live, self._peer.id):
                if not await is_defined(self._client, VIRTUAL_NODES) or await self._exists():
                    return DOUBT
                await self._remove(live)
            self._ended.set()
            return None
        if node.leaving:
            if await is_defined(self._client, VIRTUAL_NODES):
                await self._empty(node, self._time_left(node))
            await self._release(self._virtual_node() or node)
            return None
        await self._hold(node)
        if node.spec.cluster_id != self._peer.id:
            message = f"spec.clusterID is not {self._peer.id}, whose namespace this is"
            await self._write_conditions(
                node, RUNNING, NONE, reason="WrongCluster", message=message
            )
            return None
        if node.spec.create_node is False:
            await self._empty(node, self._peer.context.config.consumer.drain_timeout)
            await self._write_conditions(node, RUNNING, NONE)
            return None
        return await self._exist(node)

    async def _exists(self) -> bool:
        """True if the VirtualNode exists after all: a list may lie (rule 3)."""
        where = self._peer.tenant_namespace
        return await self._client.find(VIRTUAL_NODES, self._name, where) is not None

    async def _exist(self, node: VirtualNode) -> float | None:
        """Create or update the Node, as it should be."""
        try:
            return await self._settle(node)
        except Invalid as error:
            # Nothing but another VirtualNode changes that: its labels, or a quantity.
            state = RUNNING if ("", self._name) in self._nodes else CREATING
            await self._write_conditions(node, RUNNING, state, reason="Refused", message=str(error))
            return REFUSED_AGAIN

    async def _settle(self, node: VirtualNode) -> float | None:
        """Reconcile the Node once, with at most one write to each of its parts."""
        facts = self._facts()
        live = self._nodes.decode(("", self._name), dict[str, Any])
        if live is None:
            try:
                wanted = nodeplan.new_node(node, facts, times.now())
                made = await self._client.create(NODES, wanted)
                await self._record_events(
                    made.metadata, nodeevents.of_conditions((), _conditions(wanted))
                )
            except AlreadyExists:
                live = await self._client.find(NODES, self._name)
            if live is None:
                return 1.0
        if not nodeplan.was_ours(live, self._peer.id):
            return await self._refuse(node, live)
        if not (facts.up or self._settled):
            silence = self._started + SETTLE - trio.current_time()
            self._settled = silence <= 0
            if not self._settled:
                return silence
        await self._mend(node, live, facts)
        if live["metadata"]["uid"] != self._leasing:
            self._leasing = live["metadata"]["uid"]
            self.queue.add(LEASE)
        await self._write_conditions(
            node, RUNNING, RUNNING, **virtualnodestatus.instead_of_parts(node)
        )
        # A Node without our labels is not in the store, and no change of it is notified.
        return None if ("", self._name) in self._nodes else 1.0

    async def _refuse(self, node: VirtualNode, live: Json) -> float:
        """Report that the name is taken, touch nothing, and check again later."""
        other = (live["metadata"].get("labels") or {}).get(labels.REMOTE_CLUSTER_ID)
        whose = f"a virtual node of {other}" if other else "a node of this cluster"
        message = f"{self._name} is the name of {whose}; delete this VirtualNode, or that Node"
        await self._write_conditions(node, RUNNING, NONE, reason="NameTaken", message=message)
        return REFUSED_AGAIN

    async def _mend(self, node: VirtualNode, live: Json, facts: nodeplan.NodeState) -> None:
        """Write the differences: status first, since schedulers go by it."""
        status = nodeplan.status_patch(node, facts, live, times.now())
        if status is not None:
            await self._client.patch(NODES, self._name, status, subresource="status")
            said = nodeevents.of_conditions(_conditions(live), _conditions(status))
            await self._record_events(_meta(live), said)
        self._announce(facts)
        cordoned = bool((live.get("spec") or {}).get("unschedulable"))
        await self._record_events(_meta(live), nodeevents.of_cordon(self._cordoned, cordoned))
        self._cordoned = cordoned
        if status is not None:
            return  # it has another resource version now: the watch causes the next turn
        spec = nodeplan.spec_patch(node, facts, live)
        if spec is not None:
            await self._client.patch(NODES, self._name, spec)
            return
        metadata = nodeplan.metadata_apply(node, facts, live)
        if metadata is not None:
            await self._client.apply(NODES, metadata, manager=labels.FIELD_MANAGER)

    async def _record_events(self, meta: ObjectMeta, said: Iterable[NodeEvent]) -> None:
        """Write Events about the changes of the Node."""
        for each in said:
            await recorder.record_change(
                self._client, NODES, meta, each.reason, each.message, type=each.type
            )

    def _announce(self, facts: nodeplan.NodeState) -> None:
        shown = (facts.up, facts.reason)
        if shown != self._shown:
            self._shown = shown
            self._peer.report(NodeChanged(node=self._name, ready=facts.up, reason=facts.reason))

    async def _renew(self) -> float:
        """Renew the Lease, or make it; seconds until the next time."""
        live = await self._live()
        if live is None or not nodeplan.was_ours(live, self._peer.id):
            self._leasing = ""
            return self._timings.node_lease_every
        uid = live["metadata"]["uid"]
        lease = nodelease.new_lease(self._name, uid, times.precise())
        patch: Json = {"spec": {"renewTime": lease["spec"]["renewTime"]}}
        if uid != self._leased:
            patch = {"spec": lease["spec"]}
            patch["metadata"] = {"ownerReferences": lease["metadata"]["ownerReferences"]}
        try:
            await self._client.patch(LEASES, self._name, patch, nodelease.LEASE_NAMESPACE)
        except NotFound:
            await self._client.create(LEASES, lease)
        self._leased = uid
        return self._timings.node_lease_every

    # The VirtualNode itself

    async def _hold(self, node: VirtualNode) -> None:
        """Make a deletion of the VirtualNode wait for the drain, by a finalizer."""
        await set_finalizers(self._client, VIRTUAL_NODES, node.metadata, add=[FINALIZER])

    async def _release(self, node: VirtualNode) -> None:
        """Remove our finalizer, and Liqo's from before a migration, which nothing else removes."""
        ours = (FINALIZER, finalizers.VIRTUAL_NODE)
        await set_finalizers(self._client, VIRTUAL_NODES, node.metadata, remove=ours)

    async def _write_conditions(
        self, node: VirtualNode, kubelet: str, state: str, *, reason: str = "", message: str = ""
    ) -> None:
        """Write the VirtualNode's two conditions, where they differ."""
        fresh = self._virtual_node() or node
        conditions = virtualnodestatus.node_conditions(
            msgspec.to_builtins(fresh.status.conditions),
            kubelet,
            state,
            times.now(),
            reason=reason,
            message=message,
        )
        if conditions is None:
            return
        patch = {"status": {"conditions": conditions}}
        with contextlib.suppress(NotFound):
            await self._client.patch(
                VIRTUAL_NODES, self._name, patch, node.namespace, subresource="status"
            )

    # The end

    async def _empty(self, node: VirtualNode, seconds: float) -> None:
        """Drain the Node within that time, then remove it and its Lease."""
        live = await self._live()
        if live is None or not nodeplan.was_ours(live, self._peer.id):
            return
        await self._write_conditions(node, RUNNING, DRAINING)
        await nodedrain.cordon(self._client, self._name)
        why = "its VirtualNode is being deleted" if node.leaving else "spec.createNode is false"
        said = NodeEvent(recorder.NORMAL, DRAINING_EVENT, f"its pods are evicted: {why}")
        await self._record_events(_meta(live), [said])

        async def report(text: str) -> None:
            self._peer.report(NodeDraining(node=self._name, waits=text))
            await self._write_conditions(node, RUNNING, DRAINING, reason="Draining", message=text)

        await nodedrain.drain(
            self._client,
            self._name,
            deadline=trio.current_time() + seconds,
            # Without an identity no request can be sent: its user has taken it away.
            alive=lambda: self._peer.link.up and self._peer.link.reason != IDLE,
            report=report,
        )
        await self._write_conditions(node, DELETING, DELETING)
        await self._remove(live)

    def _time_left(self, node: VirtualNode) -> float:
        """Seconds left of the drain, also across restarts: counted from its start.

        That is by this host's clock; the time of the deletion is by the API server's, which may
        be minutes behind.
        """
        timeout = self._peer.context.config.consumer.drain_timeout
        since = virtualnodestatus.draining_since(msgspec.to_builtins(node.status.conditions))
        return timeout if not since else max(0.0, timeout - times.age(since))

    async def _remove(self, live: Json) -> None:
        """Delete Node and Lease."""
        await self._client.delete(NODES, self._name, uid=live["metadata"]["uid"])
        await self._client.delete(LEASES, self._name, nodelease.LEASE_NAMESPACE)
        self._peer.report(NodeChanged(node=self._name, removed=True))


def _conditions(node: Json) -> Sequence[Json]:
    """The conditions of a Node, or of its patch."""
    found: Sequence[Json] = (node.get("status") or {}).get("conditions") or ()
    return found


def _meta(live: Json) -> ObjectMeta:
    return msgspec.convert(live, Partial).metadata
