"""Garbage: dependents go after their owners; foreground and orphan deletion are completed."""

from typing import Any

import msgspec

from simulator.catalog import Resource
from simulator.controllers.manager import Manager
from simulator.storage import deletion
from simulator.storage.deletion import FOREGROUND, ORPHAN, DeleteOptions, Preconditions
from simulator.storage.registry import Registry
from simulator.storage.storage import Change, Item, Place, owners

Json = dict[str, Any]

GRACE = 0.05
"""Seconds before an object whose owners are not there is looked at: they may come in a moment."""


class Garbage:
    """The garbage collector of one cluster; its keys are places of objects, or owners' UIDs."""

    def __init__(self, registry: Registry, manager: Manager) -> None:
        self._registry = registry
        self._manager = manager
        registry.storage.listeners.append(self._notice)

    def _notice(self, qualified: str, change: Change) -> None:
        last = change.last
        place = (qualified, last.namespace, last.name)
        if change.after is None:
            for dependent in self._registry.storage.dependents(last.uid):
                self._manager.add(self, dependent)
            for owner in owners(last):
                holder = self._registry.storage.place(owner)
                if holder is not None:
                    self._manager.add(self, holder)
            return
        if b'"ownerReferences":[{' in last.raw:
            missing = [o for o in owners(last) if self._registry.storage.place(o) is None]
            if missing:
                self._manager.add(self, place, GRACE)
        if b'"deletionTimestamp"' in last.raw and (
            FOREGROUND.encode() in last.raw or b'"orphan"' in last.raw
        ):
            self._manager.add(self, place)

    def reconcile(self, key: Place) -> None:
        """Complete the deletion of an object, or delete it if nobody owns it any more."""
        qualified, namespace, name = key
        item = self._registry.find(qualified, namespace, name)
        resource = self._resource(qualified)
        if item is None or resource is None:
            return
        meta = item.decode()["metadata"]
        finalizers = meta.get("finalizers") or []
        if meta.get("deletionTimestamp") and ORPHAN in finalizers:
            self._orphan(item)
            self._release(resource, item, ORPHAN)
        elif meta.get("deletionTimestamp") and FOREGROUND in finalizers:
            if not self._delete_dependents(item):
                self._release(resource, item, FOREGROUND)
        elif not meta.get("deletionTimestamp"):
            self._collect(resource, item, meta)

    def _resource(self, qualified: str) -> Resource | None:
        return next((r for r in self._registry.catalog if r.qualified == qualified), None)

    def _collect(self, resource: Resource, item: Item, meta: Json) -> None:
        """Delete an object all of whose owners are gone; else forget those that are."""
        references = meta.get("ownerReferences") or []
        if not references:
            return
        solid = [each for each in references if self._holds(each, item)]
        if solid:
            if len(solid) < len(references):
                obj = item.decode()
                obj["metadata"]["ownerReferences"] = solid
                self._registry.update(resource, item, obj, force=True)
            return
        options = DeleteOptions(
            preconditions=Preconditions(uid=item.uid), propagation_policy="Background"
        )
        deletion.delete(self._registry, resource, item, options)

    def _holds(self, reference: Json, item: Item) -> bool:
        """True if an owner exists and does not wait for this dependent to go."""
        place = self._registry.storage.place(reference["uid"])
        if place is None or (place[1] and place[1] != item.namespace):
            return False
        owner = self._registry.find(*place)
        if owner is None or reference.get("name") != owner.name:
            return False
        meta = msgspec.json.decode(owner.raw)["metadata"]
        return not (meta.get("deletionTimestamp") and FOREGROUND in (meta.get("finalizers") or []))

    def _delete_dependents(self, owner: Item) -> int:
        """Delete an owner's dependents; how many of those that block it are left."""
        left = 0
        for place in self._registry.storage.dependents(owner.uid):
            item, resource = self._registry.find(*place), self._resource(place[0])
            if item is None or resource is None:
                continue
            references = item.decode()["metadata"].get("ownerReferences") or []
            mine = [each for each in references if each["uid"] == owner.uid]
            others = [each for each in references if each not in mine]
            if any(self._holds(each, item) for each in others):
                continue
            _, gone = deletion.delete(
                self._registry, resource, item, DeleteOptions(propagation_policy="Foreground")
            )
            left += not gone and any(each.get("blockOwnerDeletion") for each in mine)
        return left

    def _orphan(self, owner: Item) -> None:
        for place in self._registry.storage.dependents(owner.uid):
            item, resource = self._registry.find(*place), self._resource(place[0])
            if item is None or resource is None:
                continue
            obj = item.decode()
            references = obj["metadata"].get("ownerReferences") or []
            kept = [each for each in references if each["uid"] != owner.uid]
            obj["metadata"]["ownerReferences"] = kept
            self._registry.update(resource, item, obj, force=True)

    def _release(self, resource: Resource, item: Item, finalizer: str) -> None:
        current = self._registry.find(resource.qualified, item.namespace, item.name)
        if current is None:
            return
        obj = current.decode()
        finalizers = obj["metadata"].get("finalizers") or []
        obj["metadata"]["finalizers"] = [each for each in finalizers if each != finalizer]
        self._registry.update(resource, current, obj, force=True)
