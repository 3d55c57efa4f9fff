"""One mapped namespace: the watches here and there for it, and the reflectors that can work.

A session lives while the peer has the namespace. Each reflector starts by itself, as soon as the
kinds that it reads here and writes there are known: one whose kind a peer does not serve, or may
not be read, waits and says so, and blocks no other. Ending a session removes nothing: the
peer ends the namespace with all that is in it.
"""

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels as marks
from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.errors import LiqodError
from liqod.kube.cache.informer import SUSPECT_ABOVE, SUSPECT_GRACE, Informer
from liqod.kube.cache.store import Change, Store
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.plugins.contracts import Reflector, RemoteKind, Scope, Watch
from liqod.reflection.context import Context
from liqod.reflection.eventwatch import PODLIKE, EventWatch
from liqod.reflection.remotecache import RemoteCache
from liqod.resources.offloading import SHADOW_PODS
from liqod.runtime.backoff import Backoff
from liqod.runtime.observable import News
from liqod.runtime.supervise import explain

if TYPE_CHECKING:
    from liqod.reflection.worker import Worker

PAUSES = Backoff(first=0.2, last=10.0)
"""Between tries to list a kind at the peer; the first refusal is its authorizer's cache."""

EMPTY_KEPT = 1.0
"""Seconds for which the answer to a question that goes over all objects is kept."""


