"""Deployments: a ReplicaSet for each pod template, the newest scaled up as the others go down."""

import hashlib
import math
from copy import deepcopy
from typing import Any

import msgspec

from liqod.kube import times
from simulator import builtins
from simulator.controllers.manager import Manager
from simulator.controllers.replicas import owned_by, reference
from simulator.storage.registry import Registry
from simulator.storage.storage import Item

Json = dict[str, Any]
Key = tuple[str, str]

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_SAFE = str.maketrans("0123456789abcdef", "bcdfghjklmnpqrst")


class Deployments:
    """Keeps Deployments; keys are their namespace and name."""

    def __init__(self, registry: Registry, manager: Manager) -> None:
        self._registry = registry
        storage = registry.storage
        manager.follow(
            storage.of(builtins.DEPLOYMENTS.qualified).listeners,
            self,
            lambda change: change.after and (change.after.namespace, change.after.name),
        )
        manager.follow(
            storage.of(builtins.REPLICA_SETS.qualified).listeners,
            self,
            lambda change: owned_by("Deployment", change),
        )

    def reconcile(self, key: Key) -> None:
        """One step of a rollout; the ReplicaSets' progress calls for the next."""
        item = self._registry.find(builtins.DEPLOYMENTS.qualified, *key)
        if item is None:
            return
        deployment = item.decode()
        sets = self._sets(item)
        if not deployment["metadata"].get("deletionTimestamp") and not deployment["spec"].get(
            "paused"
        ):
            name = f"{item.name}-{template_hash(deployment['spec']['template'])}"
            newest = next((each for each in sets if each["metadata"]["name"] == name), None)
            if newest is None:
                newest = self._create(item, deployment, name, len(sets) + 1)
                sets.append(newest)
            self._roll(deployment["spec"], newest, [each for each in sets if each is not newest])
            self._write_status(key, name)

    def _sets(self, owner: Item) -> list[Json]:
        found = []
        for place in self._registry.storage.dependents(owner.uid):
            if place[0] == builtins.REPLICA_SETS.qualified:
                item = self._registry.find(*place)
                if item is not None:
                    found.append(item.decode())
        return found

    def _create(self, owner: Item, deployment: Json, name: str, revision: int) -> Json:
        spec = deployment["spec"]
        template = deepcopy(spec["template"])
        labels = template["metadata"].setdefault("labels", {})
        labels[HASH] = name.rpartition("-")[2]
        selector = deepcopy(spec["selector"])
        selector.setdefault("matchLabels", {})[HASH] = labels[HASH]
        wanted: Json = {
            "metadata": {
                "name": name,
                "namespace": owner.namespace,
                "labels": dict(labels),
                "annotations": {REVISION: str(revision)},
                "ownerReferences": [reference("apps/v1", "Deployment", owner)],
            },
            "spec": {"replicas": 0, "selector": selector, "template": template},
        }
        self._registry.prepare(builtins.REPLICA_SETS, owner.namespace, wanted)
        return self._registry.create(builtins.REPLICA_SETS, owner.namespace, wanted).decode()

    def _roll(self, spec: Json, newest: Json, others: list[Json]) -> None:
        """Scale up as surge allows, down as availability allows."""
        wanted = spec["replicas"]
        surge, unavailable = bounds(spec)
        old_total = sum(each["spec"]["replicas"] for each in others)
        recreate = spec["strategy"]["type"] == "Recreate"
        left = sum((each.get("status") or {}).get("replicas", 0) for each in others)
        if recreate:
            target = wanted if not left else newest["spec"]["replicas"]
        else:
            target = min(wanted, max(newest["spec"]["replicas"], wanted + surge - old_total))
        self._scale(newest, target)
        # Counted by what is asked for, not by what has been reported: reports come late.
        total = newest["spec"]["replicas"] + old_total
        starting = newest["spec"]["replicas"] - _available(newest)
        spare = old_total if recreate else total - (wanted - unavailable) - max(starting, 0)
        for each in sorted(others, key=_available):
            taken = max(0, min(each["spec"]["replicas"], spare))
            spare -= taken
            self._scale(each, each["spec"]["replicas"] - taken)

    def _scale(self, replica_set: Json, number: int) -> None:
        if replica_set["spec"]["replicas"] == number:
            return
        meta = replica_set["metadata"]
        item = self._registry.get(builtins.REPLICA_SETS, meta["namespace"], meta["name"])
        obj = item.decode()
        obj["spec"]["replicas"] = replica_set["spec"]["replicas"] = number
        self._registry.update(builtins.REPLICA_SETS, item, obj)

    def _write_status(self, key: Key, newest: str) -> None:
        item = self._registry.get(builtins.DEPLOYMENTS, *key)
        deployment = item.decode()
        sets = self._sets(item)
        wanted = deployment["spec"]["replicas"]
        total = sum((each.get("status") or {}).get("replicas", 0) for each in sets)
        current = [each for each in sets if each["metadata"]["name"] == newest]
        updated = sum((each.get("status") or {}).get("replicas", 0) for each in current)
        ready = sum((each.get("status") or {}).get("readyReplicas", 0) for each in sets)
        counts = {
            "observedGeneration": deployment["metadata"].get("generation", 0),
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, wanted - ready),
        }
        status: Json = {name: count for name, count in counts.items() if count}
        _, unavailable = bounds(deployment["spec"])
        complete = ready >= wanted and updated >= wanted and total == updated
        status["conditions"] = _conditions(
            (deployment.get("status") or {}).get("conditions") or [],
            ready >= wanted - unavailable,
            complete,
            newest,
        )
        deployment["status"] = status
        self._registry.update(builtins.DEPLOYMENTS, item, deployment, subresource="status")


