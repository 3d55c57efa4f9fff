"""Follows the Events of one mapped namespace at the peer; has those of our objects written locally.

Events are not kept: each is read, given to the writer and forgotten. Events are listed only at
the start, and after an interruption of which the server no longer has the changes; Events that
were written before are then not written again. Servers send no bookmarks for Events: where nothing
happens, each watch reads once the resourceVersion to continue from.
"""

import logging
import random
from collections.abc import Iterator
from typing import Final, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import EVENTS, PODS, Kind
from liqod.apimachinery.meta import Partial, newer
from liqod.errors import Expired, Forbidden, LiqodError, PermanentError
from liqod.kube import times
from liqod.kube.selection import Selection
from liqod.kube.watch import Bookmark
from liqod.model.crossing.adoption import made_for
from liqod.model.objects import remoteevents
from liqod.model.objects.partial import Event, Pod
from liqod.model.objects.remoteevents import WARNING, LocalObject
from liqod.reflection.mappednamespace import MappedNamespace
from liqod.reflection.reflectioncontext import Context
from liqod.reflection.remotecache import RemoteCache
from liqod.resources.offloading import SHADOW_PODS
from liqod.runtime.backoff import Backoff
from liqod.runtime.observable import Notifier
from liqod.runtime.supervise import explain

WATCH_SECONDS: Final = (200, 280)
"""A watch lives this long, drawn for each: API servers keep changes for five minutes at the
least (``--etcd-compaction-interval``), so that the next goes on where it began."""
SLACK: Final = 15.0
"""Seconds that a server may take to end a watch when its time is over."""
LISTED_EVERY: Final = 60.0
"""Seconds from one list to the next, where a server drops changes that we have not read: nothing
is lost, and a server that always does so is not read in full without end."""
MOST_LISTED: Final = 5000
"""Events that such a list reads: those of 1,000 pods that have just started."""
PAUSES: Final = Backoff(first=0.5, last=30.0)
REFUSED_AGAIN: Final = 600.0
"""Seconds until another try where the peer gives no right to read Events."""
PODLIKE: Final = (SHADOW_PODS, PODS)
"""The kinds that represent a local pod at the peer."""

log = logging.getLogger(__name__)


_pod = msgspec.json.Decoder(Pod)
_partial = msgspec.json.Decoder(Partial)


class EventTranslation:
    """Translates a peer's Event into one about the local object that it concerns.

    Args:
        mapped: the namespace.
    """

    def __init__(self, mapped: MappedNamespace, context: Context) -> None:
        self._mapped, self._context = mapped, context

    def event(self, body: bytes) -> tuple[remoteevents.Json, str] | None:
        """The local Event made from a peer's, and its state; None for an Event not of our objects.

        Args:
            body: of the peer's Event, as JSON.
        """
        found = remoteevents.read(body)
        about = None if found is None else self._about(found)
        if found is None or about is None:
            return None
        event = remoteevents.local_event(found, about, self._context.peer.id, times.now())
        return event, remoteevents.state_of(found)

    def _about(self, found: Event) -> LocalObject | None:
        """The local object that a peer's Event is about, where we hold the peer's object of it."""
        for cache in self._caches(found):
            there = cache.find(found.involved_object.name)
            source = cache.source(found.involved_object.name)
            if there is None or source is None or not is_about(found, there, cache.kind):
                continue
            local = self._local(source[0], source[1], there)
            if local is not None:
                return local
        return None

    def _caches(self, found: Event) -> Iterator[RemoteCache]:
        """The caches that may hold an Event's object; a pod may also exist as its ShadowPod."""
        told = found.involved_object
        if told.kind in {kind.name for kind in PODLIKE}:
            yield from (self._mapped.caches[kind] for kind in PODLIKE)
            return
        for kind, cache in self._mapped.caches.items():
            if kind.name == told.kind and told.api_version in ("", kind.api_version):
                yield cache

    def _local(self, reflector: str, name: str, there: Partial) -> LocalObject | None:
        """The local object that a peer's object was made from, if it concerns that peer."""
        context, namespace = self._context, self._mapped.namespace
        kind = context.reflectors[reflector].kind
        store = context.store(kind, namespace)
        body = None if store is None else store.get((namespace, name))
        if body is None:
            return None
        if kind != PODS:
            meta = _partial.decode(body).metadata
            return LocalObject(kind, namespace, name, meta.uid, meta.creation_timestamp)
        local = _pod.decode(body)
        meta, made, node = local.metadata, there.metadata, local.spec.node_name
        pod = {
            "metadata": {"uid": meta.uid, "creationTimestamp": meta.creation_timestamp},
            "status": {"startTime": local.status.start_time},
        }
        if node not in context.nodes:
            return None
        if not made_for(pod, made.annotations, made.creation_timestamp):
            return None
        return LocalObject(kind, namespace, name, meta.uid, meta.creation_timestamp, node)


