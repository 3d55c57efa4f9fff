"""The exports of peers, read from the ServiceExchanges with them.

Each is the word of one peer, whom the tenant namespace names, and is admitted by the bounds of that
peer (:mod:`liqod.model.clusterset.admission`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import is_from, look_up_tenant, tenant_of
from liqod.clusterset.heldexchanges import decoded, exchange_at, is_asked
from liqod.clusterset.sharing import Sharing
from liqod.kube.cache.store import Index, Key, StoreChange
from liqod.kube.client import Client
from liqod.kube.definitions import is_defined
from liqod.kube.watched import Watched
from liqod.model.clusterset.admission import Scope, admit
from liqod.model.clusterset.byway import admit_by_way, has_ready, of_told, told_name
from liqod.model.clusterset.exchange import exchange_name, exchange_namespace
from liqod.model.clusterset.exports import Export, Refusal
from liqod.model.clusterset.since import not_before
from liqod.model.network.remapping import Remapped
from liqod.resources.exchanges import SERVICE_EXCHANGES, ServiceExchange

_BY_NAMESPACE: Final = "of"


class Heard(NamedTuple):
    """The exports of one name.

    Attributes:
        exports: those that count, this cluster's own included.
        kept: peers whose endpoints stay as they are: they told what cannot be read, or their
            addresses cannot be judged yet.
        refused: the reasons for which parts of what peers tell are left out.
        by_way: the peers by way of which other clusters' exports have come, by these clusters.
    """

    exports: list[Export]
    kept: set[str]
    refused: list[str]
    by_way: dict[str, str]


def _namespace_of(found: Partial) -> Iterator[str]:
    yield exchange_namespace(found.metadata.name)


INDEXES: Final[dict[str, Index]] = {_BY_NAMESPACE: _namespace_of}
"""The indexes that the watch of ServiceExchanges needs."""


class News(NamedTuple):
    """The peer's part in a change of an exchange.

    Attributes:
        keys: the exports that it concerns, of either cluster.
        confirmed: those of them of which the peer has only confirmed this mark.
        own: whether nothing but this cluster's word has changed.
    """

    keys: set[Key]
    confirmed: dict[Key, str]
    own: bool


def news(change: StoreChange, own: str) -> News:
    """The peer's part in a change of an exchange: this cluster knows its own word without it.

    Args:
        change: the change.
        own: the id of this cluster.
    """
    namespace = exchange_namespace(change.key[1])
    side = "spec" if change.key[1] == exchange_name(namespace, own) else "status"
    before, after = (None if each is None else decoded(each) for each in (change.old, change.new))
    old, new = _parts(before), _parts(after)
    # That the peer shares the namespace, too, concerns each of this cluster's exports to it.
    answered = side == "status" and _is_shared(before) != _is_shared(after)
    differs = {key for key in old.keys() | new.keys() if answered or old.get(key) != new.get(key)}
    said = {key for key in differs if answered or key[2].removeprefix("by ").startswith(side)}
    more = {key[:2] for key in said if answered or key not in new or not key[2].startswith("by ")}
    confirmed = {key[:2]: new[key] for key in said if key[:2] not in more}
    return News({key[:2] for key in said}, confirmed, own=bool(differs) and not said)


class Confirmations:
    """The marks by which peers have confirmed exports of this cluster, of which each is new once.

    Args:
        has_mark: returns true for the mark of an export as it is now.
    """

    def __init__(self, has_mark: Callable[[Key, str], bool]) -> None:
        self._has_mark = has_mark
        self._known: dict[Key, dict[str, str]] = {}
        """By export, and by peer."""

    def new(self, peer: str, confirmed: Mapping[Key, str]) -> set[Key]:
        """The exports that a peer confirms as they are now, for the first time.

        Args:
            peer: its id. One that takes a mark back and gives it again has said nothing new.
            confirmed: the marks, by export.
        """
        found = set()
        for key, word in confirmed.items():
            if self._known.get(key, {}).get(peer) != word and self._has_mark(key, word):
                self._known.setdefault(key, {})[peer] = word
                found.add(key)
        return found

    def forget(self, key: Key) -> None:
        """Forget the marks of an export that has ended."""
        self._known.pop(key, None)


class ToldExports:
    """The exports that peers tell this cluster.

    Args:
        exchanges: the ServiceExchanges, with :data:`INDEXES`.
        namespaces: all namespaces.
        sharing: the peers that Services are shared with.
    """

    def __init__(self, exchanges: Watched[Key], namespaces: Watched[Key], sharing: Sharing) -> None:
        self._exchanges = exchanges
        self._namespaces = namespaces
        self._sharing = sharing

    def keys(self) -> set[Key]:
        """The namespace and name of each export that is told."""
        found = self._exchanges.store.values(ServiceExchange)
        return {key[:2] for body in found for key in _of(body)}

    def of(
        self,
        key: Key,
        own: Export | Refusal | None,
        importing: Collection[str],
        since: Mapping[str, str],
        ways: Mapping[str, str],
    ) -> Heard:
        """The exports of one name.

        Args:
            key: namespace and name.
            own: this cluster's.
            importing: the clusters that the present import is of.
            since: the times since when clusters export, as they have told before.
            ways: the peers by way of which clusters were imported before, by these clusters.
        """
        exports = [own] if isinstance(own, Export) else []
        kept: set[str] = set()
        refused: list[str] = []
        by_way: dict[str, str] = {}
        done: set[str] = set()
        told = self._told(key)
        ranked = sorted((self._rank(*who, text, ways), *who, text) for who, text in told.items())
        for _, origin, peer, text in ranked:
            cluster = origin or peer
            if cluster in done:
                continue  # one way, of those that its exporter and this cluster agree to
            sharing = self._sharing.peers.get(peer)
            scope = sharing.scope(key[0]) if sharing is not None else None
            if scope is None:
                if origin and ways.get(origin) != peer:
                    continue
                kept.add(cluster)
                if cluster not in importing:
                    continue
                # What it exports still counts, of which nothing but the addresses is in doubt.
                admitted = admit(text, key, Scope(cluster, (key[0],), _nowhere))
            elif origin:
                admitted = admit_by_way(text, key, origin, scope)
            else:
                admitted = admit(text, key, scope)
            if origin and (admitted.export or cluster in kept):
                by_way[origin] = peer
            refused += admitted.refused if cluster not in kept else ()
            exports += [not_before(admitted.export, since)] if admitted.export else []
            if admitted.broken and (not origin or ways.get(origin) == peer):
                kept.add(cluster)
                by_way |= {origin: peer} if origin else {}
            if admitted.export or cluster in kept:
                done.add(cluster)
        return Heard(exports, kept, refused, by_way)

    def _rank(
        self, origin: str, peer: str, text: str, ways: Mapping[str, str]
    ) -> tuple[str, bool, bool, bool, str]:
        """The order of those that tell an export: what is reached, by the peer's own word too,
        comes first, and then as before."""
        sharing = self._sharing.peers.get(peer)
        silent = bool(origin) and sharing is not None and sharing.reached() is False
        return origin, silent, bool(origin) and not has_ready(text), ways.get(origin) != peer, peer

    def _told(self, key: Key) -> dict[tuple[str, str], str]:
        """The exports of one name: by the third cluster, empty for none, and the peer that tells.

        Two clusters that borrow from each other tell each twice, by the same word.
        """
        told: dict[tuple[str, str], str] = {}
        for place in self._at(key[0]):
            found = self._said_at(place)
            for name, text in found[1].items() if found else ():
                service, origin = of_told(name)
                if found and service == key[1]:
                    told.setdefault((origin, found[0]), text)
        return told

    async def surely_ended(
        self, client: Client, key: Key, peer: str, own: str, origin: str = ""
    ) -> bool:
        """True if a peer certainly exports nothing of that name to this cluster.

        Args:
            client: this cluster's.
            key: namespace and name.
            peer: its id.
            own: this cluster's.
            origin: the third cluster whose export the peer tells; empty for its own.
        """
        told = told_name(key[1], origin) if origin else key[1]
        if self._exchanges.doubtful or self._namespaces.doubtful:
            return False
        heard = (self._said_at(each) for each in self._at(key[0]))
        if any(each is not None and each[0] == peer for each in heard):
            return True  # it tells of that namespace, and what it says has been heard
        if not await is_defined(client, SERVICE_EXCHANGES):
            return False
        tenant = await look_up_tenant(client, peer)
        if tenant is None:
            return True
        for provider in (peer, own):
            name = exchange_name(key[0], provider)
            found = await client.find(SERVICE_EXCHANGES, name, tenant.name, decode=ServiceExchange)
            if found is not None and told in (_side(found, peer) or ()):
                return False
        return True

    def _at(self, namespace: str) -> list[Key]:
        """The keys of the exchanges of a namespace."""
        return sorted(self._exchanges.store.indexed(_BY_NAMESPACE, namespace))

    def _said_at(self, place: Key) -> tuple[str, dict[str, str]] | None:
        """The peer that has its part in an exchange, and its exports; None where it is nobody's."""
        exchange = exchange_at(self._exchanges.store, place)
        namespace = self._namespaces.store.decode(("", place[0]), Partial)
        peer = tenant_of(namespace) if namespace is not None else None
        if exchange is None or peer is None:
            return None
        said = _side(exchange, peer)
        return (peer, said) if said is not None else None


