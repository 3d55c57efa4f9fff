"""Namespaces: what each gets when it is made, and emptying it before it goes."""

from simulator import builtins
from simulator.controllers.manager import Manager
from simulator.storage import deletion
from simulator.storage.deletion import DeleteOptions
from simulator.storage.registry import Registry
from simulator.storage.storage import Change

ROOT_CERTIFICATE = "kube-root-ca.crt"
RECHECK = 1.0


class Namespaces:
    """Gives namespaces their ServiceAccount and root certificate, and takes them down."""

    def __init__(self, registry: Registry, manager: Manager, ca: bytes) -> None:
        self._registry = registry
        self._ca = ca.decode()
        storage = registry.storage
        manager.follow(storage.of("namespaces").listeners, self, lambda change: change.last.name)
        for qualified in ("serviceaccounts", "configmaps"):
            manager.follow(storage.of(qualified).listeners, self, _removed)

    def reconcile(self, key: str) -> float | None:
        """Complete a living namespace; take down a dying one."""
        item = self._registry.find("namespaces", "", key)
        if item is None:
            return None
        obj = item.decode()
        if not obj["metadata"].get("deletionTimestamp"):
            self._complete(key)
            return None
        if not self._emptied(key):
            return RECHECK
        obj["spec"]["finalizers"] = []
        if obj["metadata"].get("finalizers"):
            self._registry.update(builtins.NAMESPACES, item, obj, force=True)
        else:
            self._registry.erase(builtins.NAMESPACES, obj)
        return None

    def _complete(self, namespace: str) -> None:
        registry = self._registry
        if registry.find("configmaps", namespace, ROOT_CERTIFICATE) is None:
            wanted = {
                "metadata": {
                    "name": ROOT_CERTIFICATE,
                    "namespace": namespace,
                    "annotations": {
                        "kubernetes.io/description": (
                            "Contains a CA bundle that can be used to verify the kube-apiserver"
                            " when using internal endpoints such as the internal service IP or"
                            " kubernetes.default.svc. No other usage is guaranteed across"
                            " distributions of Kubernetes clusters."
                        )
                    },
                },
                "data": {"ca.crt": self._ca},
            }
            registry.create(builtins.CONFIG_MAPS, namespace, wanted)
        if registry.find("serviceaccounts", namespace, "default") is None:
            account = {"metadata": {"name": "default", "namespace": namespace}}
            registry.create(builtins.SERVICE_ACCOUNTS, namespace, account)

    def _emptied(self, namespace: str) -> bool:
        """Delete everything in a namespace; whether nothing is left."""
        left = 0
        for resource in self._registry.catalog:
            if not resource.namespaced or resource.ephemeral:
                continue
            collection = self._registry.storage.of(resource.qualified)
            for item in list(collection.items(namespace)):
                _, gone = deletion.delete(self._registry, resource, item, DeleteOptions())
                left += not gone
        return not left


def _removed(change: Change) -> str | None:
    return change.last.namespace if change.after is None else None
