"""One mapped namespace: its watches in both clusters, and the reflectors that can work.

A session lives while the peer has the namespace. Each reflector starts by itself, as soon as the
kinds that it reads locally and writes at the peer are known: one whose kind a peer does not serve,
or may not be read, waits and reports so, and blocks no other. Ending a session removes nothing:
the peer ends the namespace with all that is in it.
"""

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import NoReturn

import msgspec
import trio

from liqod.apimachinery import labels as marks
from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial
from liqod.errors import LiqodError
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.plugins.contracts import Reflector, RemoteKind, Scope, Watch
from liqod.reflection.eventwatch import PODLIKE, EventTranslation, EventWatch
from liqod.reflection.mappednamespace import MappedNamespace
from liqod.reflection.reflectioncontext import Context
from liqod.reflection.remotecache import Debounce, RemoteCache
from liqod.reflection.worker import Worker
from liqod.reflection.workers import Workers
from liqod.runtime.backoff import Backoff
from liqod.runtime.observable import Notifier
from liqod.runtime.supervise import explain

PAUSES = Backoff(first=0.2, last=10.0)
"""Between tries to list a kind at the peer; the first refusal is its authorizer's cache."""


class NamespaceReflection:
    """Opens and follows the watches for one mapped namespace.

    Args:
        namespace: its local name.
        remote_namespace: its name at the peer.
        client: for reading at the peer, with the identity of any slice.
        workers: the peer's.

    Attributes:
        mapped: the namespace with its stores, as the workers see it.
        offered: the names of the reflectors whose objects the peer takes; the others wait for
            another session, and nothing of theirs is watched.
    """

    def __init__(
        self,
        namespace: str,
        remote_namespace: str,
        *,
        client: Client,
        context: Context,
        workers: Workers,
    ) -> None:
        self.offered = workers.offered(context.nodes)
        self._context = context
        self._workers = workers
        self._wake = Notifier()
        owners = (context.peer.context.cluster_id, context.peer.id)
        caches: dict[Kind, RemoteCache] = {}
        for kind, (watch, fields) in _watched(context.reflectors.values()).items():
            concerned = [
                worker
                for worker in workers.values()
                if any(remote.kind == kind for remote in worker.reflector.remote)
            ]
            caches[kind] = RemoteCache(
                client,
                kind,
                watch,
                (namespace, remote_namespace),
                [worker.reflector for worker in concerned],
                owners,
                enqueue={worker.reflector.name: worker.enqueue for worker in concerned},
                pause=self._pause,
                own=any(worker.own for worker in concerned),
                fields=fields,
            )
        self.mapped = MappedNamespace(namespace, remote_namespace, client, caches)
        tells = caches.keys() >= set(PODLIKE) and context.events.which != "none"
        translation = EventTranslation(self.mapped, context)
        self._events = EventWatch(self.mapped, context, translation) if tells else None

    def _pause(self, reflector: str, debounce: Debounce, body: bytes) -> float:
        return self._workers[reflector].pause(debounce, body)

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Watch until cancelled; started at once."""
        try:
            async with trio.open_nursery() as nursery:
                serving = [self._workers[name] for name in self.offered]
                kinds = {each.kind for worker in serving for each in worker.reflector.remote}
                for kind in kinds:
                    nursery.start_soon(self._keep, self.mapped.caches[kind])
                for worker in serving:
                    nursery.start_soon(self._serve, worker)
                if self._events is not None:
                    nursery.start_soon(self._events.run)
                nursery.start_soon(trio.sleep_forever)
                task_status.started()
        finally:
            self.mapped.ready.clear()
        raise AssertionError("a session ends by cancellation only")

    def wake(self) -> None:
        """Try again at once, without waiting for the end of a pause: the peer seems to be back."""
        for cache in self.mapped.caches.values():
            cache.wake()
        if self._events is not None:
            self._events.wake()
        self._wake.notify()

    def restart(self) -> None:
        """Watch anew over another connection: the one to the peer was lost."""
        for cache in self.mapped.caches.values():
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

    async def _serve(self, worker: Worker) -> NoReturn:
        """Open the watches that a reflector needs, and let it work."""
        reflector, context = worker.reflector, self._context
        async with AsyncExitStack() as stack:
            for kind, labels in self._local_kinds(reflector):
                selection = Selection(self.mapped.namespace, labels=labels)
                shared = context.peer.context.informers.share(kind, selection)
                self.mapped.locals[kind, labels] = await stack.enter_async_context(shared)
            if reflector.scope is Scope.NODE:
                await context.opened[reflector.kind].wait()
            for remote in reflector.remote:
                await self.mapped.caches[remote.kind].has_synced.wait()
                context.readable(remote.kind)
            self.mapped.ready[reflector.name] = trio.current_time()
            if reflector.scope is Scope.NODE:
                worker.enqueue_all(self.mapped.namespace)
            # Only once it is ready: a subscription begins with all that exists, and an object
            # that is reconciled before the peer's side is known is left alone.
            for kind, labels in self._local_kinds(reflector):
                informer = self.mapped.locals[kind, labels]
                if (kind, labels) == (reflector.kind, reflector.selector):
                    stack.callback(informer.subscribe(self._own_changed(worker)))
                else:
                    stack.callback(informer.subscribe(self._read_changed(kind)))
                if kind in reflector.local:
                    stack.callback(informer.subscribe(self._made_changed(worker)))
            for remote in reflector.remote:
                self.mapped.caches[remote.kind].enqueue_all()
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

    def _own_changed(self, worker: Worker) -> Callable[[StoreChange], None]:
        def heard(change: StoreChange) -> None:
            worker.enqueue(change.key)
            self._workers.read_changed(worker.reflector.kind, change.key)

        return heard

    def _read_changed(self, kind: Kind) -> Callable[[StoreChange], None]:
        return lambda change: self._workers.read_changed(kind, change.key)

    def _made_changed(self, worker: Worker) -> Callable[[StoreChange], None]:
        """A listener that reconciles the source of a local object that changed or is gone."""

        def heard(change: StoreChange) -> None:
            for body in (change.old, change.new):
                noted = "" if body is None else _noted(body)
                name, _, local = noted.partition("/")
                if name == worker.reflector.name:
                    worker.enqueue((self.mapped.namespace, local))

        return heard


def _watched(reflectors: Iterable[Reflector]) -> dict[Kind, tuple[Watch, str]]:
    """The watch of each kind at the peer, and its field selector.

    It is watched in full where any reflector needs that, and selected only where all reflectors
    that watch it need the same selection and none writes it.
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