def template_hash(template: Json) -> str:
    """The hash that names the ReplicaSet of a template."""
    canonical = msgspec.json.encode(template, order="sorted")
    return hashlib.sha256(canonical).hexdigest()[:10].translate(_SAFE)


def bounds(spec: Json) -> tuple[int, int]:
    """The numbers of pods more and fewer than asked for that a rollout may have."""
    rolling = spec["strategy"].get("rollingUpdate") or {}
    wanted = spec["replicas"]
    surge = _number(rolling.get("maxSurge", "25%"), wanted, up=True)
    unavailable = _number(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    return surge, 1 if not surge and not unavailable else unavailable


def _number(amount: int | str, whole: int, *, up: bool) -> int:
    if isinstance(amount, str) and amount.endswith("%"):
        exact = whole * int(amount[:-1]) / 100
        return math.ceil(exact) if up else math.floor(exact)
    return int(amount)


def _available(replica_set: Json) -> int:
    found: int = (replica_set.get("status") or {}).get("availableReplicas", 0)
    return found


def _conditions(old: list[Json], available: bool, complete: bool, newest: str) -> list[Json]:
    facts = (
        (
            "Available",
            available,
            "MinimumReplicasAvailable" if available else "MinimumReplicasUnavailable",
            "Deployment has minimum availability."
            if available
            else "Deployment does not have minimum availability.",
        ),
        (
            "Progressing",
            True,
            "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated",
            f'ReplicaSet "{newest}" has successfully progressed.'
            if complete
            else f'ReplicaSet "{newest}" is progressing.',
        ),
    )
    known = {each["type"]: each for each in old}
    result = []
    for kind, holds, reason, message in facts:
        before = known.get(kind, {})
        text = "True" if holds else "False"
        same = before.get("status") == text
        unchanged = same and before.get("reason") == reason
        result.append(
            {
                "type": kind,
                "status": text,
                "reason": reason,
                "message": message,
                "lastUpdateTime": before["lastUpdateTime"] if unchanged else times.now(),
                "lastTransitionTime": before["lastTransitionTime"] if same else times.now(),
            }
        )
    return result
