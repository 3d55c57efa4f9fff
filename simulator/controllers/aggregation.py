"""Aggregated ClusterRoles: their rules are those of the roles that they select."""

import msgspec

from simulator import builtins
from simulator.access.rights import Authorizer
from simulator.controllers.manager import Manager
from simulator.storage.registry import Registry
from simulator.storage.storage import Change


class Aggregation:
    """Writes the rules of aggregated roles where they can be read; its only key is None.

    The authorizer does not wait for it: it computes them by itself.
    """

    def __init__(self, registry: Registry, manager: Manager, authorizer: Authorizer) -> None:
        self._registry = registry
        self._manager = manager
        self._authorizer = authorizer
        self._roles = registry.storage.of(builtins.CLUSTER_ROLES.qualified)
        self._roles.listeners.append(self._notice)

    def _notice(self, change: Change) -> None:
        self._manager.add(self, None)

    def reconcile(self, key: None) -> None:
        """Bring every aggregated role up to date."""
        rules = self._authorizer.cluster_roles()
        for item in list(self._roles.items()):
            if b'"aggregationRule"' not in item.raw:
                continue
            obj = item.decode()
            wanted = [
                {name: list(value) for name, value in msgspec.to_builtins(rule).items() if value}
                for rule in rules[item.name]
            ]
            if (obj.get("rules") or []) != wanted:
                obj["rules"] = wanted
                self._registry.update(builtins.CLUSTER_ROLES, item, obj)
