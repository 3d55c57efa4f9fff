"""ReplicaSets: as many living pods as are asked for."""

from typing import Any

import trio

from liqod.kube import times
from simulator import builtins
from simulator.access.admission import Admission, Review
from simulator.access.identities import account_user
from simulator.controllers.manager import Manager
from simulator.nodes.budgets import is_ready
from simulator.storage import deletion
from simulator.storage.deletion import DeleteOptions, Preconditions
from simulator.storage.registry import Registry
from simulator.storage.storage import Change, Item
from simulator.wire.failures import ApiError
from simulator.wire.routes import Route

Json = dict[str, Any]
Key = tuple[str, str]

_TERMINAL = ("Succeeded", "Failed")
MOST_AT_ONCE = 500
RETRY = 1.0


def controller_of(meta: Json) -> Json | None:
    """The owner reference of an object's controller, or None."""
    owners = meta.get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), None)


def owned_by(kind: str, change: Change) -> Key | None:
    """The key of the controller of a changed object, if it is of that kind."""
    if b'"controller":true' not in change.last.raw:
        return None
    owner = controller_of(change.last.decode()["metadata"])
    if owner is None or owner["kind"] != kind:
        return None
    return change.last.namespace, owner["name"]


def reference(api_version: str, kind: str, item: Item) -> Json:
    """The owner reference that a controller puts on what it makes."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": item.name,
        "uid": item.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pods_of(registry: Registry, owner: Item) -> list[tuple[Item, Json]]:
    """The pods that name an object as their owner."""
    found = []
    for place in registry.storage.dependents(owner.uid):
        item = registry.find(*place) if place[0] == "pods" else None
        if item is not None:
            found.append((item, item.decode()))
    return found


def is_active(pod: Json) -> bool:
    """True if a pod counts as a replica."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in _TERMINAL and not pod["metadata"].get("deletionTimestamp")


class PodMaker:
    """Makes pods from templates, through admission as everybody's pods."""

    def __init__(self, registry: Registry, admission: Admission) -> None:
        self._registry = registry
        self._admission = admission

    async def make(self, owner: Item, template: Json, owner_reference: Json, account: str) -> Item:
        """One pod more for an owner.

        Raises:
            ApiError: it is refused.
        """
        await trio.lowlevel.checkpoint()
        meta = template.get("metadata") or {}
        pod: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": f"{owner.name[:57]}-",
                "namespace": owner.namespace,
                "labels": dict(meta.get("labels") or {}),
                "annotations": dict(meta.get("annotations") or {}),
                "ownerReferences": [owner_reference],
            },
            "spec": template.get("spec") or {},
        }
        user = account_user("kube-system", account)
        self._registry.prepare(builtins.PODS, owner.namespace, pod)
        route = Route("create", builtins.PODS, owner.namespace)
        pod = await self._admission.mutate(Review(route, user, "CREATE", pod, None, False))
        return self._registry.create(builtins.PODS, owner.namespace, pod)


class ReplicaSets:
    """Keeps ReplicaSets at their number; keys are their namespace and name."""

    def __init__(self, registry: Registry, manager: Manager, maker: PodMaker) -> None:
        self._registry = registry
        self._maker = maker
        storage = registry.storage
        manager.follow(
            storage.of(builtins.REPLICA_SETS.qualified).listeners,
            self,
            lambda change: change.after and (change.after.namespace, change.after.name),
        )
        manager.follow(
            storage.of("pods").listeners, self, lambda change: owned_by("ReplicaSet", change)
        )

    def _get(self, key: Key) -> Item | None:
        return self._registry.find(builtins.REPLICA_SETS.qualified, *key)

    async def reconcile(self, key: Key) -> float | None:
        """Make or delete pods until their number is right, then write the status."""
        item = self._get(key)
        if item is None:
            return None
        owner = item.decode()
        failure = ""
        if not owner["metadata"].get("deletionTimestamp"):
            active = [(i, pod) for i, pod in pods_of(self._registry, item) if is_active(pod)]
            missing = owner["spec"]["replicas"] - len(active)
            try:
                await self._make(item, min(missing, MOST_AT_ONCE))
            except ApiError as error:
                failure = str(error)
            self._delete(active, -missing)
        self._write_status(key, failure)
        return RETRY if failure else None

    async def _make(self, item: Item, number: int) -> None:
        mine = reference("apps/v1", "ReplicaSet", item)
        for _ in range(number):
            template = item.decode()["spec"]["template"]
            await self._maker.make(item, template, mine, "replicaset-controller")

    def _delete(self, active: list[tuple[Item, Json]], number: int) -> None:
        if number <= 0:
            return
        for item, _ in sorted(active, key=_worth)[:number]:
            options = DeleteOptions(preconditions=Preconditions(uid=item.uid))
            deletion.delete(self._registry, builtins.PODS, item, options)

    def _write_status(self, key: Key, failure: str) -> None:
        item = self._get(key)
        if item is None:
            return
        owner = item.decode()
        active = [pod for _, pod in pods_of(self._registry, item) if is_active(pod)]
        ready = sum(map(is_ready, active))
        status: Json = {"replicas": len(active)}
        counts = {
            "fullyLabeledReplicas": len(active),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": owner["metadata"].get("generation", 0),
        }
        status |= {name: count for name, count in counts.items() if count}
        if failure:
            old = (owner.get("status") or {}).get("conditions") or [{}]
            status["conditions"] = [
                {
                    "type": "ReplicaFailure",
                    "status": "True",
                    "reason": "FailedCreate",
                    "message": failure,
                    "lastTransitionTime": old[0].get("lastTransitionTime") or times.now(),
                }
            ]
        owner["status"] = status
        self._registry.update(builtins.REPLICA_SETS, item, owner, subresource="status")


def _worth(pair: tuple[Item, Json]) -> tuple[bool, bool, str, str]:
    """Pods in the order in which they can be spared."""
    item, pod = pair
    created = pod["metadata"]["creationTimestamp"]
    return bool(pod["spec"].get("nodeName")), is_ready(pod), _reversed(created), item.name


def _reversed(text: str) -> str:
    """A text that sorts the other way round: the newest pod is spared first."""
    return "".join(chr(255 - ord(char)) for char in text)
