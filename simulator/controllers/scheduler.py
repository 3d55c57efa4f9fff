"""The scheduler: pods that have no node get the best one there is, or a condition that says why."""

from typing import Any

from liqod.errors import ConfigError
from liqod.kube import times
from simulator import builtins
from simulator.controllers import volumes
from simulator.controllers.manager import Manager
from simulator.nodes.scheduling import Candidate, Load, Place, choose
from simulator.storage.registry import Registry
from simulator.storage.storage import Change, Item
from simulator.wire.subresources import bind

Json = dict[str, Any]
Key = tuple[str, str]

SETTLE = 0.01
"""Seconds in which changes that may help waiting pods are gathered before these are tried."""
_TERMINAL = (b'"phase":"Succeeded"', b'"phase":"Failed"')
_EVERYONE: Key = ("", "")


class Scheduler:
    """Follows nodes and pods; its keys are pods, and one for all pods that wait."""

    def __init__(self, registry: Registry, manager: Manager) -> None:
        self._registry = registry
        self._manager = manager
        self._places: dict[str, Place] = {}
        self._loads: dict[str, Load] = {}
        self._assigned: dict[Key, str] = {}
        self._waiting: set[Key] = set()
        registry.storage.of("nodes").listeners.append(self._notice_node)
        registry.storage.of("pods").listeners.append(self._notice_pod)
        claims = registry.storage.of(builtins.CLAIMS.qualified)
        claims.listeners.append(lambda change: self._try_waiting())

    def _notice_node(self, change: Change) -> None:
        name = change.last.name
        if change.after is None:
            self._places.pop(name, None)
            return
        try:
            place = Place.of(change.after.decode())
        except ConfigError:
            self._places.pop(name, None)
            return
        if place != self._places.get(name):
            self._places[name] = place
            self._try_waiting()

    def _notice_pod(self, change: Change) -> None:
        key = (change.last.namespace, change.last.name)
        item = change.after
        node = _node_of(item) if item is not None else ""
        finished = item is None or any(mark in item.raw for mark in _TERMINAL)
        assigned = self._assigned.get(key)
        if assigned is not None and (finished or node != assigned):
            self._loads[assigned].discard(key)
            del self._assigned[key]
            self._try_waiting()
        if item is None or finished:
            self._waiting.discard(key)
            return
        if not node:
            if change.before is None or key in self._waiting:
                self._manager.add(self, key)
            else:
                self._manager.add(self, key, SETTLE)
        elif key not in self._assigned:
            self._settle(item, node)

    def _settle(self, item: Item, node: str) -> None:
        key = (item.namespace, item.name)
        self._waiting.discard(key)
        try:
            pod = Candidate.of(item.decode())
        except ConfigError:
            return
        self._loads.setdefault(node, Load()).add(pod)
        self._assigned[key] = node

    def _try_waiting(self) -> None:
        if self._waiting:
            self._manager.add(self, _EVERYONE, SETTLE)

    def reconcile(self, key: Key) -> None:
        """Place one pod, or every pod that waits."""
        if key == _EVERYONE:
            for each in sorted(self._waiting):
                self._place(each)
        else:
            self._place(key)

    def _place(self, key: Key) -> None:
        item = self._registry.find("pods", *key)
        if item is None:
            self._waiting.discard(key)
            return
        pod = item.decode()
        spec = pod["spec"]
        if (
            spec.get("nodeName")
            or pod["metadata"].get("deletionTimestamp")
            or spec.get("schedulerName") != "default-scheduler"
            or spec.get("schedulingGates")
        ):
            self._waiting.discard(key)
            return
        why, terms, unbound = volumes.needs(self._registry, pod)
        node = ""
        if unbound and volumes.chosen(unbound):
            self._waiting.add(key)  # for its volumes, on the node that was chosen
            return
        try:
            if not why:
                candidate = Candidate.of(pod, terms)
                node, why = choose(candidate, self._places, self._loads)
        except ConfigError as error:
            why = str(error)
        if node and unbound:
            self._waiting.add(key)
            volumes.select(self._registry, unbound, node)
        elif node:
            self._waiting.discard(key)
            bind(self._registry, item, node)
        else:
            self._waiting.add(key)
            self._write_condition(item, pod, why)

    def _write_condition(self, item: Item, pod: Json, why: str) -> None:
        status = pod.setdefault("status", {})
        conditions = status.get("conditions") or []
        known = next((each for each in conditions if each["type"] == "PodScheduled"), None)
        if known is not None and known.get("message") == why and known["status"] == "False":
            return
        others = [each for each in conditions if each["type"] != "PodScheduled"]
        since = known["lastTransitionTime"] if known and known["status"] == "False" else times.now()
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": since,  # none, where it was made with a gate
            "reason": "Unschedulable",
            "message": why,
        }
        status["conditions"] = [*others, condition]
        self._registry.update(builtins.PODS, item, pod, subresource="status")


def _node_of(item: Item) -> str:
    if b'"nodeName":"' not in item.raw:
        return ""
    found: str = (item.decode().get("spec") or {}).get("nodeName", "")
    return found
