"""One mapped namespace: what is watched here and there for it, and which reflectors can work.

A session lives while the peer has the namespace. Each reflector starts by itself, as soon as the
kinds that it reads here and writes there are known: one whose kind a peer does not serve, or may
not be read, waits and says so, and stands in nobody's way. Ending a session removes nothing: the
peer ends the namespace with all that is in it.
"""

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import NoReturn

import msgspec
import trio

from liqod.errors import LiqodError
from liqod.kube.backoff import Backoff
from liqod.kube.cache.informer import SUSPECT_ABOVE, SUSPECT_GRACE, Informer
from liqod.kube.cache.informers import Informers
from liqod.kube.cache.store import Change, Store
from liqod.kube.client import Client
from liqod.kube.kinds import Kind
from liqod.kube.meta import ObjectMeta, Partial
from liqod.kube.selection import Selection
from liqod.model import labels as marks
from liqod.plugins.contracts import Reflector, RemoteKind, Scope, Watch
from liqod.reflection.observed import Observed
from liqod.reflection.view import Key, Subject
from liqod.resources.offloading import SHADOW_PODS
from liqod.supervise import explain

PAUSES = Backoff(first=0.2, last=10.0)
"""Between tries to look at a kind at the peer; the first refusal is its authorizer's cache."""

FAREWELL_KEPT = 1.0
"""Seconds for which the answer to a question that goes over all objects is kept."""


class Ears(msgspec.Struct, frozen=True):
    """Whom a session tells.

    Attributes:
        subject: the object of a reflector is to be looked at, within so many seconds.
        changed: an object that reflectors read has changed.
        ready: a reflector whose objects are on nodes can work in a namespace.
        problem: a kind at the peer cannot be read (the reason), or can again (None).
    """

    subject: Callable[[Subject, float], None]
    changed: Callable[[Kind, Key], None]
    ready: Callable[[Reflector, str], None]
    problem: Callable[[Kind, str | None], None]


