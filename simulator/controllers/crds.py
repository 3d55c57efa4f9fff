"""CustomResourceDefinitions: kinds are served once defined, and go with their objects."""

from msgspec.structs import replace

from simulator import builtins
from simulator.catalog import Resource
from simulator.controllers.manager import Manager
from simulator.storage import deletion
from simulator.storage.definitions import to_resources
from simulator.storage.deletion import DeleteOptions
from simulator.storage.registry import Registry
from simulator.storage.storage import Change

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class Definitions:
    """Serves custom kinds, and empties them when their definition is deleted."""

    def __init__(self, registry: Registry, manager: Manager) -> None:
        self._registry = registry
        self._manager = manager
        collection = registry.storage.of(builtins.DEFINITIONS.qualified)
        collection.listeners.append(self._serve)

    def _serve(self, change: Change) -> None:
        """Follow a definition at once: anyone who created it may use it in the next request."""
        obj = change.last.decode()
        spec = obj["spec"]
        group, plural = spec["group"], spec["names"]["plural"]
        self._registry.catalog.remove(group, plural)
        if change.after is None:
            self._registry.storage.forget(f"{plural}.{group}")
            return
        going = "deletionTimestamp" in obj["metadata"]
        for resource in to_resources(obj):
            self._registry.catalog.add(replace(resource, terminating=going))
        self._manager.add(self, change.last.name)

    def reconcile(self, key: str) -> None:
        """Hold a definition by its finalizer until no object of it is left."""
        item = self._registry.find(builtins.DEFINITIONS.qualified, "", key)
        if item is None:
            return
        obj = item.decode()
        meta = obj["metadata"]
        finalizers = meta.get("finalizers") or []
        if not meta.get("deletionTimestamp"):
            if CLEANUP not in finalizers:
                meta["finalizers"] = [*finalizers, CLEANUP]
                self._registry.update(builtins.DEFINITIONS, item, obj, force=True)
            return
        resources = to_resources(obj)
        if resources and not self._empty(resources[0]):
            return
        if CLEANUP in finalizers:
            meta["finalizers"] = [each for each in finalizers if each != CLEANUP]
            self._registry.update(builtins.DEFINITIONS, item, obj, force=True)

    def _empty(self, resource: Resource) -> bool:
        """Delete what there is of a kind; whether nothing is left."""
        collection = self._registry.storage.of(resource.qualified)
        for item in list(collection.items()):
            deletion.delete(self._registry, resource, item, DeleteOptions())
        if not len(collection):
            return True
        if self._resume not in collection.listeners:
            collection.listeners.append(self._resume)
        return False

    def _resume(self, change: Change) -> None:
        """An object that held its definition has changed: look at definitions again."""
        for item in self._registry.storage.of(builtins.DEFINITIONS.qualified).items():
            self._manager.add(self, item.name)
