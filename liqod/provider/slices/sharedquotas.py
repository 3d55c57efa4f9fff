"""Divides the bounds of ``provider.object_quota``, which are a consumer's, among its namespaces.

:class:`ConsumerQuotas` keeps the quotas of one consumer's namespaces, and :class:`QuotaBalancer`
moves free amounts between them when their use changes. How they are divided is decided by
:mod:`liqod.provider.slices.quotadivision`.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, RESOURCE_QUOTAS
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.apimachinery.rawobjects import UNREADABLE
from liqod.errors import ConfigError, NotFound
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched
from liqod.model.objects import quantities
from liqod.model.objects.quantities import Amounts
from liqod.peers.peer import Peer
from liqod.provider.namespaces import mapping
from liqod.provider.slices import quotadivision
from liqod.provider.slices.quotadivision import NamespaceQuota
from liqod.provider.timings import ORDINARY, ProviderTimings

DEBOUNCE: Final = 0.2
_LARGEST: Final = 1 << 16
"""Bytes of a quota that is read; those that are written here have some hundred."""
_KEY: Final = "shares"


class _QuotaSpec(msgspec.Struct, frozen=True):
    hard: dict[str, str] = {}


class _QuotaStatus(msgspec.Struct, frozen=True):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class _Quota(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _QuotaSpec = _QuotaSpec()
    status: _QuotaStatus = _QuotaStatus()


class ConsumerQuotas:
    """The quotas in one consumer's namespaces, as observed and as last written.

    Args:
        total: the bounds of the consumer, by resource.

    Attributes:
        lock: held over deciding and writing, so that nothing free is given twice.
    """

    def __init__(self, total: Callable[[], Mapping[str, str]]) -> None:
        self.lock = trio.Lock()
        self._total = total
        self._seen: dict[str, _Quota] = {}
        self._written: dict[str, tuple[Amounts, int]] = {}
        """The amounts that were written and are not observed yet; version 0 is unknown."""
        self._quotas: dict[str, NamespaceQuota] = {}
        self._changed: set[str] = set()

    @property
    def total(self) -> Amounts:
        """The bounds of the consumer; an invalid quantity is left to the API server to refuse."""
        return _amounts(self._total())

    @property
    def quotas(self) -> dict[str, NamespaceQuota]:
        """The quotas by namespace."""
        for name in self._changed:
            if name not in self._seen and name not in self._written:
                self._quotas.pop(name, None)
                continue
            seen = self._seen.get(name, _Quota())
            written, _ = self._written.get(name, ({}, 0))
            self._quotas[name] = quotadivision.namespace_quota(
                _amounts(seen.spec.hard),
                _amounts(seen.status.hard),
                _amounts(seen.status.used),
                written,
            )
        self._changed.clear()
        return dict(self._quotas)

    @property
    def doubtful(self) -> list[str]:
        """Namespaces whose last write has an unknown outcome."""
        return [name for name, (_, version) in self._written.items() if not version]

    def update(self, namespace: str, body: bytes) -> None:
        """Record a namespace's present quota."""
        with suppress(*UNREADABLE):
            self.read(namespace, msgspec.json.decode(body, type=_Quota))

    def read(self, namespace: str, found: _Quota) -> None:
        """Record a namespace's quota that was read."""
        seen = self._seen.get(namespace, _Quota()).metadata
        if seen.uid == found.metadata.uid and _version(found.metadata) < _version(seen):
            return  # a watch that is behind
        self._changed.add(namespace)
        self._seen[namespace] = found
        _, version = self._written.get(namespace, ({}, 0))
        if version and _version(found.metadata) >= version:
            del self._written[namespace]

    def note_write(self, namespace: str, hard: Amounts) -> None:
        """Record a coming write: from now on it counts."""
        self._changed.add(namespace)
        before, _ = self._written.get(namespace, ({}, 0))
        self._written[namespace] = ({**before, **hard}, 0)

    def confirm_write(self, namespace: str, meta: ObjectMeta) -> None:
        """Record that it was written, as this version."""
        if namespace in self._written:
            hard, _ = self._written[namespace]
            self._written[namespace] = (hard, max(1, _version(meta)))
            if namespace in self._seen:
                self.read(namespace, self._seen[namespace])

    def settle(self, namespace: str, found: _Quota | None) -> None:
        """Record the quota as read after a write of unknown outcome."""
        self.forget(namespace)
        if found is not None:
            self.read(namespace, found)

    def forget(self, namespace: str) -> None:
        """Drop the records of a namespace that is gone: its share is free."""
        self._changed.add(namespace)
        self._seen.pop(namespace, None)
        self._written.pop(namespace, None)

    def within(
        self, namespace: str, live: Mapping[str, str], bounds: Mapping[str, str]
    ) -> dict[str, str]:
        """The wanted amounts of a namespace's quota: its present shares, or first ones.

        Args:
            live: its present quota.
            bounds: those of the consumer which can be set now.
        """
        others = {name: each for name, each in self.quotas.items() if name != namespace}
        first = {
            key: quotadivision.first_amount(key, most, others)
            for key, most in _amounts(bounds).items()
            if key not in live
        }
        if first:
            self.note_write(namespace, first)
        given = quantities.render_all(first)
        return {key: given.get(key) or live.get(key, bound) for key, bound in bounds.items()}