class Session:
    """The watches for one mapped namespace.

    Args:
        namespace: its local name.
        remote_namespace: its name at the peer.
        client: for reading there, with the identity of any slice.
        context: of the peer's reflection.

    Attributes:
        caches: what is there, by kind.
        ready: since when (Trio time) each reflector can work.
        met: names of the reflectors of which an object is here that the peer has something of: what
            they read here is no empty list.
        offered: the names of the reflectors of which the peer takes what they write; the others
            wait for another session, and nothing of theirs is watched.
    """

    def __init__(
        self, namespace: str, remote_namespace: str, *, client: Client, context: Context
    ) -> None:
        self.namespace = namespace
        self.remote_namespace = remote_namespace
        self.client = client
        self.caches: dict[Kind, RemoteCache] = {}
        self.ready: dict[str, float] = {}
        self.met: set[str] = set()
        self.offered = context.offered
        self._context = context
        self._wake = News()
        self._empty: dict[str, tuple[float, str | None]] = {}
        self._locals: dict[tuple[Kind, str], Informer] = {}
        workers = context.workers
        owners = (context.peer.context.cluster_id, context.peer.id)
        reflectors = [each.reflector for each in workers.values()]
        for kind, (watch, fields) in _watched(reflectors).items():
            concerned = {
                name: worker
                for name, worker in workers.items()
                if any(remote.kind == kind for remote in worker.reflector.remote)
            }
            namespaces = (namespace, remote_namespace)
            self.caches[kind] = RemoteCache(
                client, kind, watch, namespaces, concerned, owners, fields=fields
            )
        tells = self.caches.keys() >= set(PODLIKE) and context.events.which != "none"
        self._events = EventWatch(self, context) if tells else None

    def local(self, kind: Kind, labels: str = "") -> Informer | None:
        """The local informer of a kind in this namespace, once it is open."""
        return self._locals.get((kind, labels))

    def suspect(self, reflector: Reflector) -> str | None:
        """The reason why a missing object may exist all the same, here or there; None normally."""
        own = self.local(reflector.kind, reflector.selector)
        reasons = [None if own is None else own.suspect]
        reasons += [self.caches[remote.kind].suspect for remote in reflector.remote]
        return next((reason for reason in reasons if reason is not None), None)

    def suspiciously_empty(self, reflector: Reflector, store: Store) -> str | None:
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

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Watch until cancelled; started at once."""
        try:
            async with trio.open_nursery() as nursery:
                serving = [self._context.workers[name] for name in self.offered]
                kinds = {each.kind for worker in serving for each in worker.reflector.remote}
                for kind in kinds:
                    nursery.start_soon(self._keep, self.caches[kind])
                for worker in serving:
                    nursery.start_soon(self._serve, worker)
                if self._events is not None:
                    nursery.start_soon(self._events.run)
                nursery.start_soon(trio.sleep_forever)
                task_status.started()
        finally:
            self.ready.clear()
        raise AssertionError("a session ends by cancellation only")

    def wake(self) -> None:
        """The peer is said to be back: nobody waits for the end of a pause."""
        for cache in self.caches.values():
            cache.wake()
        if self._events is not None:
            self._events.wake()
        self._wake.tell()

    def restart(self) -> None:
        """The way to the peer was lost: what is watched there is watched over another."""
        for cache in self.caches.values():
            cache.restart()
        if self._events is not None:
            self._events.restart()

    async def _keep(self, cache: RemoteCache) -> NoReturn:
        failures = 0
        while True:
            began = trio.current_time()
            try:
                await cache.run()
            except* LiqodError as group:
                lasted = trio.current_time() - began > PAUSES.last
                failures = 1 if lasted else failures + 1
                self._context.unreadable(cache.kind, explain(group))
            with trio.move_on_after(PAUSES.delay(failures)):
                await self._wake.wait()

    async def _serve(self, worker: "Worker") -> NoReturn:
        """Open what a reflector needs, and let it work."""
        reflector, context = worker.reflector, self._context
        async with AsyncExitStack() as stack:
            for kind, labels in self._local_kinds(reflector):
                selection = Selection(self.namespace, labels=labels)
                shared = context.peer.context.informers.share(kind, selection)
                self._locals[kind, labels] = await stack.enter_async_context(shared)
            if reflector.scope is Scope.NODE:
                await context.opened[reflector.kind].wait()
            for remote in reflector.remote:
                await self.caches[remote.kind].known.wait()
                context.readable(remote.kind)
            self.ready[reflector.name] = trio.current_time()
            if reflector.scope is Scope.NODE:
                worker.enqueue_all(self.namespace)
            # Only once it is ready: a subscription begins with all that is there, and an object
            # that is reconciled before the peer's side is known is left alone.
            for kind, labels in self._local_kinds(reflector):
                informer = self._locals[kind, labels]
                if (kind, labels) == (reflector.kind, reflector.selector):
                    stack.callback(informer.subscribe(self._own_changed(worker)))
                else:
                    stack.callback(informer.subscribe(self._read_changed(kind)))
                if kind in reflector.local:
                    stack.callback(informer.subscribe(self._made_changed(worker)))
            for remote in reflector.remote:
                self.caches[remote.kind].enqueue_all()
            await trio.sleep_forever()
        raise AssertionError("a reflector serves until it is cancelled")

    def _local_kinds(self, reflector: Reflector) -> list[tuple[Kind, str]]:
        own = [(reflector.kind, reflector.selector)] if reflector.scope is Scope.NAMESPACE else []
        read = [
            (reads.kind, "")
            for reads in reflector.reads
            if reads.kind.namespaced and not reads.everywhere
        ]
        made = [(kind, "") for kind in reflector.local]
        return list(dict.fromkeys([*own, *read, *made]))

    def _own_changed(self, worker: "Worker") -> Callable[[Change], None]:
        def heard(change: Change) -> None:
            worker.enqueue(change.key)
            self._context.read_changed(worker.reflector.kind, change.key)

        return heard

    def _read_changed(self, kind: Kind) -> Callable[[Change], None]:
        return lambda change: self._context.read_changed(kind, change.key)

    def _made_changed(self, worker: "Worker") -> Callable[[Change], None]:
        """A listener that reconciles the source of an object made here that changed or is gone."""

        def heard(change: Change) -> None:
            for body in (change.old, change.new):
                noted = "" if body is None else _noted(body)
                name, _, local = noted.partition("/")
                if name == worker.reflector.name:
                    worker.enqueue((self.namespace, local))

        return heard


def _watched(reflectors: Iterable[Reflector]) -> dict[Kind, tuple[Watch, str]]:
    """The watch of each kind at the peer, and its field selector.

    It is watched in full where any reflector asks for that, and selected only where all who watch
    it ask for the same and nobody writes it.
    """
    kinds: dict[Kind, list[RemoteKind]] = {}
    for remote in (remote for reflector in reflectors for remote in reflector.remote):
        kinds.setdefault(remote.kind, []).append(remote)
    found: dict[Kind, tuple[Watch, str]] = {}
    for kind, asked in kinds.items():
        full = any(each.watch is Watch.FULL for each in asked)
        selectors = {each.fields if each.write is None else "" for each in asked}
        fields = selectors.pop() if len(selectors) == 1 else ""
        found[kind] = (Watch.FULL if full else Watch.METADATA, fields)
    return found


def _noted(body: bytes) -> str:
    """The mark of its making that an object carries."""
    found = msgspec.json.decode(body, type=Partial)
    return found.metadata.annotations.get(marks.SOURCE, "")
