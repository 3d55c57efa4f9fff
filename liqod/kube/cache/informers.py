"""Informers that many share: opened with the first user, closed with the last."""

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
    """An informer, its users, and what ends it."""

    def __init__(self, informer: SharedInformer) -> None:
        self.informer = informer
        self.users = 0
        self.scope = trio.CancelScope()


class Informers:
    """The informers of one client.

    Args:
        client: asks the API server.
        nursery: runs them; they end with it.
        trims: by kind, what is kept of an object where no user says so.
        holdings: counts what is held of peers' objects.
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
        """An informer of that selection, synced unless ``wait`` is false.

        All who ask for the same selection (``indexes`` aside, which add up) get the same one. While
        the server refuses to list, this waits; :meth:`all` shows the ``problem``.

        ``counted`` has what is held counted for the peer of each namespace, and says what is kept
        where there is no room.
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
        """An informer of that selection, if somebody has one open."""
        for shared in self._shared.values():
            if (shared.informer.kind, shared.informer.selection) == (kind, selection):
                return shared.informer
        return None

    def all(self) -> list[SharedInformer]:
        """The informers that are open now."""
        return [shared.informer for shared in self._shared.values()]

    async def _run(self, shared: _Shared) -> None:
        PEER.set("")  # it works for all, not for the peer that happened to be the first
        with shared.scope:
            await shared.informer.run()
