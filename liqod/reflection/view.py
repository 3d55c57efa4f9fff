"""The view that a reflector decides by, and the memory of its reads and needs.

Every other object that is read is remembered as a dependency of the object at hand; when that
object changes, :class:`Dependencies` gives the decisions that it was part of, and those are taken
again.

A request that no store can answer is a need, fetched by :func:`fulfil` and kept until it expires. A
need is a value, so two objects with the same need share one answer. Nothing of this is written to
a disk or a resource: after a restart the needs are fetched again.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import trio

from liqod.apimachinery.kinds import SERVICE_ACCOUNTS, Kind
from liqod.errors import PermanentError, PluginError
from liqod.kube.cache.store import IndexedStore
from liqod.kube.client import Client
from liqod.model.objects.homeapi import life
from liqod.model.objects.partial import TokenRequest
from liqod.plugins.contracts import (
    Json,
    Names,
    Need,
    Reflector,
    Refusal,
    RemoteObject,
    ServiceAccountToken,
    Token,
    Transit,
)
from liqod.runtime.tokenbucket import TokenBucket

REFRESH_AT = 0.8
"""Part of a token's life after which it is requested again (Liqo's), where its need names none."""
KEPT = 600.0
"""Seconds that an answer without an end of its own is kept."""
SPARE = 64
"""Answers that are kept at least before expired ones are dropped: a whole object takes
20 kB."""

PATIENT: Final = 10.0
"""Reads a second of one peer that can wait. Of a thousand pods that start at once most are seen
running before their failure is read; a peer at its limit is not read without end."""
AT_ONCE: Final = 20
"""Number of them that go at once, after a time without any."""
SOON: Final = 0.001
"""Waits shorter than that many seconds count as none."""

Key = tuple[str, str]
"""Namespace and name of a local object."""


class ReflectedObject(NamedTuple):
    """One local object as one reflector handles it."""

    reflector: str
    namespace: str
    name: str


class Dependency(NamedTuple):
    """A dependency that was read: an object, or with an empty name all of a namespace."""

    kind: Kind
    namespace: str
    name: str


class Dependencies:
    """The objects that each decision read, and the decisions that read each object."""

    def __init__(self) -> None:
        self._readers: dict[Dependency, set[ReflectedObject]] = {}
        self._looked: dict[ReflectedObject, frozenset[Dependency]] = {}

    def record(self, subject: ReflectedObject, seen: Iterable[Dependency]) -> None:
        """Replace the dependencies of a subject by those of this time."""
        new = frozenset(seen)
        old = self._looked.get(subject, frozenset())
        if new == old:
            return
        for gone in old - new:
            readers = self._readers[gone]
            readers.discard(subject)
            if not readers:
                del self._readers[gone]
        for added in new - old:
            self._readers.setdefault(added, set()).add(subject)
        if new:
            self._looked[subject] = new
        else:
            self._looked.pop(subject, None)

    def forget_namespace(self, reflector: str, namespace: str) -> None:
        """Drop the dependencies of a reflector that has no more to do with a namespace."""
        for subject in [each for each in self._looked if each[:2] == (reflector, namespace)]:
            self.record(subject, ())

    def readers(self, kind: Kind, key: Key) -> frozenset[ReflectedObject]:
        """The subjects whose decisions a change of this object may alter."""
        one = self._readers.get(Dependency(kind, key[0], key[1]), ())
        every = self._readers.get(Dependency(kind, key[0], ""), ())
        return frozenset(one).union(every)


def _as_it_is(made: Json) -> Json:
    return made


def _no_transit(owner: str, address: str) -> Transit:
    return Transit(refusal="there is no way through this cluster")


class LiveView:
    """A view of the stores, for one call of a reflector.

    Args:
        reflector: the reflector that uses it.
        names: names and settings.
        settings: the reflector's own.
        now: RFC 3339 time.
        ahead: seconds by which the peer's clock is ahead of it.
        refusals: the refusals of the last writes.
        stores: finds the local store of a kind and namespace; None where it is not watched.
        remote: the object's objects at the peer, by kind.
        gone: those that it lost there since it was last judged, as JSON, by kind.
        answers: the fetched answers to needs.
        overridden: changes an object for the peer by the policies for the one at hand.
        transit: the way to an endpoint at another peer through this cluster.

    Attributes:
        seen: the local objects that were read.
        used: the needs that were used.
        asked: whether the object's objects at the peer were read.
        passages: the endpoints at other peers that a way through this cluster was asked to.
    """

    def __init__(
        self,
        reflector: Reflector,
        *,
        names: Names,
        now: str,
        ahead: float = 0.0,
        refusals: tuple[Refusal, ...],
        stores: Callable[[Kind, str], IndexedStore | None],
        remote: Mapping[Any, tuple[Json, ...]],
        gone: Mapping[Kind, bytes] = MappingProxyType({}),
        answers: Callable[[Need], Any],
        settings: Any = None,
        overridden: Callable[[Json], Json] = _as_it_is,
        transit: Callable[[str, str], Transit] = _no_transit,
    ) -> None:
        self.names = names
        self.settings = settings
        self.now = now
        self.ahead = ahead
        self.refusals = refusals
        self.seen: set[Dependency] = set()
        self.used: set[Need] = set()
        self.asked = False
        self._reads = frozenset(reads.kind for reads in reflector.reads)
        self._reflector = reflector.name
        self._stores = stores
        self._remote = remote
        self._gone = gone
        self._answers = answers
        self._overridden = overridden
        self._transit = transit
        self.passages: set[tuple[str, str]] = set()

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Json | None:
        """A local object of a declared kind; raises PluginError for another."""
        store, where = self._store_of(kind, namespace)
        self.seen.add(Dependency(kind, where, name))
        body = None if store is None else store.get((where, name))
        return None if body is None else msgspec.json.decode(body)

    def all(self, kind: Kind, namespace: str | None = None) -> tuple[Json, ...]:
        """All objects of a declared kind in a namespace, by name; raises as :meth:`get`."""
        store, where = self._store_of(kind, namespace)
        self.seen.add(Dependency(kind, where, ""))
        if store is None:
            return ()
        keys = sorted(store.indexed("namespace", where))
        bodies = (store.get(key) for key in keys)
        return tuple(msgspec.json.decode(body) for body in bodies if body is not None)

    def remote(self, kind: Kind) -> tuple[Json, ...]:
        """The peer's objects of a kind that reflect the object at hand, by name."""
        self.asked = True
        return self._remote.get(kind, ())

    def gone(self, kind: Kind) -> Json | None:
        """The object of a kind, watched in full, that the one at hand lost there; None: none."""
        body = self._gone.get(kind)
        return None if body is None else msgspec.json.decode(body)

    def fulfilled(self, need: Need) -> Any:
        """The answer to a need; None until it has been fetched."""
        self.used.add(need)
        return self._answers(need)

    def transit(self, owner: str, address: str) -> Transit:
        """The address by which the peer reaches an endpoint at another peer through here."""
        self.passages.add((owner, address))
        return self._transit(owner, address)

    def overridden(self, made: Json) -> Json:
        """An object for the peer as OverridePolicies change it."""
        return self._overridden(made)

    def _store_of(self, kind: Kind, namespace: str | None) -> tuple[IndexedStore | None, str]:
        if kind not in self._reads:
            raise PluginError(f"{self._reflector} does not declare that it reads {kind.name}")
        where = (namespace or self.names.namespace) if kind.namespaced else ""
        return self._stores(kind, where), where


