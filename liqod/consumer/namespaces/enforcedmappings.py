"""Protects the NamespaceMap entries that a NamespaceOffloading requires against edits of the map.

Reads stores and writes nothing. An edit of a map may take an entry out, or give it another name;
:mod:`liqod.consumer.namespaces.offloadingcontroller` puts that right in a moment. Until then
the provider must not see that, since it would end the namespace with all that runs there.
"""

from collections.abc import Mapping
from typing import Any

from liqod.apimachinery import labels
from liqod.consumer.namespaces import offloadplan
from liqod.consumer.namespaces.clusterviews import ClusterViews
from liqod.consumer.namespaces.unoffloadable import UnoffloadableNamespaces
from liqod.kube.cache.store import IndexedStore
from liqod.resources import NamespaceOffloading


class EnforcedMappings:
    """The mappings that this cluster's NamespaceOffloadings require of providers.

    Args:
        consumer: this cluster's id.
        views: the providers.
        offloadings: all NamespaceOffloadings.
        unoffloadable: the namespaces that can never be offloaded.
    """

    def __init__(
        self,
        consumer: str,
        views: ClusterViews,
        offloadings: IndexedStore,
        unoffloadable: UnoffloadableNamespaces,
    ) -> None:
        self._consumer = consumer
        self._views = views
        self._offloadings = offloadings
        self._unoffloadable = unoffloadable

    def lost(
        self, provider: str, source: Mapping[str, Any], replica: Mapping[str, Any]
    ) -> list[str]:
        """The namespaces that a map would lose at the provider, and is about to be given again.

        Args:
            provider: its cluster id.
            source: the map in this cluster, as JSON.
            replica: the map at the provider.
        """
        wanted, there = _entries(source), _entries(replica)
        changed = [local for local, name in there.items() if wanted.get(local) != name]
        if not changed:
            return []
        clusters = [view for _, view in self._views.all().values()]
        found = []
        for local in changed:
            key = (local, labels.NAMESPACE_OFFLOADING_NAME)
            offloading = self._offloadings.decode(key, NamespaceOffloading)
            if offloading is None:
                continue
            stays = self._unoffloadable.problem(local)
            outcome = offloadplan.plan(offloading, self._consumer, clusters, "", stays=stays)
            if outcome.mapping.get(provider) == there[local]:
                found.append(local)
        return found


def _entries(namespace_map: Mapping[str, Any]) -> Mapping[str, str]:
    entries: Mapping[str, str] = namespace_map.get("spec", {}).get("desiredMapping") or {}
    return entries
