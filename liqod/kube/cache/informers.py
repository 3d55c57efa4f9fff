"""Shared informers: opened with the first user, closed with the last."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.memoryquota import MemoryQuota, Stub
from liqod.kube.cache.store import Index
from liqod.kube.client import Client
from liqod.kube.selection import EVERY, Selection
from liqod.runtime.log import PEER

Wanted = tuple[object, ...]


class _Shared:
    """An informer, its users, and the scope that ends it."""

    def __init__(self, informer: SharedInformer) -> None:
        self.informer = informer
        self.users = 0
        self.scope = trio.CancelScope()


class Informers:
    """The informers of one client.

    Args:
        client: client of the API server.
        nursery: runs them; they end with it.
        trims: by kind, the part of an object that is kept unless a user gives another.
        holdings: counts the bytes held of peers' objects.
    """

    def __init__(
        self,
        client: Client,
        nursery: trio.Nursery,
        *,
        trims: Mapping[Kind, Callable[[bytes], bytes]] | None = None,
        holdings: MemoryQuota | None = None,
    ) -> None:
        self.client = client
        self.holdings = holdings
        self._trims = trims or {}
        self._nursery = nursery
        self._shared: dict[Wanted, _Shared] = {}

    @asynccontextmanager
    async def share(
        self,
        kind: Kind,
        selection: Selection = EVERY,
        *,
        indexes: Mapping[str, Index] | None = None,
        keep: Callable[[bytes], bool] | None = None,
        trim: Callable[[bytes], bytes] | None = None,
        counted: Stub | None = None,
        partial: type[Any] = Partial,
        wait: bool = True,
    ) -> AsyncIterator[SharedInformer]:
        """Share an informer of that selection, synced unless ``wait`` is false.

        All users of the same selection (``indexes`` aside, which add up) get the same informer.
        While the server refuses to list, this waits; :meth:`all` shows the ``problem``.

        ``counted`` counts the bytes held for the peer of each namespace, and gives the part that is
        kept beyond the quota.
        """
        trim = trim or self._trims.get(kind)
        wanted = (kind, selection, keep, trim, counted, partial)
        shared = self._shared.get(wanted)
        if shared is None:
            informer = SharedInformer(
                self.client,
                kind,
                selection,
                keep=keep,
                trim=trim,
                partial=partial,
                part=self.holdings.part(counted) if self.holdings and counted else None,
            )
            shared = self._shared[wanted] = _Shared(informer)
            self._nursery.start_soon(self._run, shared)
        shared.users += 1
        try:
            shared.informer.store.add_indexes(indexes or {})
            if wait:
                await shared.informer.synced()
            yield shared.informer
        finally:
            shared.users -= 1
            if not shared.users:
                del self._shared[wanted]
                shared.scope.cancel()

    def find(self, kind: Kind, selection: Selection = EVERY) -> SharedInformer | None:
        """The open informer of that selection, if there is one."""
        for shared in self._shared.values():
            if (shared.informer.kind, shared.informer.selection) == (kind, selection):
                return shared.informer
        return None

    def all(self) -> list[SharedInformer]:
        """All open informers."""
        return [shared.informer for shared in self._shared.values()]

    async def _run(self, shared: _Shared) -> None:
        PEER.set("")  # it works for all, not for the peer that opened it first
        with shared.scope:
            await shared.informer.run()
