"""The ServiceExchanges with one peer, as this cluster's API server has them."""

from collections.abc import Iterable
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.apimachinery.rawobjects import decode_as
from liqod.cluster.tenancy import is_from
from liqod.clusterset.takenexports import TakenExports
from liqod.kube.cache.store import IndexedStore, Key, StoreChange
from liqod.kube.client import Client
from liqod.kube.ensure import ensure
from liqod.kube.watched import Watched
from liqod.model.clusterset.exchange import exchange_name, exchange_namespace
from liqod.model.objects.patches import exact_patch
from liqod.peers.peer import Peer
from liqod.resources.exchanges import MOST_NAMESPACES, SERVICE_EXCHANGES, ServiceExchange

DECODED: Final = 8
"""Exchanges that are kept as they were decoded last: each of some hundred exports is looked at."""


@lru_cache(maxsize=DECODED)
def decoded(body: bytes) -> ServiceExchange:
    """An exchange, whose maps nobody may change. Raises ProtocolError if it cannot be read."""
    found: ServiceExchange = decode_as(body, ServiceExchange)
    return found


def exchange_at(store: IndexedStore, key: Key) -> ServiceExchange | None:
    """An exchange of a store. Raises ProtocolError if it cannot be read."""
    body = store.get(key)
    return decoded(body) if body is not None else None


