"""Deletion: grace, finalizers, preconditions, propagation.

An object goes at once when nothing holds it; else it is marked and stays until its finalizers are
gone and, for a pod, until its kubelet deletes it with no grace left.
"""

import time
from typing import Any

import msgspec

from liqod.kube import times
from simulator.catalog import Resource
from simulator.storage.registry import Registry
from simulator.storage.storage import Item
from simulator.wire.failures import ApiError

Json = dict[str, Any]

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_TERMINAL = ("Succeeded", "Failed")


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    """``metav1.Preconditions``."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """``metav1.DeleteOptions``, as far as it is honoured."""

    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


def delete(
    registry: Registry, resource: Resource, item: Item, options: DeleteOptions, *, dry: bool = False
) -> tuple[Item, bool]:
    """Delete an object or begin to; returns its last state and whether it is gone.

    Raises:
        ApiError: 409 when a precondition does not hold.
    """
    _check_preconditions(resource, item, options.preconditions)
    obj = item.decode()
    meta = obj["metadata"]
    finalizers = _propagation(meta, options)
    if resource.qualified == "namespaces" and (obj.get("spec") or {}).get("finalizers"):
        return _mark_namespace(registry, resource, obj, dry)
    grace = _grace(resource, obj, options)
    if finalizers or grace > 0:
        marked = _mark(meta, grace, finalizers)
        if not marked:
            return item, False
        return registry.touch(resource, obj, dry=dry), False
    if not meta.get("deletionTimestamp") and resource.qualified == "pods":
        meta["deletionTimestamp"] = times.now()
        meta["deletionGracePeriodSeconds"] = 0
    return registry.erase(resource, obj, dry=dry), True


def _check_preconditions(resource: Resource, item: Item, conditions: Preconditions | None) -> None:
    if conditions is None:
        return
    if conditions.uid is not None and conditions.uid != item.uid:
        raise _unmet(
            resource,
            item,
            f"the UID in the precondition ({conditions.uid}) does not match the UID in record"
            f" ({item.uid}). The object might have been deleted and then recreated",
        )
    wanted = conditions.resource_version
    if wanted is not None and wanted != str(item.version):
        raise _unmet(
            resource,
            item,
            f"the ResourceVersion in the precondition ({wanted}) does not match the"
            f" ResourceVersion in record ({item.version}). The object might have been modified",
        )


def _unmet(resource: Resource, item: Item, why: str) -> ApiError:
    """409, in whose message the real server names the kind instead of the resource."""
    named = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f'Operation cannot be fulfilled on {named} "{item.name}": {why}'
    details = {"name": item.name, "group": resource.group, "kind": resource.kind}
    found = {key: value for key, value in details.items() if value}
    return ApiError(409, "Conflict", message, details=found)


def _propagation(meta: Json, options: DeleteOptions) -> list[str]:
    """The finalizers after the propagation policy has added or taken its own."""
    finalizers = list(meta.get("finalizers") or ())
    policy = options.propagation_policy
    if options.orphan_dependents:
        policy = "Orphan"
    if policy is not None:
        finalizers = [each for each in finalizers if each not in (FOREGROUND, ORPHAN)]
        if policy == "Foreground":
            finalizers.append(FOREGROUND)
        elif policy == "Orphan":
            finalizers.append(ORPHAN)
    return finalizers


def _grace(resource: Resource, obj: Json, options: DeleteOptions) -> int:
    """Seconds of grace: only pods that run somewhere have any."""
    if resource.qualified != "pods":
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in _TERMINAL:
        return 0
    grace = options.grace_period_seconds
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", 30)
    left = obj["metadata"].get("deletionGracePeriodSeconds")
    if obj["metadata"].get("deletionTimestamp") and left is not None:
        grace = min(grace, left)
    return max(int(grace), 0)


def _mark(meta: Json, grace: int, finalizers: list[str]) -> bool:
    """Mark as being deleted; False when nothing changes."""
    known = meta.get("deletionTimestamp")
    same = meta.get("deletionGracePeriodSeconds") == grace
    if known and same and finalizers == (meta.get("finalizers") or []):
        return False
    if not known or not same:
        meta["deletionTimestamp"] = times.of(time.time() + grace)
        meta["deletionGracePeriodSeconds"] = grace
        if meta.get("generation"):
            meta["generation"] += 1
    meta["finalizers"] = finalizers
    return True


def _mark_namespace(
    registry: Registry, resource: Resource, obj: Json, dry: bool
) -> tuple[Item, bool]:
    meta = obj["metadata"]
    if meta.get("deletionTimestamp"):
        current = registry.get(resource, "", meta["name"])
        return current, False
    meta["deletionTimestamp"] = times.now()
    obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return registry.touch(resource, obj, dry=dry), False
