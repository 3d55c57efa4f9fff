"""DaemonSets: a pod for each node that their pods can run on."""

from copy import deepcopy
from typing import Any

from simulator import builtins
from simulator.controllers.manager import Manager
from simulator.controllers.replicas import (
    PodMaker,
    is_active,
    owned_by,
    pods_of,
    reference,
)
from simulator.nodes.budgets import is_ready
from simulator.nodes.scheduling import Candidate, Place, obstacle
from simulator.storage import deletion
from simulator.storage.deletion import DeleteOptions, Preconditions
from simulator.storage.registry import Registry
from simulator.storage.storage import Change, Item

Json = dict[str, Any]
Key = tuple[str, str]

_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
SETTLE = 0.02


class DaemonSets:
    """Keeps DaemonSets; keys are their namespace and name."""

    def __init__(self, registry: Registry, manager: Manager, maker: PodMaker) -> None:
        self._registry = registry
        self._manager = manager
        self._maker = maker
        self._sets = registry.storage.of(builtins.DAEMON_SETS.qualified)
        manager.follow(
            self._sets.listeners,
            self,
            lambda change: change.after and (change.after.namespace, change.after.name),
        )
        manager.follow(
            registry.storage.of("pods").listeners,
            self,
            lambda change: owned_by("DaemonSet", change),
        )
        registry.storage.of("nodes").listeners.append(self._notice_node)

    def _notice_node(self, change: Change) -> None:
        for item in self._sets.items():
            self._manager.add(self, (item.namespace, item.name), SETTLE)

    async def reconcile(self, key: Key) -> None:
        """One living pod on each node that suits, none elsewhere."""
        item = self._sets.get(*key)
        if item is None:
            return
        owner = item.decode()
        template = _with_tolerations(owner["spec"]["template"])
        suited = self._suited(template, key[0])
        if not owner["metadata"].get("deletionTimestamp"):
            running: dict[str, Item] = {}
            for pod, obj in pods_of(self._registry, item):
                node = _target(obj)
                if not is_active(obj):
                    continue
                if node in suited and node not in running:
                    running[node] = pod
                else:
                    options = DeleteOptions(preconditions=Preconditions(uid=pod.uid))
                    deletion.delete(self._registry, builtins.PODS, pod, options)
            for node in sorted(suited - running.keys()):
                await self._make(item, template, node)
        self._write_status(key, len(suited))

    def _suited(self, template: Json, namespace: str) -> set[str]:
        meta = {"name": "", "namespace": namespace}
        candidate = Candidate.of({"metadata": meta, "spec": template["spec"]})
        places = [Place.of(item.decode()) for item in self._registry.storage.of("nodes").items()]
        return {each.name for each in places if not obstacle(candidate, each, {}, {})}

    async def _make(self, item: Item, template: Json, node: str) -> None:
        placed = deepcopy(template)
        affinity = placed["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
            ]
        }
        mine = reference("apps/v1", "DaemonSet", item)
        await self._maker.make(item, placed, mine, "daemon-set-controller")

    def _write_status(self, key: Key, desired: int) -> None:
        item = self._sets.get(*key)
        if item is None:
            return
        owner = item.decode()
        active = [pod for _, pod in pods_of(self._registry, item) if is_active(pod)]
        ready = sum(map(is_ready, active))
        owner["status"] = {
            "currentNumberScheduled": len(active),
            "desiredNumberScheduled": desired,
            "numberMisscheduled": 0,
            "numberReady": ready,
            "numberAvailable": ready,
            "updatedNumberScheduled": len(active),
            "observedGeneration": owner["metadata"].get("generation", 0),
        }
        self._registry.update(builtins.DAEMON_SETS, item, owner, subresource="status")


def _with_tolerations(template: Json) -> Json:
    result = deepcopy(template)
    tolerations = result["spec"].setdefault("tolerations", [])
    for name, effect in _TOLERATED:
        wanted = {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
        if wanted not in tolerations:
            tolerations.append(wanted)
    return result


def _target(pod: Json) -> str:
    """The node that a pod runs on or is meant for."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name":
                return str(field["values"][0])
    return ""
