"""One mapped namespace as workers see it: what is here and at the peer, and who can work.

It is a value that :class:`liqod.reflection.namespacereflection.NamespaceReflection` fills: that
opens the watches and follows them.
"""

from collections.abc import Mapping

import trio

from liqod.apimachinery import labels as marks
from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import ObjectMeta
from liqod.kube.cache.informer import SUSPECT_ABOVE, SUSPECT_GRACE, SharedInformer
from liqod.kube.cache.store import IndexedStore
from liqod.kube.client import Client
from liqod.plugins.contracts import Reflector
from liqod.reflection.remotecache import RemoteCache
from liqod.resources.offloading import SHADOW_PODS

EMPTY_KEPT = 1.0
"""Seconds for which the answer to a question that goes over all objects is kept."""


class MappedNamespace:
    """The stores of one mapped namespace, here and at the peer.

    Args:
        namespace: its local name.
        remote_namespace: its name at the peer.
        client: for reading there, with the identity of any slice.
        caches: the objects there, by kind.

    Attributes:
        locals: the informers of this namespace here that are open, by kind and label selector.
        ready: since when (Trio time) each reflector can work.
        met: names of the reflectors of which an object is here that the peer has something of: what
            they read here is no empty list.
    """

    def __init__(
        self,
        namespace: str,
        remote_namespace: str,
        client: Client,
        caches: Mapping[Kind, RemoteCache],
    ) -> None:
        self.namespace = namespace
        self.remote_namespace = remote_namespace
        self.client = client
        self.caches = caches
        self.locals: dict[tuple[Kind, str], SharedInformer] = {}
        self.ready: dict[str, float] = {}
        self.met: set[str] = set()
        self._empty: dict[str, tuple[float, str | None]] = {}

    def local(self, kind: Kind, labels: str = "") -> SharedInformer | None:
        """The local informer of a kind in this namespace, once it is open."""
        return self.locals.get((kind, labels))

    def suspect(self, reflector: Reflector) -> str | None:
        """The reason why a missing object may exist all the same, here or there; None normally."""
        own = self.local(reflector.kind, reflector.selector)
        reasons = [None if own is None else own.suspect]
        reasons += [self.caches[remote.kind].suspect for remote in reflector.remote]
        return next((reason for reason in reasons if reason is not None), None)

    def suspiciously_empty(self, reflector: Reflector, store: IndexedStore) -> str | None:
        """The reason why a start that sees nothing here proves nothing yet; None normally.

        Where we have just begun, nothing was known here before. That not one is here of the many
        objects that the peer has from here is then more likely a mistake than their end. Where one
        of them has been here since, its end and theirs are seen.
        """
        now = trio.current_time()
        since = self.ready.get(reflector.name)
        if since is None or reflector.name in self.met or now - since >= SUSPECT_GRACE:
            return None
        asked, answer = self._empty.get(reflector.name, (-EMPTY_KEPT, None))
        if now - asked >= EMPTY_KEPT:
            known = self._reflected(reflector)
            here = any((self.namespace, name) in store for name in known)
            doubted = len(known) > SUSPECT_ABOVE and not here
            text = f"not one is here of the {len(known)} objects that the peer has from here"
            answer = text if doubted else None
            self._empty[reflector.name] = (now, answer)
        return answer

    def _reflected(self, reflector: Reflector) -> set[str]:
        """The names of the local objects that have something at the peer."""
        written = (self.caches[remote.kind] for remote in reflector.written)
        found = {source for each in written for source in each.sources}
        return {local for name, local in found if name == reflector.name} - set(reflector.always)

    def serves(self, meta: ObjectMeta) -> bool:
        """True if an object there is a token that Liqo made for a pod which runs there still.

        The pods that Liqo made have theirs mounted. Tokens that liqod made, or renews, are its
        reflector's.
        """
        pod = meta.annotations.get(marks.SERVICE_ACCOUNT_POD_NAME)
        if pod is None or marks.SOURCE in meta.annotations:
            return False
        shadows = self.caches.get(SHADOW_PODS)
        if shadows is None or not shadows.synced:
            return True
        shadow = shadows.find(pod)
        if shadow is None:
            return False
        uid = meta.annotations.get(marks.SERVICE_ACCOUNT_POD_UID)
        return shadow.metadata.annotations.get(marks.LOCAL_UID) in (None, uid)

    def enqueue_remote(self) -> None:
        """Have everything reconciled that is there."""
        for cache in self.caches.values():
            cache.enqueue_all()
