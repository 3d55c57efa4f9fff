"""Keeps one supervised task for each peer that exists.

A peer exists while a local tenant namespace carries its id; discovery plugins and ``liqod peer``
lead to such a namespace. The tasks are independent: a failure in one is contained by
:class:`~liqod.runtime.supervise.Supervision`, and its next try is that peer's alone.
"""

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import NoReturn

import msgspec
import trio

from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster import memorylimits
from liqod.cluster.context import ClusterContext
from liqod.cluster.tenancy import tenant_of
from liqod.config import PeerSettings
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.watched import Watched
from liqod.runtime.log import PEER
from liqod.runtime.supervise import Failure, Supervision
from liqod.telemetry.events import PeerFailed, PeerGone, PeerSeen

logger = logging.getLogger(__name__)

RunPeer = Callable[[ClusterContext, str, str], Awaitable[object]]
"""The whole life of one peer: this cluster, its id, its local tenant namespace."""


@dataclasses.dataclass(frozen=True)
class _Running:
    tenant_namespace: str
    settings: PeerSettings
    scope: trio.CancelScope
    supervision: Supervision


def desired(tenants: dict[str, str]) -> dict[str, str]:
    """One namespace for each peer, of ``{namespace: peer}``: the first by name where several."""
    chosen: dict[str, str] = {}
    for namespace in sorted(tenants):
        chosen.setdefault(tenants[namespace], namespace)
    return chosen


class PeerController(Controller[str]):
    """Keeps one task running for each existing peer; a key is a peer's id.

    Args:
        run_peer: the task of each; it is started again when it ends.
        gone: called with each that is no peer any more.

    Attributes:
        failures: the reasons why failed tasks wait, by peer; none of restarted ones.
    """

    def __init__(
        self, context: ClusterContext, run_peer: RunPeer, gone: Callable[[str], object]
    ) -> None:
        self._context = context
        self._run_peer = run_peer
        self._gone = gone
        self._tenants: dict[str, str] = {}
        self._running: dict[str, _Running] = {}
        self._ends: dict[str, trio.Event] = {}
        """Set when the newest task of a peer has ended; with it goes its entry."""
        self.failures: dict[str, Failure] = {}
        super().__init__(context, "peers", Watched(NAMESPACES, self._on_namespace))

    def __len__(self) -> int:
        return len(self._running)

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Follow the tenant namespaces until cancelled; the peers' tasks end with it."""
        async with trio.open_nursery() as self._tasks:
            await super().run(task_status=task_status)

    def reload(self, context: ClusterContext) -> list[str]:
        """Take over another configuration; the peers whose settings it changes start anew."""
        self._context = context
        changed = [
            peer
            for peer, running in self._running.items()
            if context.config.peer(peer) != running.settings
        ]
        for peer in changed:
            self._running.pop(peer).scope.cancel()
            self.queue.add(peer)
        return changed

    def _on_namespace(self, change: StoreChange) -> Iterator[str]:
        """The peer that a namespace belonged to, and the one that it belongs to now."""
        if self._context.informers.holdings is not None:
            memorylimits.note_owner(self._context.informers.holdings, change)
        peer = None
        if change.new is not None:
            peer = tenant_of(msgspec.json.decode(change.new, type=Partial))
        before = self._tenants.pop(change.key[1], None)
        if peer is not None:
            self._tenants[change.key[1]] = peer
        if before != peer:
            yield from (each for each in (before, peer) if each is not None)

    async def reconcile(self, peer: str) -> None:
        """Stop the task of a peer that is gone or has moved, and start one that is missing."""
        namespace = desired(self._tenants).get(peer)
        running = self._running.get(peer)
        if running is not None and running.tenant_namespace != namespace:
            running.scope.cancel()
            del self._running[peer]
            self.failures.pop(peer, None)
            self._context.hub.publish(PeerGone(), peer)
            logger.info("no peer any more", extra={"cluster": peer})
            self._gone(peer)
        if namespace is not None and peer not in self._running:
            self._start(peer, namespace)

    def _start(self, peer: str, namespace: str) -> None:
        context, scope = self._context, trio.CancelScope()

        async def live() -> None:
            await self._run_peer(context, peer, namespace)

        def report(failure: Failure | None, error: BaseException | None) -> None:
            if failure is None:
                self.failures.pop(peer, None)
                return
            if scope.cancel_called:  # it has gone, and fails while it ends
                return
            self.failures[peer] = failure
            context.hub.publish(PeerFailed(**msgspec.structs.asdict(failure)), peer)
            logger.warning(
                "the peer's task failed: %s; next try in %.0f s",
                failure.reason,
                failure.retry_in,
                exc_info=error if not failure.parked else None,
            )

        supervision = Supervision(live, report)
        self._running[peer] = _Running(namespace, context.config.peer(peer), scope, supervision)
        context.hub.publish(PeerSeen(namespace=namespace), peer)
        logger.info("works with a peer", extra={"cluster": peer, "namespace": namespace})
        before, ended = self._ends.get(peer), trio.Event()
        self._ends[peer] = ended

        async def supervised() -> None:
            """Run the task once the one before has ended: both would write the same."""
            PEER.set(peer)
            try:
                if before is not None:
                    await before.wait()
                with scope:
                    await trio.lowlevel.checkpoint()  # it may have gone while it waited
                    await supervision.forever()
            finally:
                ended.set()
                if peer not in self._running:
                    # Once more: what was under way when it was cancelled may have reported.
                    self._gone(peer)
                if self._ends.get(peer) is ended:
                    del self._ends[peer]

        self._tasks.start_soon(supervised, name=f"peer {peer}")
