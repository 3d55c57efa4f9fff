"""This cluster's own exports, read from its ServiceExports, Services and EndpointSlices."""

import ipaddress
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, SERVICES, Kind
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.clusterset.echoes import Echoes
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.queue import K
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched
from liqod.model.clusterset.exchange import mark
from liqod.model.clusterset.exports import (
    FAMILIES,
    EndpointSlice,
    Export,
    Refusal,
    Service,
    is_reflected,
    own_export,
)
from liqod.model.crossing.addresses import family
from liqod.resources.multicluster import SERVICE_NAME, SOURCE_CLUSTER, ServiceExport

APART: Final = 0.1
"""Seconds between two reconciliations for changes of this cluster's exports."""
_BY_SERVICE: Final = "service"

Json = dict[str, Any]


def _service_of(found: Partial) -> Iterable[str]:
    yield _index(found.metadata.namespace, found.metadata.labels.get(labels.SERVICE_NAME, ""))


def _index(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


class OwnExports(Generic[K]):
    """The exports of this cluster.

    Args:
        cluster: its id.
        kind: the version of ServiceExport that it serves.
        keys: the controller's keys for an export, by namespace and name.
        told: whether only that counts which others are told: no status of an export, and no
            Service that is not exported.
        after: seconds that a change waits for work of others that follows from it.

    Attributes:
        exports: the watch of ServiceExports.
        echoes: the writes of their status, which do not count either, and the Services that are
            made of imports.
    """

    def __init__(
        self,
        cluster: str,
        kind: Kind,
        keys: Callable[[Key], K],
        *,
        told: bool = False,
        after: float = 0.0,
    ) -> None:
        self._cluster = cluster
        self._keys = keys
        self._told = told
        self.echoes = Echoes()
        self.exports: Watched[K] = Watched(kind, self._named, apart=APART, debounce=after)
        self._services: Watched[K] = Watched(SERVICES, self._on_service)
        self._slices: Watched[K] = Watched(
            ENDPOINT_SLICES,
            self._on_slice,
            Selection(labels=labels.SERVICE_NAME),
            apart=APART,
            debounce=after,
            indexes={_BY_SERVICE: _service_of},
        )

    @property
    def watches(self) -> tuple[Watched[K], ...]:
        """The watches, for the controller."""
        return self.exports, self._services, self._slices

    @property
    def doubtful(self) -> bool:
        """True if a Service or its endpoints may be there that the stores lack."""
        return self._services.doubtful or self._slices.doubtful

    async def surely_ended(self, key: Key) -> bool:
        """True if an export of that name is certainly none: what the stores lack is asked for."""
        if self.read(key) is None:
            return await self.exports.surely_gone(key)
        if self.service(key) is None:
            return await self._services.surely_gone(key)
        return not self.doubtful

    def within(self, namespace: str) -> Iterable[Key]:
        """The keys of the ServiceExports of a namespace."""
        return self.exports.store.indexed("namespace", namespace)

    def read(self, key: Key) -> ServiceExport | None:
        """The ServiceExport of that name."""
        return self.exports.store.decode(key, ServiceExport)

    def of(self, key: Key) -> Export | Refusal | None:
        """The export of that name, or the reason why it is none; None without a ServiceExport."""
        export = self.read(key)
        if export is None:
            return None
        service = self._services.store.decode(key, Service)
        store = self._slices.store
        slices = store.indexed(_BY_SERVICE, _index(*key))
        found = (store.decode(each, EndpointSlice) for each in slices)
        return own_export(export, service, [each for each in found if each], self._cluster)

    def has_mark(self, key: Key, word: str) -> bool:
        """True if there is an export of that name, which peers confirm by this mark."""
        found = self.of(key)
        return isinstance(found, Export) and mark(found) == word

    def families(self, networks: Iterable[str], held: Iterable[str]) -> list[str]:
        """The IP families of this cluster's Services.

        Args:
            networks: its service networks, as far as they are known. The API server's own Service,
                which shows the first family alone, does for the rest.
            held: addresses that an import has: so it keeps them whatever is not known.
        """
        found = self._services.store.decode(("default", "kubernetes"), Service)
        first = (found.spec.ip_families if found is not None else None) or ("IPv4",)
        known = {f"IPv{ipaddress.ip_network(each).version}" for each in networks}
        known.update(first, map(family, held))
        return [each for each in FAMILIES if each in known]

    def addresses(self, key: Key) -> tuple[str, ...]:
        """The cluster IPs of a Service; none where there is no such Service, or it is headless."""
        raw = self.service(key)
        return _addresses(msgspec.json.decode(raw, type=_Addressed)) if raw is not None else ()

    def made(self, answer: Json) -> tuple[str, ...]:
        """The cluster IPs of a Service, by the answer to its creation: nothing follows from it."""
        self.echoes.note("", msgspec.convert(answer, Partial))
        return _addresses(msgspec.convert(answer, _Addressed))

    def service(self, key: Key) -> bytes | None:
        """A Service, as it was read."""
        return self._services.store.get(key)

    def annotations(self, key: Key) -> dict[str, str]:
        """The annotations of this cluster's Service of that name; none of one that a peer has
        brought, which asks for nothing here."""
        raw = self.service(key)
        meta = msgspec.json.decode(raw, type=Partial).metadata if raw is not None else ObjectMeta()
        theirs = is_reflected(meta) or labels.REMOTE_CLUSTER_ID in meta.labels
        return {} if theirs else meta.annotations

    def _named(self, change: StoreChange) -> Iterable[K]:
        is_same = self._told and _without_status(change.old) == _without_status(change.new)
        if not is_same and not self.echoes.has(change):
            yield self._keys(change.key)

    def _on_service(self, change: StoreChange) -> Iterable[K]:
        if self.echoes.has(change):
            return
        yield from self._concerned(change.key)
        name = _label(change, SERVICE_NAME)
        if name and not self._told:
            yield self._keys((change.key[0], name))

    def _on_slice(self, change: StoreChange) -> Iterable[K]:
        for body in filter(None, (change.old, change.new)):
            marks = msgspec.json.decode(body, type=Partial).metadata.labels
            if SOURCE_CLUSTER not in marks:
                yield from self._concerned((change.key[0], marks.get(labels.SERVICE_NAME, "")))

    def _concerned(self, service: Key) -> Iterable[K]:
        if not self._told or service in self.exports.store:
            yield self._keys(service)


class _Addresses(msgspec.Struct):
    cluster_ips: tuple[str, ...] = msgspec.field(name="clusterIPs", default=())


class _Addressed(msgspec.Struct):
    spec: _Addresses = msgspec.field(default_factory=_Addresses)


def _addresses(found: _Addressed) -> tuple[str, ...]:
    return tuple(each for each in found.spec.cluster_ips if each != "None")


def _without_status(body: bytes | None) -> tuple[Any, ...] | None:
    """The parts of a ServiceExport that an export follows from."""
    if body is None:
        return None
    found = msgspec.json.decode(body, type=ServiceExport)
    meta = found.metadata
    return meta.uid, meta.creation_timestamp, meta.deletion_timestamp, found.spec


def _label(change: StoreChange, label: str) -> str:
    body = change.new if change.new is not None else change.old
    assert body is not None
    return msgspec.json.decode(body, type=Partial).metadata.labels.get(label, "")
