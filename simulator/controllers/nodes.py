"""Nodes: silent ones become Unknown, conditions become taints, taints drive pods away.

In small what the node lifecycle controller, the taint manager and the pod garbage collector do.
"""

import time
from typing import Any

import trio

from liqod.kube import times
from simulator import builtins
from simulator.controllers.manager import Manager
from simulator.nodes import disruptiontarget
from simulator.nodes.scheduling import untolerated
from simulator.storage import deletion
from simulator.storage.deletion import DeleteOptions, Preconditions
from simulator.storage.registry import Registry
from simulator.storage.storage import Change, Item

Json = dict[str, Any]

GRACE = 40.0
"""Seconds without a renewed Lease after which a node is given up, as the real default was long; and
that pods stay bound to a node that is not there."""
POLL = 5.0
"""Seconds between two verdicts on a silent node, as the real controller looks."""
LEASES = "kube-node-lease"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OURS = {NOT_READY, UNREACHABLE, _UNSCHEDULABLE, *_PRESSURES.values()}


class Nodes:
    """Follows the health of nodes; keys are their names.

    A Lease counts from when it was seen to change, whatever time it shows: clocks may jump.

    Args:
        registry: the objects.
        manager: calls it.
        grace: seconds without a renewed Lease after which a node is given up.
    """

    def __init__(self, registry: Registry, manager: Manager, grace: float = GRACE) -> None:
        self._registry, self._grace = registry, grace
        self._renewed_at: dict[str, float] = {}
        self._given_up: dict[str, float] = {}
        storage = registry.storage
        storage.of(builtins.LEASES.qualified).listeners.append(self._on_lease)
        manager.follow(storage.of("nodes").listeners, self, lambda change: change.last.name)

    def _on_lease(self, change: Change) -> None:
        if change.after is not None and change.after.namespace == LEASES:
            self._renewed_at[change.after.name] = trio.current_time()

    def reconcile(self, key: str) -> float | None:
        """Judge a node and taint it accordingly; due again when its Lease would run out."""
        item = self._registry.find("nodes", "", key)
        if item is None:
            self._renewed_at.pop(key, None)
            self._given_up.pop(key, None)
            return None
        now = trio.current_time()
        left = self._renewed_at.setdefault(key, now) + self._grace - now
        if left <= 0 and now - self._given_up.get(key, -POLL) >= POLL:
            self._given_up[key] = now
            item = self._give_up(item)
        self._taint(item)
        return left if left > 0 else POLL

    def _give_up(self, item: Item) -> Item:
        obj = item.decode()
        status = obj.setdefault("status", {})
        conditions = status.get("conditions") or [{"type": "Ready"}]
        changed = False
        for condition in conditions:
            if condition.get("status") == "Unknown":
                continue
            changed = True
            condition |= {
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastTransitionTime": times.now(),
            }
        if not changed:
            return item
        status["conditions"] = conditions
        return self._registry.update(builtins.NODES, item, obj, subresource="status")

    def _taint(self, item: Item) -> None:
        obj = item.decode()
        spec = obj["spec"]
        taints = spec.get("taints") or []
        known = {(each["key"], each["effect"]): each for each in taints}
        wanted = [
            known.get((key, effect)) or _new_taint(key, effect) for key, effect in _due_taints(obj)
        ]
        result = [each for each in taints if each["key"] not in _OURS] + wanted
        if result != taints:
            spec["taints"] = result
            self._registry.update(builtins.NODES, item, obj)


def _due_taints(node: Json) -> list[tuple[str, str]]:
    """The taints that follow from a node's conditions."""
    conditions = {
        each["type"]: each.get("status")
        for each in (node.get("status") or {}).get("conditions") or ()
    }
    due: list[tuple[str, str]] = []
    ready = conditions.get("Ready", "False")
    if ready != "True":
        key = UNREACHABLE if ready == "Unknown" else NOT_READY
        due += [(key, "NoSchedule"), (key, "NoExecute")]
    due += [
        (key, "NoSchedule") for name, key in _PRESSURES.items() if conditions.get(name) == "True"
    ]
    if node["spec"].get("unschedulable"):
        due.append((_UNSCHEDULABLE, "NoSchedule"))
    return due


def _new_taint(key: str, effect: str) -> Json:
    return {"key": key, "effect": effect, "timeAdded": times.now()}


class Evictions:
    """Deletes pods that their node's taints do not suffer, or whose node is gone.

    Keys are the pods' namespace and name.

    Args:
        registry: the objects.
        manager: calls it.
        grace: seconds that pods stay bound to a node that is not there.
    """

    def __init__(self, registry: Registry, manager: Manager, grace: float = GRACE) -> None:
        self._registry, self._grace = registry, grace
        self._manager = manager
        self._tainted: dict[str, list[Json]] = {}
        self._missing: dict[str, float] = {}
        self._pods: dict[str, set[tuple[str, str]]] = {}
        storage = registry.storage
        storage.of("nodes").listeners.append(self._notice_node)
        storage.of("pods").listeners.append(self._notice_pod)

    def _notice_node(self, change: Change) -> None:
        name = change.last.name
        before = self._tainted.pop(name, None)
        self._missing.pop(name, None)
        if change.after is None:
            self._missing[name] = time.time()
        else:
            taints = change.after.decode()["spec"].get("taints") or []
            serious = [each for each in taints if each.get("effect") == "NoExecute"]
            if any(each["key"] == OUT_OF_SERVICE for each in taints):
                serious = taints
            if serious:
                self._tainted[name] = serious
            if serious == (before or []):
                return
        for key in self._pods.get(name, ()):
            self._manager.add(self, key)

    def _notice_pod(self, change: Change) -> None:
        key = (change.last.namespace, change.last.name)
        node = (change.last.decode().get("spec") or {}).get("nodeName", "")
        if not node:
            return
        if change.after is None:
            self._pods.get(node, set()).discard(key)
            return
        self._pods.setdefault(node, set()).add(key)
        if node in self._tainted:
            self._manager.add(self, key)
        elif self._registry.find("nodes", "", node) is None:
            self._missing.setdefault(node, time.time())
            self._manager.add(self, key)

    def reconcile(self, key: tuple[str, str]) -> float | None:
        """Delete a pod that may not stay; due again when its time is over."""
        item = self._registry.find("pods", *key)
        if item is None:
            return None
        pod = item.decode()
        node = pod["spec"].get("nodeName", "")
        if self._registry.find("nodes", "", node) is None:
            left = self._missing.get(node, time.time()) + self._grace - time.time()
            if left > 0:
                return left
            self._delete(item, 0)
            return None
        taints = self._tainted.get(node, [])
        if pod["metadata"].get("deletionTimestamp"):
            if any(each["key"] == OUT_OF_SERVICE for each in taints):
                self._delete(item, 0)
            return None
        stay = untolerated(pod["spec"].get("tolerations") or (), taints)
        if stay is None:
            return None
        since = max(
            (times.seconds(each["timeAdded"]) for each in taints if each.get("timeAdded")),
            default=0.0,
        )
        left = since + stay - time.time() if stay else 0.0
        if left > 0:
            return left
        message = "Taint manager: deleting due to NoExecute taint"
        marked = disruptiontarget.mark(self._registry, item, "DeletionByTaintManager", message)
        self._delete(marked, None)
        return None

    def _delete(self, item: Item, grace: int | None) -> None:
        options = DeleteOptions(
            grace_period_seconds=grace, preconditions=Preconditions(uid=item.uid)
        )
        deletion.delete(self._registry, builtins.PODS, item, options)
