"""The handlers that are notified of the changes of a store."""

import logging
from collections.abc import Callable

from liqod.apimachinery.kinds import Kind
from liqod.kube.cache.store import IndexedStore, StoreChange

Handler = Callable[[StoreChange], None]

log = logging.getLogger("liqod.kube.cache.informer")


class Handlers:
    """The subscribers of one informer, by the namespace that they follow; None is all.

    Args:
        kind: the kind followed, for the log.
        store: its known objects.
    """

    def __init__(self, kind: Kind, store: IndexedStore) -> None:
        self._kind = kind
        self._store = store
        self._handlers: dict[str | None, dict[object, Handler]] = {}

    def add(self, handler: Handler, namespace: str | None) -> Callable[[], None]:
        """Notify a handler of all existing objects, and from now on of each change.

        Returns: a function that ends the subscription.
        """
        token, store = object(), self._store
        self._handlers.setdefault(namespace, {})[token] = handler
        keys = store.keys() if namespace is None else store.indexed("namespace", namespace)
        for key in list(keys):
            handler(StoreChange(key, None, store.get(key)))

        def unsubscribe() -> None:
            handlers = self._handlers.get(namespace, {})
            handlers.pop(token, None)
            if not handlers:
                self._handlers.pop(namespace, None)

        return unsubscribe

    def notify(self, change: StoreChange | None) -> None:
        """Notify the handlers of a change; one that fails is logged and does not affect others."""
        if change is None:
            return
        for group in (None, change.key[0] or ""):
            for handler in tuple(self._handlers.get(group, {}).values()):
                try:
                    handler(change)
                except Exception:  # a wall: subscribers of a shared informer belong to many peers
                    log.exception("handler failed", extra={"kind": self._kind.plural})