class Session:
    """What is watched for one mapped namespace.

    Args:
        namespace: its local name.
        remote_namespace: its name at the peer.
        client: for reading there, with the identity of any slice.
        owners: this cluster's id, and the peer's.
        reflectors: those that are to run.
        ears: whom to tell.
    """

    def __init__(
        self,
        namespace: str,
        remote_namespace: str,
        *,
        client: Client,
        owners: tuple[str, str],
        reflectors: Iterable[Reflector],
        ears: Ears,
    ) -> None:
        self.namespace = namespace
        self.remote_namespace = remote_namespace
        self.client = client
        self.reflectors = tuple(reflectors)
        self.observed: dict[Kind, Observed] = {}
        self.ready: dict[str, float] = {}
        """Since when (Trio time) each reflector can work."""
        self._ears = ears
        self._wake = trio.Event()
        self._farewells: dict[str, tuple[float, str | None]] = {}
        self._locals: dict[tuple[Kind, str], Informer] = {}
        for kind, (watch, fields) in _watched(self.reflectors).items():
            concerned = [
                each for each in self.reflectors if any(t.kind == kind for t in each.remote)
            ]
            self.observed[kind] = Observed(
                client,
                kind,
                watch,
                remote_namespace,
                concerned,
                owners,
                self._there_changed,
                fields=fields,
            )

    def local(self, kind: Kind, labels: str = "") -> Informer | None:
        """The local informer of a kind in this namespace, once it is open."""
        return self._locals.get((kind, labels))

    def store(self, kind: Kind) -> Store | None:
        """The local store of a kind that reflectors read."""
        informer = self.local(kind)
        return None if informer is None else informer.store

    def suspect(self, reflector: Reflector) -> str | None:
        """Why what is missing must not be believed yet, here or there; None normally."""
        own = self.local(reflector.kind, reflector.selector)
        reasons = [None if own is None else own.suspect]
        reasons += [self.observed[there.kind].suspect for there in reflector.remote]
        return next((reason for reason in reasons if reason is not None), None)

    def farewell(self, reflector: Reflector, store: Store) -> str | None:
        """Why a start that sees nothing here must not be believed yet; None normally.

        Where we have just begun, nothing was known here before. That not one is here of the many
        objects that the peer has from here is then more likely a mistake than a farewell.
        """
        now = trio.current_time()
        since = self.ready.get(reflector.name)
        if since is None or now - since >= SUSPECT_GRACE:
            return None
        asked, answer = self._farewells.get(reflector.name, (-FAREWELL_KEPT, None))
        if now - asked >= FAREWELL_KEPT:
            known = self._twins(reflector)
            here = any((self.namespace, name) in store for name in known)
            doubted = len(known) > SUSPECT_ABOVE and not here
            text = f"not one is here of the {len(known)} objects that the peer has from here"
            answer = text if doubted else None
            self._farewells[reflector.name] = (now, answer)
        return answer

    def _twins(self, reflector: Reflector) -> set[str]:
        """The names of the local objects that have something at the peer."""
        written = (self.observed[there.kind] for there in reflector.written)
        found = {source for each in written for source in each.sources}
        return {local for name, local in found if name == reflector.name} - set(reflector.always)

    def serves(self, meta: ObjectMeta) -> bool:
        """Whether something there is a token that Liqo made for a pod which runs there still.

        liqod makes none, and the pods that Liqo made have theirs mounted.
        """
        pod = meta.annotations.get(marks.SERVICE_ACCOUNT_POD_NAME)
        if pod is None or marks.SOURCE in meta.annotations:
            return False
        shadows = self.observed.get(SHADOW_PODS)
        if shadows is None or not shadows.synced:
            return True
        shadow = shadows.find(pod)
        if shadow is None:
            return False
        uid = meta.annotations.get(marks.SERVICE_ACCOUNT_POD_UID)
        return shadow.metadata.annotations.get(marks.LOCAL_UID) in (None, uid)

    def look_again(self) -> None:
        """Have everything looked at that is there."""
        for observed in self.observed.values():
            for source in observed.sources:
                self._there_changed(source)

    async def run(
        self,
        informers: Informers,
        placed: Callable[[Reflector], trio.Event],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Watch until cancelled.

        Args:
            informers: shared ones of this cluster.
            placed: an event that is set when the local objects of a reflector whose scope is the
                node are known.
            task_status: started at once.
        """
        try:
            async with trio.open_nursery() as nursery:
                for observed in self.observed.values():
                    nursery.start_soon(self._keep, observed)
                for reflector in self.reflectors:
                    nursery.start_soon(self._serve, reflector, informers, placed(reflector))
                nursery.start_soon(trio.sleep_forever)
                task_status.started()
        finally:
            self.ready.clear()
        raise AssertionError("a session ends by cancellation only")

    def wake(self) -> None:
        """The peer is said to be back: nobody waits for the end of a pause."""
        for observed in self.observed.values():
            observed.wake()
        wake, self._wake = self._wake, trio.Event()
        wake.set()

    def restart(self) -> None:
        """The way to the peer was lost: what is watched there is watched over another."""
        for observed in self.observed.values():
            observed.restart()

    async def _keep(self, observed: Observed) -> NoReturn:
        failures = 0
        while True:
            began = trio.current_time()
            try:
                await observed.run()
            except* LiqodError as group:
                lasted = trio.current_time() - began > PAUSES.last
                failures = 1 if lasted else failures + 1
                self._ears.problem(observed.kind, explain(group))
            with trio.move_on_after(PAUSES.delay(failures)):
                await self._wake.wait()

    async def _serve(self, reflector: Reflector, informers: Informers, placed: trio.Event) -> None:
        """Open what a reflector needs, and let it work."""
        async with AsyncExitStack() as stack:
            for kind, labels in self._local_kinds(reflector):
                shared = informers.share(kind, Selection(self.namespace, labels=labels))
                self._locals[kind, labels] = await stack.enter_async_context(shared)
            if reflector.scope is Scope.NODE:
                await placed.wait()
            for there in reflector.remote:
                observed = self.observed[there.kind]
                await observed.known.wait()
                self._ears.problem(there.kind, None)
            self.ready[reflector.name] = trio.current_time()
            if reflector.scope is Scope.NODE:
                self._ears.ready(reflector, self.namespace)
            for kind, labels in self._local_kinds(reflector):
                informer = self._locals[kind, labels]
                own = kind == reflector.kind and labels == reflector.selector
                heard = self._own_changed(reflector) if own else self._read_changed(kind)
                stack.callback(informer.subscribe(heard))
                if kind in reflector.local:
                    stack.callback(informer.subscribe(self._made_changed(reflector)))
            for there in reflector.remote:
                for source in self.observed[there.kind].sources:
                    self._there_changed(source)
            await trio.sleep_forever()

    def _local_kinds(self, reflector: Reflector) -> list[tuple[Kind, str]]:
        own = [(reflector.kind, reflector.selector)] if reflector.scope is Scope.NAMESPACE else []
        read = [
            (reads.kind, "")
            for reads in reflector.reads
            if reads.kind.namespaced and not reads.everywhere
        ]
        made = [(kind, "") for kind in reflector.local]
        return list(dict.fromkeys([*own, *read, *made]))

    def _own_changed(self, reflector: Reflector) -> Callable[[Change], None]:
        def heard(change: Change) -> None:
            self._ears.subject(Subject(reflector.name, *change.key), 0.0)
            self._ears.changed(reflector.kind, change.key)

        return heard

    def _read_changed(self, kind: Kind) -> Callable[[Change], None]:
        return lambda change: self._ears.changed(kind, change.key)

    def _made_changed(self, reflector: Reflector) -> Callable[[Change], None]:
        """What was made here has changed, or is gone: its maker is asked."""

        def heard(change: Change) -> None:
            for body in (change.old, change.new):
                noted = "" if body is None else _noted(body)
                name, _, local = noted.partition("/")
                if name == reflector.name:
                    self._ears.subject(Subject(name, self.namespace, local), 0.0)

        return heard

    def _there_changed(self, source: tuple[str, str], late: float = 0.0) -> None:
        self._ears.subject(Subject(source[0], self.namespace, source[1]), late)


def _watched(reflectors: Iterable[Reflector]) -> dict[Kind, tuple[Watch, str]]:
    """How each kind is watched at the peer, and its field selector.

    It is watched in full where any reflector asks for that, and selected only where all who watch
    it ask for the same and nobody writes it.
    """
    kinds: dict[Kind, list[RemoteKind]] = {}
    for there in (there for reflector in reflectors for there in reflector.remote):
        kinds.setdefault(there.kind, []).append(there)
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
