"""Fake nodes: registered, kept alive, and doing with bound pods what a kubelet would.

The same agent serves an embedded cluster and a real API server (:func:`run_nodes`), through
whatever :class:`~simulator.nodes.planes.Plane` it is given. The next step of a pod is decided by
:mod:`simulator.nodes.kubelet`.
"""

import ipaddress
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, EVENTS, LEASES, NODES, PODS, SECRETS
from liqod.errors import AlreadyExists, Conflict, Invalid, LiqodError, NotFound
from liqod.kube import times
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.kube.queue import KeyedQueue
from simulator.nodes import kubelet
from simulator.nodes.kubelet import Lived, Wait
from simulator.nodes.planes import Plane

Json = dict[str, Any]
Key = tuple[str, str]

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
FIRST_ADDRESS = 2
"""The first address of a node's network is that of its bridge."""
RENEW = 10.0
"""Seconds between renewals of a node's Lease, as a kubelet's."""
VOLUME_RETRY = 0.5
"""Seconds between checks for a ConfigMap or Secret that a pod needs before it can start."""
CAPACITY = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
VERSION = "v1.35.0"


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Bound(msgspec.Struct):
    spec: _Spec


class NodeAgent:
    """Any number of fake nodes of one cluster.

    Args:
        plane: where the nodes live.
        names: their names.
        start_delay: seconds from a pod's coming to its running.
        pod_cidr: where pods' addresses come from; each node has a /24 of it, or as much more
            as its number of pods takes.
        capacity: what each node has.
        labels: further labels of each node.
        renew: seconds between renewals of Leases.
        needs_volumes: whether pods wait for the ConfigMaps and Secrets that they mount.
        tells: whether Events are written of pods that start.
    """

    def __init__(
        self,
        plane: Plane,
        names: Sequence[str],
        *,
        start_delay: float = 0.0,
        pod_cidr: str = "10.244.0.0/16",
        capacity: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        renew: float = RENEW,
        needs_volumes: bool = True,
        tells: bool = False,
    ) -> None:
        self.names = list(names)
        self.start_delay = start_delay
        self._plane = plane
        self._capacity = {**CAPACITY, **(capacity or {})}
        self._labels = labels or {}
        self._renew = renew
        self._needs_volumes = needs_volumes
        self._tells = tells
        self._subnets = ipaddress.IPv4Network(pod_cidr)
        self._prefix = _prefix(int(self._capacity["pods"]), self._subnets.prefixlen)
        self._addresses: dict[str, set[str]] = {name: set() for name in self.names}
        self._last: dict[str, int] = dict.fromkeys(self.names, FIRST_ADDRESS - 1)
        self._pods: dict[Key, bytes] = {}
        self._lived: dict[Key, Lived] = {}
        self._paused: set[str] = set()
        self._stale: set[str] = set()
        self._queue: KeyedQueue[Key] = KeyedQueue(name="kubelet")

    def notice(self, key: Key, raw: bytes | None) -> None:
        """A pod is like this now; None if it is gone. Cheap; pods of other nodes are ignored."""
        if raw is None:
            if self._pods.pop(key, None) is not None:
                self._forget(key)
            return
        node = msgspec.json.decode(raw, type=_Bound).spec.node_name
        if node in self._addresses:
            self._pods[key] = raw
            self._queue.add(key)

    def pause(self, name: str) -> None:
        """Have a node fall silent, as if it had lost its power."""
        self._paused.add(name)

    def resume(self, name: str) -> None:
        """Have a silent node go on."""
        self._paused.discard(name)
        self._stale.add(name)
        for key in self._pods:
            self._queue.add(key)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Register the nodes, then serve until cancelled; started once all are registered."""
        for index, name in enumerate(self.names):
            await self._register(index, name)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_alive)
            await nursery.start(self._serve)
            task_status.started()

    async def _serve(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        await self._queue.run(self._work, concurrency=8, task_status=task_status)

    # Nodes:

    def _subnet(self, index: int) -> ipaddress.IPv4Network:
        base = int(self._subnets.network_address)
        offset = (index << (32 - self._prefix)) % self._subnets.num_addresses
        return ipaddress.IPv4Network((base + offset, self._prefix))

    async def _register(self, index: int, name: str) -> None:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    "beta.kubernetes.io/os": "linux",
                    "beta.kubernetes.io/arch": "amd64",
                    **self._labels,
                },
            },
            "spec": {"podCIDR": str(self._subnet(index)), "podCIDRs": [str(self._subnet(index))]},
            "status": self._status(index, name),
        }
        try:
            await self._plane.create(NODES, node)
        except AlreadyExists:
            await self._plane.patch(NODES, name, {"status": node["status"]}, subresource="status")
        await self._renew_lease(name)

    def _status(self, index: int, name: str) -> Json:
        now = times.now()
        facts = (
            ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID"),
            ("Ready", "True", "KubeletReady"),
        )
        return {
            "capacity": self._capacity,
            "allocatable": self._capacity,
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "message": reason,
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
                for kind, status, reason in facts
            ],
            "addresses": [
                {"type": "InternalIP", "address": host_of(index)},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "simulated://1",
                "kernelVersion": "simulated",
                "kubeProxyVersion": VERSION,
                "kubeletVersion": VERSION,
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "simulated",
                "systemUUID": "",
            },
        }

    async def _keep_alive(self) -> None:
        while True:
            await trio.sleep(self._renew)
            for name in self.names:
                if name in self._paused:
                    continue
                try:
                    await self._renew_lease(name)
                    if name in self._stale:
                        # It may have been given up meanwhile: register shows it as it is.
                        await self._register(self.names.index(name), name)
                        self._stale.discard(name)
                except LiqodError as error:
                    self._stale.add(name)
                    log.warning("lease not renewed", extra={"node": name, "reason": str(error)})

    async def _renew_lease(self, name: str) -> None:
        now = times.precise()
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
        try:
            await self._plane.patch(LEASES, name, {"spec": spec}, LEASE_NAMESPACE)
        except NotFound:
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": LEASE_NAMESPACE},
                "spec": spec,
            }
            await self._plane.create(LEASES, lease, LEASE_NAMESPACE)

    # Pods:

    async def _work(self, key: Key) -> float | None:
        """Do for a pod what is due; seconds until something will be."""
        raw = self._pods.get(key)
        if raw is None:
            return None
        pod: Json = msgspec.json.decode(raw)
        node = pod["spec"]["nodeName"]
        if node in self._paused:
            return None
        lived = self._recall(key, pod)
        now = trio.current_time()
        step = kubelet.step(pod, lived, now, delay=self.start_delay)
        if isinstance(step, Wait):
            return max(step.seconds, 0.001)
        try:
            if step == "run" and not await self._can_start(pod, lived):
                return VOLUME_RETRY
            return await self._do(step, key, pod, lived)
        except (NotFound, Conflict, Invalid):
            return None  # it has changed meanwhile: its change calls again

    async def _do(self, step: object, key: Key, pod: Json, lived: Lived) -> float | None:
        meta = pod["metadata"]
        match step:
            case "run":
                begins = lived.started is None
                if lived.started is None:
                    lived.started = trio.current_time()
                    lived.address = lived.address or self._allocate(pod["spec"]["nodeName"])
                host = host_of(self.names.index(pod["spec"]["nodeName"]))
                status = kubelet.running(pod, lived.address, host, times.now())
                await self._show(meta, status)
                for event in kubelet.events(pod, times.now()) if self._tells and begins else ():
                    await self._plane.create(EVENTS, event)
            case "finish":
                await self._show(meta, kubelet.ended(pod, times.now()))
            case "remove":
                lived.removed = True
                await self._plane.delete(PODS, key[1], key[0], uid=meta["uid"], grace=0)
            case _:
                return None
        return kubelet.completes_after(pod) if step == "run" else None

    async def _show(self, meta: Json, status: Json) -> None:
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        await self._plane.patch(PODS, meta["name"], body, meta["namespace"], subresource="status")

    def _recall(self, key: Key, pod: Json) -> Lived:
        """The record of this pod; a pod that another agent ran is taken over as it is."""
        uid = pod["metadata"]["uid"]
        lived = self._lived.get(key)
        if lived is not None and lived.uid == uid:
            return lived
        if lived is not None:
            self._forget(key)
        lived = Lived(uid, trio.current_time())
        status = pod.get("status") or {}
        if status.get("phase") == "Running" and status.get("podIP"):
            lived.started = trio.current_time()
            lived.address = status["podIP"]
            self._addresses[pod["spec"]["nodeName"]].add(lived.address)
        self._lived[key] = lived
        return lived

    def _forget(self, key: Key) -> None:
        lived = self._lived.pop(key, None)
        if lived is not None and lived.address:
            for used in self._addresses.values():
                used.discard(lived.address)

    def _allocate(self, node: str) -> str:
        """The next free address after the last one given, so that one is not soon given anew."""
        used = self._addresses[node]
        subnet = self._subnet(self.names.index(node))
        room = subnet.num_addresses - 1 - FIRST_ADDRESS
        for step in range(1, room + 1):
            offset = FIRST_ADDRESS + (self._last[node] - FIRST_ADDRESS + step) % room
            address = str(subnet[offset])
            if address not in used:
                used.add(address)
                self._last[node] = offset
                return address
        raise LiqodError(f"node {node} has no address left for a pod")

    async def _can_start(self, pod: Json, lived: Lived) -> bool:
        """True if the ConfigMaps and Secrets that a pod cannot do without are there."""
        if lived.started is not None or not self._needs_volumes:
            return True
        namespace = pod["metadata"]["namespace"]
        for kind, name in kubelet.needed(pod["spec"]):
            wanted = CONFIG_MAPS if kind == "ConfigMap" else SECRETS
            if await self._plane.find(wanted, name, namespace) is None:
                return False
        return True


def _prefix(pods: int, whole: int) -> int:
    """The length of the prefix of a node's network that has room for so many pods."""
    wanted = 32 - (pods + FIRST_ADDRESS + 1).bit_length()
    return min(30, max(whole, min(24, wanted)))


def host_of(index: int) -> str:
    """The address of a node."""
    return f"172.18.{index // 250}.{index % 250 + 2}"


async def run_nodes(
    client: Client,
    names: Sequence[str],
    *,
    start_delay: float = 0.0,
    pod_cidr: str = "10.244.0.0/16",
    capacity: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    tells: bool = False,
    task_status: trio.TaskStatus[NodeAgent] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Keep fake nodes at any API server until cancelled; started once they are registered."""
    agent = NodeAgent(
        client,
        names,
        start_delay=start_delay,
        pod_cidr=pod_cidr,
        capacity=capacity,
        labels=labels,
        tells=tells,
    )
    pods = SharedInformer(client, PODS, keep=_is_bound)

    def notice(change: StoreChange) -> None:
        agent.notice(change.key, change.new)

    pods.subscribe(notice)
    async with trio.open_nursery() as nursery:
        await nursery.start(agent.run)
        await nursery.start(pods.run)
        task_status.started(agent)


def _is_bound(raw: bytes) -> bool:
    return msgspec.json.decode(raw, type=_Bound).spec.node_name != ""