class QuotaBalancer(Controller[str]):
    """Moves free parts of a consumer's bounds to the namespaces that use theirs.

    Args:
        peer: the consumer.
        shared: the records of its quotas; kept up to date by this controller.
    """

    def __init__(
        self, peer: Peer, shared: ConsumerQuotas, timings: ProviderTimings = ORDINARY
    ) -> None:
        self._peer = peer
        self._client = peer.context.client
        self._shared = shared
        self._turn = timings.turn
        named = f"metadata.name={mapping.QUOTA_NAME}"
        ours = Selection(labels=f"{labels.MANAGED}={labels.TRUE}", fields=named)
        self._quotas = Watched(
            RESOURCE_QUOTAS, self._quota, ours, within=(), debounce=DEBOUNCE, keep=_is_small
        )
        self._namespaces = Watched(NAMESPACES, self._namespace, debounce=DEBOUNCE)
        watches = (self._quotas, self._namespaces)
        super().__init__(peer, "objectshares", *watches, name="object shares", budget=peer.work)

    def _quota(self, change: StoreChange) -> tuple[str]:
        if change.new is not None:
            self._shared.update(change.key[0], change.new)
        # One that was removed counts on until its namespace is gone, or has another one.
        return (_KEY,)

    def _namespace(self, change: StoreChange) -> Iterable[str]:
        """A namespace of the consumer came or went: its quota is followed that long."""
        name = change.key[1]
        if change.new is None:
            self._quotas.unfollow(name)
            self._shared.forget(name)
            return (_KEY,)
        if name != self._peer.tenant_namespace and self._peer.id.encode() in change.new:
            found = self._namespaces.store.decode(change.key, Partial)
            marks = found.metadata.labels if found is not None else {}
            if marks.get(labels.REMOTE_CLUSTER_ID) == self._peer.id:
                self._quotas.follow(name)
        return ()

    async def reconcile(self, key: str) -> float | None:
        """Write the due moves; seconds until the next turn, where there is too little for all."""
        async with self._shared.lock:
            again = await self._move()
        return self._turn if again else None

    async def _move(self) -> bool:
        """Write the due moves; True if the rest goes on to others after a turn."""
        for namespace in self._shared.doubtful:
            live = await self._client.find(
                RESOURCE_QUOTAS, mapping.QUOTA_NAME, namespace, decode=_Quota
            )
            self._shared.settle(namespace, live)
        turn = int(trio.current_time() / self._turn)
        found = quotadivision.quota_changes(self._shared.total, self._shared.quotas, turn)
        for namespace, hard in found.hard.items():
            body = {"spec": {"hard": quantities.render_all(hard)}}
            self._shared.note_write(namespace, hard)
            with suppress(NotFound):
                made = await self._client.patch(
                    RESOURCE_QUOTAS, mapping.QUOTA_NAME, body, namespace
                )
                self._shared.confirm_write(namespace, made.metadata)
        return found.again


def _is_small(body: bytes) -> bool:
    return len(body) <= _LARGEST


def _amounts(hard: Mapping[str, str]) -> Amounts:
    found: Amounts = {}
    for key, amount in hard.items():
        with suppress(ConfigError):
            found[key] = quantities.parse(amount)
    return found


def _version(meta: ObjectMeta) -> int:
    """A resource version, which grows with each write (KEP-5504)."""
    return int(meta.resource_version) if meta.resource_version.isdecimal() else 0