class Fetched(msgspec.Struct, frozen=True):
    """The fetched answer to a need.

    Attributes:
        value: the answer.
        until: Trio time at which it is to be fetched again.
    """

    value: Any
    until: float


class Needs:
    """The answers of one peer."""

    def __init__(self) -> None:
        self._answers: dict[Need, Fetched] = {}
        self._enough = SPARE
        self._turns = ReadLimiter()

    def get(self, need: Need) -> Any:
        """The answer to a need, until it expires; None otherwise."""
        answer = self._answers.get(need)
        if answer is None or answer.until <= trio.current_time():
            return None
        return answer.value

    def expiry(self, need: Need) -> float | None:
        """Seconds until the answer is to be fetched again; None where there is none."""
        answer = self._answers.get(need)
        return None if answer is None else max(0.0, answer.until - trio.current_time())

    def __iter__(self) -> Iterator[Need]:
        """The needs that have an answer in memory."""
        return iter(self._answers)

    def put(self, need: Need, value: Any, seconds: float = KEPT) -> None:
        """Keep an answer for so many seconds."""
        now = trio.current_time()
        if len(self._answers) >= self._enough:
            self._answers = {
                key: answer for key, answer in self._answers.items() if answer.until > now
            }
            self._enough = max(SPARE, 2 * len(self._answers))
        self._answers[need] = Fetched(value, now + seconds)

    def wait(self, needs: Iterable[Need]) -> float:
        """Seconds until the turn of the needs that can wait; 0 if it is now."""
        patient = (need for need in needs if isinstance(need, RemoteObject) and need.patient)
        return max(map(self._turns.wait, patient), default=0.0)


