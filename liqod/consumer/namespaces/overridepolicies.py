"""The OverridePolicies for one namespace, from the informer that all who need them share."""

from liqod.kube.cache.store import IndexedStore
from liqod.model.crossing.overrides import Override, compiled, in_order


def overrides_of(store: IndexedStore, own: str, namespace: str) -> tuple[Override, ...]:
    """The valid policies for a namespace, in the order in which they are applied.

    Args:
        store: all policies.
        own: liqod's own namespace, whose policies are for all namespaces.
        namespace: of the objects.
    """
    keys = {key for each in (own, namespace) for key in store.indexed("namespace", each)}
    found = (compiled(body) for key in keys if (body := store.get(key)) is not None)
    return in_order((each for each in found if not each.problem), own)