class HeldExchanges:
    """The exchanges.

    Args:
        peer: the peer.
        watch: of the ServiceExchanges in its tenant namespace.

    Attributes:
        taken: the exports of the peer that this cluster takes.
    """

    def __init__(self, peer: Peer, watch: Watched[str]) -> None:
        self._peer = peer
        self._watch = watch
        self.taken = TakenExports()
        self._known: dict[Key, str] = {}
        """The resourceVersion of each exchange as this cluster has written it, or seen it."""

    def asked(self, namespace: str) -> ServiceExchange | None:
        """This cluster's own object for a namespace."""
        found = self._found(exchange_name(namespace, self._peer.id))
        return found if found is not None and is_asked(found, self._peer.id) else None

    def answered(self, namespace: str) -> ServiceExchange | None:
        """The peer's object for a namespace, which this cluster answers."""
        found = self._found(exchange_name(namespace, self._peer.context.cluster_id))
        theirs = found is not None and is_from(found.metadata.labels, self._peer.id)
        return found if theirs else None

    def told(self, namespace: str) -> dict[str, str]:
        """The peer's exports to a namespace, by name."""
        answered = self.answered(namespace)
        asked = answer_of(self.asked(namespace))
        return {**asked, **answered.spec.exports} if answered is not None else asked

    def has(self, namespace: str) -> bool:
        """True if there is an exchange in which the peer tells its exports to a namespace."""
        return self.answered(namespace) is not None or self.asked(namespace) is not None

    def confirmed(self, namespace: str) -> list[dict[str, str]]:
        """The marks of exports that the peer has confirmed, of each exchange of a namespace."""
        asked, answered = self.asked(namespace), self.answered(namespace)
        marks = [asked.status.confirmed] if asked is not None and asked.status is not None else []
        return marks + ([answered.spec.confirmed] if answered is not None else [])

    def namespaces(self) -> set[str]:
        """The namespaces that there are exchanges of."""
        keys = self._watch.store.indexed("namespace", self._peer.tenant_namespace)
        return {exchange_namespace(name) for _, name in keys}

    async def surely_silent(self, namespace: str) -> bool:
        """True if there certainly is no exchange in which the peer tells of a namespace."""
        for name in self._names(namespace):
            if not await self._watch.surely_gone((self._peer.tenant_namespace, name)):
                return False
        return True

    def is_full(self, *, borrows: bool) -> bool:
        """True if this cluster, as a consumer, has as many exchanges with the peer as it may."""
        if not borrows:
            return False
        store = self._watch.store
        keys = store.indexed("namespace", self._peer.tenant_namespace)
        found = ((key, store.decode(key, Partial)) for key in keys)
        own = {key for key, each in found if each is not None and is_asked(each, self._peer.id)}
        # With those that were made and are not seen yet.
        own.update(key for key in self._known if key[1].endswith(exchange_name("", self._peer.id)))
        return len(own) >= MOST_NAMESPACES

    def has_news(self, namespace: str) -> bool:
        """True if somebody else has changed an exchange of a namespace since the last time."""
        before = dict(self._known)
        for name in self._names(namespace):
            key = self._peer.tenant_namespace, name
            found = self._watch.store.decode(key, Partial)
            self._known.pop(key, None)
            if found is not None:
                self._known[key] = found.metadata.resource_version
        return self._known != before

    async def ask(
        self,
        client: Client,
        wanted: dict[str, Any],
        live: ServiceExchange | None,
        *,
        foretold: bool,
    ) -> None:
        """Have this cluster's own object for a namespace, and its replica changed beside it.

        Args:
            client: this cluster's.
            wanted: the object.
            live: as it is.
            foretold: whether the replica may be changed before this cluster has answered.
        """
        meta, spec = wanted["metadata"], wanted["spec"]
        if live is None or not meta["labels"].items() <= live.metadata.labels.items():
            raw = self._watch.store.get((meta["namespace"], meta["name"]))
            made = await ensure(client, SERVICE_EXCHANGES, wanted, live=raw)
            if made.partial is not None:
                self.note(made.partial)
            return
        # Of a hundred exports one has changed: the whole object is not compared field by field.
        before = {"namespace": "", "exports": {}, "confirmed": {}} | msgspec.to_builtins(live.spec)
        patch = exact_patch(before, spec)
        if not patch or live.metadata.deletion_timestamp is not None:
            return
        source = (SERVICE_EXCHANGES, meta["name"])
        following = self._peer.foretold.writing(source, spec, live.metadata)
        with following if foretold else nullcontext() as writing:
            if writing is not None:
                await writing.follower()
            change = {"metadata": {"uid": live.metadata.uid}, "spec": patch}
            written = await client.patch(SERVICE_EXCHANGES, meta["name"], change, meta["namespace"])
            if writing is not None:
                writing.done(written)
        self.note(written)

    def ended(self, key: Key) -> None:
        """Take note that an exchange is gone: one of this cluster's own makes room for another."""
        self.taken.forget(key[1])
        if key[1].endswith(exchange_name("", self._peer.id)):
            self._known.pop(key, None)

    def news(self, change: StoreChange) -> tuple[bool, bool]:
        """True if an exchange is to be looked at for a change, and if others may hear of it.

        It is not as this cluster has written it, nor as the peer has confirmed what it is told:
        that may concern others alone.
        """
        if change.old is None or change.new is None:
            return True, True
        asked = change.key[1] == exchange_name(exchange_namespace(change.key[1]), self._peer.id)
        old, new = decoded(change.old), decoded(change.new)
        before, after = _sides(old, asked=asked), _sides(new, asked=asked)
        known, version = self._known.get(change.key), new.metadata.resource_version
        told = before.told != after.told
        is_due = told or (before.own != after.own and known != version)
        if not is_due and known == old.metadata.resource_version:
            self.note(new)  # there is nothing else that the next look would find
        return is_due, told or before.confirmed != after.confirmed

    def note(self, written: Partial | ServiceExchange) -> None:
        """Take note of an exchange that this cluster has written."""
        meta = written.metadata
        self._known[meta.namespace, meta.name] = meta.resource_version

    def _names(self, namespace: str) -> Iterable[str]:
        for provider in (self._peer.id, self._peer.context.cluster_id):
            yield exchange_name(namespace, provider)

    def _found(self, name: str) -> ServiceExchange | None:
        return exchange_at(self._watch.store, (self._peer.tenant_namespace, name))


class _Sides(NamedTuple):
    """All that is said in an exchange: by this cluster, and what the peer tells and confirms."""

    own: object
    told: object
    confirmed: object


def _sides(found: ServiceExchange, *, asked: bool) -> _Sides:
    meta, spec, status = found.metadata, found.spec, found.status
    more = meta.labels, meta.annotations, meta.deletion_timestamp
    if not asked:
        return _Sides((more, status), (spec.namespace, spec.exports), spec.confirmed)
    if status is None:
        return _Sides((more, spec), None, None)
    return _Sides((more, spec), (status.shared, status.exports), status.confirmed)


def is_asked(found: ServiceExchange | Partial, peer: str) -> bool:
    """True if an exchange is this cluster's own, for the peer to answer."""
    marks = found.metadata.labels
    return marks.get(labels.REPLICATION) == labels.TRUE and marks.get(labels.REMOTE_ID) == peer


def answer_of(found: ServiceExchange | None) -> dict[str, str]:
    """The exports that the other side tells by an exchange that this cluster has asked for."""
    return found.status.exports if found is not None and found.status is not None else {}