def _side(exchange: ServiceExchange, peer: str) -> dict[str, str] | None:
    """The exports that a peer tells by an exchange; None where it tells nothing by that one."""
    if is_from(exchange.metadata.labels, peer):
        return exchange.spec.exports
    if is_asked(exchange, peer) and exchange.status is not None:
        return exchange.status.exports
    return None


def _nowhere(address: str) -> Remapped:
    return Remapped("", "the network of the peer is not known yet")


def _of(found: ServiceExchange) -> dict[tuple[str, str, str], str]:
    """The exports of an exchange, by namespace, name, and the side that tells it."""
    namespace = exchange_namespace(found.metadata.name)
    answers = found.status.exports if found.status is not None else {}
    asked = {_named(namespace, name, "spec"): text for name, text in found.spec.exports.items()}
    return asked | {_named(namespace, name, "status"): text for name, text in answers.items()}


def _named(namespace: str, name: str, side: str) -> tuple[str, str, str]:
    """The key of an export, also of one that is a third cluster's, and the word of it."""
    service, cluster = of_told(name)
    return namespace, service, f"{side} {cluster}"


def _parts(found: ServiceExchange | None) -> dict[tuple[str, str, str], str]:
    """The exports of an exchange, and what each side has confirmed of the other's."""
    if found is None:
        return {}
    namespace = exchange_namespace(found.metadata.name)
    answered = found.status.confirmed if found.status is not None else {}
    marks = found.spec.confirmed.items()
    by_spec = {_named(namespace, name, "by spec"): mark for name, mark in marks}
    by_status = {_named(namespace, name, "by status"): mark for name, mark in answered.items()}
    return _of(found) | by_spec | by_status


def _is_shared(found: ServiceExchange | None) -> bool:
    return found is not None and found.status is not None and found.status.shared
