"""PodDisruptionBudgets: their status follows the pods that they select."""

from simulator import builtins
from simulator.controllers.manager import Manager
from simulator.nodes.budgets import status_of
from simulator.storage.registry import Registry
from simulator.storage.storage import Change

Key = tuple[str, str]
SETTLE = 0.05


class Budgets:
    """Keeps the status of budgets; keys are their namespace and name."""

    def __init__(self, registry: Registry, manager: Manager) -> None:
        self._registry = registry
        self._manager = manager
        self._budgets = registry.storage.of(builtins.BUDGETS.qualified)
        manager.follow(
            self._budgets.listeners,
            self,
            lambda change: change.after and (change.after.namespace, change.after.name),
        )
        registry.storage.of("pods").listeners.append(self._notice_pod)

    def _notice_pod(self, change: Change) -> None:
        for name in self._budgets.namespaces.get(change.last.namespace, ()):
            self._manager.add(self, (change.last.namespace, name), SETTLE)

    def reconcile(self, key: Key) -> None:
        """Count, and say so."""
        item = self._budgets.get(*key)
        if item is None:
            return
        obj = item.decode()
        status = status_of(self._registry.storage, obj, key[0])
        status["observedGeneration"] = obj["metadata"].get("generation", 0)
        obj["status"] = {**(obj.get("status") or {}), **status}
        self._registry.update(builtins.BUDGETS, item, obj, subresource="status")
