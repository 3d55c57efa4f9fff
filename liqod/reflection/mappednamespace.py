"""One mapped namespace for the workers: its objects in both clusters, and the reflectors ready.

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
"""Seconds for which the result of a check over all objects is kept."""


class MappedNamespace:
    """The stores of one mapped namespace, in this cluster and at the peer.

    Args:
        namespace: its local name.
        remote_namespace: its name at the peer.
        client: for reading at the peer, with the identity of any slice.
        caches: the peer's objects, by kind.

    Attributes:
        locals: the informers of this local namespace that are open, by kind and label selector.
        ready: since when (Trio time) each reflector can work.
        met: names of the reflectors of which a local object exists that the peer has something of:
            their local list is not empty.
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
        """The reason why a missing object may exist in either cluster; None normally."""
        own = self.local(reflector.kind, reflector.selector)
        reasons = [None if own is None else own.suspect]
        reasons += [self.caches[remote.kind].suspect for remote in reflector.remote]
        return next((reason for reason in reasons if reason is not None), None)

    def suspiciously_empty(self, reflector: Reflector, store: IndexedStore) -> str | None:
        """The reason why a start with an empty local list proves nothing yet; None normally.

        Just after a start nothing was seen before. If the peer has many objects made from local
        ones, and none of these is listed, that is more likely a mistake than their end. Once one
        of them has been listed, its end and theirs are believed.
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
        """True if a peer's object is a token that Liqo made for a pod that still runs there.

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
        """Have everything reconciled that exists at the peer."""
        for cache in self.caches.values():
            cache.enqueue_all()