class ReadLimiter:
    """Gives reads their turns, so many a second, in the order of the requests."""

    def __init__(self) -> None:
        self._due: dict[Need, float] = {}
        self._bucket = TokenBucket(PATIENT, AT_ONCE)
        self._enough = SPARE

    def wait(self, need: Need) -> float:
        """Seconds until the turn of a read; 0 if it is now, and it is then taken."""
        now = trio.current_time()
        due = self._due.pop(need, None)
        if due is None:
            due = now + self._bucket.take(now)
            if len(self._due) >= self._enough:  # a turn not taken is needed no more
                kept = self._due.items()
                self._due = {each: at for each, at in kept if at > now - KEPT}
                self._enough = max(SPARE, 2 * len(self._due))
        if due - now < SOON:
            return 0.0
        self._due[need] = due
        return due - now


async def fulfil(
    need: Need,
    needs: Needs,
    *,
    local: Client,
    namespace: str,
    read: Callable[[RemoteObject], Awaitable[Any]],
) -> None:
    """Fetch the answer to one need.

    Args:
        need: the need.
        needs: the store for the answer.
        local: client of this cluster.
        namespace: the namespace of the object that needs it.
        read: reads a whole object at the peer.

    Raises:
        LiqodError: the answer is not available now.
    """
    if isinstance(need, ServiceAccountToken):
        lasts = need.lasts or REFRESH_AT * life(need.seconds)
        token = await given(local, token_request(need), need.account, namespace)
        needs.put(need, token, lasts)
    elif isinstance(need, RemoteObject):
        needs.put(need, await read(need) or {}, need.lasts)
    else:
        raise TypeError(f"nothing here fulfils a {type(need).__name__}")


def token_request(need: ServiceAccountToken) -> Json:
    """The request for a token, bound to its pod, and for no longer than one lasts at a peer."""
    spec: Json = {
        "expirationSeconds": life(need.seconds),
        "boundObjectRef": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": need.pod,
            "uid": need.pod_uid,
        },
    }
    if need.audience:
        spec["audiences"] = [need.audience]
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


async def given(local: Client, request: Json, account: str, namespace: str) -> Token:
    """A token of a service account of this cluster, or the reason that it gives none.

    Raises:
        TransientError: it cannot be requested now.
    """
    try:
        answer = await local.create_subresource(
            SERVICE_ACCOUNTS, account, namespace, "token", request, decode=TokenRequest
        )
    except PermanentError as error:
        return Token("", "", str(error))
    return Token(answer.status.token, answer.status.expiration_timestamp)
