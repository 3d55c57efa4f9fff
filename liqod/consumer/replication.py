"""Replication to a peer: under its control plane's identity, as long as the peer lets us.

The replication itself is in :mod:`liqod.consumer.replicator`; one replicator works at a time.
"""

from typing import NoReturn

import trio

from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import replicas_of
from liqod.consumer.link import ProviderPeer
from liqod.consumer.providercleanup import ProviderCleanup
from liqod.consumer.remote import Remote
from liqod.consumer.remotes import Remotes
from liqod.consumer.replicator import REFUSALS, Item, Replicator, deny_withdrawn
from liqod.consumer.slices.sliceobjects import is_source
from liqod.errors import Forbidden, LiqodError
from liqod.kube.cache.store import IndexedStore
from liqod.kube.queue import KeyedQueue
from liqod.kube.selection import Selection
from liqod.resources import RESOURCE_SLICES, ResourceSlice
from liqod.runtime.backoff import Backoff
from liqod.telemetry.events import Replicated

AGAIN = 1.0
"""Seconds between tries to read there, where it fails or is refused for good."""
REFUSED_EVERY = 15.0
"""Seconds between checks of our right to read there; none while reading works."""
PAUSES = Backoff(first=0.1, last=3.2)


class Replication:
    """Replicates to one peer for as long as its control plane gives an identity.

    Args:
        peer: the provider.
        remotes: the identities there.
        leaving: whether this cluster is about to leave; then nothing is created any more.

    Attributes:
        queue: the objects that wait to be replicated; it outlives the identities.
    """

    def __init__(self, peer: ProviderPeer, remotes: Remotes, leaving: ProviderCleanup) -> None:
        self._peer = peer
        self._remotes = remotes
        self._leaving = leaving
        self.queue: KeyedQueue[Item] = KeyedQueue(name="replication")
        self._replicator: Replicator | None = None
        """The present replicator, or the last one."""

    @property
    def unfollowed(self) -> dict[str, str]:
        """The kinds of ours that cannot be followed there now, with the reason."""
        return {} if self._replicator is None else self._replicator.unfollowed

    @property
    def slices(self) -> list[str]:
        """Names of the slices that this cluster has at the peer, for inspection."""
        return [] if self._replicator is None else self._replicator.slices

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Replicate until cancelled."""
        async with self._peer.context.informers.share(RESOURCE_SLICES) as slices:
            task_status.started()
            while True:
                remote = self._remotes.control()
                if remote is None:
                    await self._remotes.changed()
                    continue
                async with trio.open_nursery() as session:
                    session.start_soon(self._replicate, remote, slices.store)
                    await self._until_replaced(remote)
                    session.cancel_scope.cancel()
        raise AssertionError("the loop never ends")

    async def _until_replaced(self, remote: Remote) -> None:
        """Wait until the identity is gone or leads elsewhere; a new certificate is no reason."""
        while True:
            await self._remotes.changed()
            found = self._remotes.control()
            if found is None or (found.client, found.namespace) != (
                remote.client,
                remote.namespace,
            ):
                return

    async def _replicate(self, remote: Remote, slices: IndexedStore) -> None:
        """Reconcile while the peer lets us, until cancelled."""
        while True:
            await self._until_allowed(remote, slices)
            replicator = Replicator(self._peer, remote, self._leaving, self.queue)
            self._replicator = replicator
            async with trio.open_nursery() as nursery:
                # Not `start`: a peer that refuses is noticed while the replicas are being read.
                nursery.start_soon(replicator.run)
                await self._until_refused(remote, replicator)
                nursery.cancel_scope.cancel()

    async def _until_allowed(self, remote: Remote, slices: IndexedStore) -> None:
        """Wait until the peer lets us list; if it keeps refusing, report that on the slices."""
        refusals = 0
        while True:
            try:
                await self._check_access(remote)
            except Forbidden:
                refusals += 1
            except LiqodError as error:
                self._peer.report(Replicated(failed=str(error)))
                refusals = 0
            else:
                return
            if refusals >= REFUSALS:
                await self._on_withdrawn(slices)
            await trio.sleep(PAUSES.delay(refusals) if 0 < refusals < REFUSALS else AGAIN)

    async def _until_refused(self, remote: Remote, replicator: Replicator) -> None:
        """Wait until the peer withdraws its permission: earlier deletions may have been missed."""
        while True:
            await trio.sleep(REFUSED_EVERY)
            if RESOURCE_SLICES.plural not in replicator.unfollowed:
                continue
            try:
                await self._check_access(remote)
            except Forbidden:
                return
            except LiqodError:
                continue

    async def _check_access(self, remote: Remote) -> None:
        """Read an object of ours there. Raises Forbidden where that is not allowed (any more)."""
        mine = replicas_of(self._peer.context.cluster_id)
        # The result is not used; and the watch of the same kind comes next, and soon.
        selection = Selection(remote.namespace, labels=mine, cached=True)
        await remote.client.list(RESOURCE_SLICES, selection, decode=Partial)

    async def _on_withdrawn(self, slices: IndexedStore) -> None:
        """The provider has taken our rights: its statement that the peering is over, or drained."""
        for key in slices.indexed("namespace", self._peer.tenant_namespace):
            found = slices.decode(key, ResourceSlice)
            if found is None or not is_source(found.metadata.labels, self._peer.id):
                continue
            try:
                await deny_withdrawn(self._peer.context.client, found)
            except LiqodError as error:
                self._peer.report(Replicated(name=found.name, failed=str(error)))