class EventWatch:
    """Follows the Events of one mapped namespace.

    Args:
        mapped: the namespace.
        translation: makes local Events of the peer's.
    """

    def __init__(
        self, mapped: MappedNamespace, context: Context, translation: EventTranslation
    ) -> None:
        self._mapped = mapped
        self._context = context
        self._translation = translation
        self._events = context.events
        fields = f"type={WARNING}" if self._events.which == "warnings" else ""
        self._selection = Selection(mapped.remote_namespace, fields=fields)
        self._version = ""
        self._listed = float("-inf")
        self._news = Notifier()
        self._turning = trio.CancelScope()

    def wake(self) -> None:
        """Try again at once, without waiting for the end of a pause: the peer seems to be back."""
        self._news.notify()

    def restart(self) -> None:
        """Watch anew: the connection was lost, and a watch over it may stay silent for ever."""
        self._turning.cancel()

    async def run(self) -> NoReturn:
        """Follow until cancelled, from the peer's first pod on."""
        mapped = self._mapped
        await mapped.caches[SHADOW_PODS].used.wait()
        for kind in PODLIKE:
            await mapped.caches[kind].has_synced.wait()
        await self._context.opened[PODS].wait()
        failures = 0
        while True:
            pause = 0.0
            try:
                with trio.CancelScope() as self._turning:
                    await self._turn()
                failures = 0
            except Expired:
                self._version = ""
            except LiqodError as error:
                failures += 1
                pause = self._trouble(error, failures)
            # A watch that ends at once is no reason for endless requests.
            with trio.move_on_after(max(pause, PAUSES.first)):
                await self._news.wait()

    def _trouble(self, error: LiqodError, failures: int) -> float:
        """Seconds until the next try. Pods go on without; the link reports an unreachable peer."""
        lasts = isinstance(error, PermanentError)
        if lasts and self._events.seldom.allows(type(error).__name__):
            facts = {"namespace": self._mapped.namespace, "reason": explain(error)}
            log.warning("Events of pods there cannot be read", extra=facts)
        return REFUSED_AGAIN if isinstance(error, Forbidden) else PAUSES.delay(failures)

    async def _turn(self) -> None:
        client, where = self._mapped.client, self._mapped.remote_namespace
        if not self._version:
            await trio.sleep_until(self._listed + LISTED_EVERY)
            await self._read_all()
            self._listed = trio.current_time()
        seconds = random.randint(*WATCH_SECONDS)
        async with client.watch(
            EVENTS,
            self._selection,
            resource_version=self._version,
            seconds=seconds,
            budget=self._events.budget,
        ) as watch:
            began = trio.current_time()
            behind = await client.version(EVENTS, where)
            while (found := await watch.next(seconds + SLACK)) is not None:
                if isinstance(found, Bookmark):
                    self._version = found.resource_version
                    continue
                self._version = found.item.resource_version
                if found.type != "DELETED":  # the local one is history, and expires by itself
                    self._take(found.item.body, known=found.type == "MODIFIED")
        # In its whole life a watch brings all that existed as it began: the next need not begin
        # before that. One that is ended early, as by a server that stops, may have left some out.
        if trio.current_time() - began > seconds - SLACK and newer(behind, self._version):
            self._version = behind

    def _take(self, body: bytes, *, known: bool) -> None:
        said = self._translation.event(body)
        if said is not None:
            self._events.writer.enqueue(said[0], seen=known)

    async def _read_all(self) -> None:
        """Read the Events that exist at the peer; queue those that are not written locally yet."""
        read, version = 0, ""
        before: dict[str, str] | None = None
        async for page in self._mapped.client.pages(EVENTS, self._selection):
            for item in page.found:
                said = self._translation.event(item.body)
                if said is None:
                    continue
                if before is None:
                    before = await self._written()
                event, state = said
                name = event["metadata"]["name"]
                if before.get(name) != state:
                    self._events.writer.enqueue(event, seen=name in before)
            read, version = read + len(page.found), page.resource_version
            if read >= MOST_LISTED:
                break
        self._version = version

    async def _written(self) -> dict[str, str]:
        """The hashes of this peer's Events in the local namespace, by name."""
        peer = f"{labels.REMOTE_CLUSTER_ID}={self._context.peer.id}"
        where = Selection(self._mapped.namespace, labels=peer)
        try:
            found = await self._context.peer.context.client.list(EVENTS, where, decode=Partial)
        except Forbidden:  # the daemon is newer than its rights: its Events are found by name
            return {}
        metas = (each.metadata for each in found)
        return {meta.name: meta.annotations.get(labels.APPLIED_HASH, "") for meta in metas}


def is_about(found: Event, there: Partial, kind: Kind) -> bool:
    """True if an Event is about this very object at the peer, and not about one before it.

    A ShadowPod has another UID than its pods, of which it may have had several: every Event since
    it was made is about one of them.
    """
    told, made = found.metadata.creation_timestamp, there.metadata.creation_timestamp
    if kind not in PODLIKE:
        return found.involved_object.uid in ("", there.metadata.uid)
    return bool(told and made) and str(told) >= str(made)
