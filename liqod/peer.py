"""One peer, as every room that works for it is given it: a value, which does nothing by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from liqod.config import PeerSettings
from liqod.context import ClusterContext
from liqod.errors import Conflict, LiqodError, PluginError, ProtocolError, TransientError
from liqod.kube.http.turns import Budget, Metered
from liqod.log import Seldom

if TYPE_CHECKING:
    from liqod.consumer.link import Link

K = TypeVar("K")

logger = logging.getLogger(__name__)

WORK_SHARE = 0.01
"""Part of the time that slices and maps of one peer may take in the long run. What others do with
what is written for them, and the garbage of it, is not counted and is as much again."""


@dataclass(frozen=True)
class Peer:
    """One peer; lives as long as its nursery.

    Attributes:
        id: its cluster id.
        home: this cluster.
        tenant_namespace: the local namespace that belongs to this peer.
        link: whether the peer's API server answers; up where nothing is borrowed.
        work: the time that goes to what it asks of this cluster.
    """

    id: str
    home: ClusterContext
    tenant_namespace: str
    link: Link
    work: Budget = field(default_factory=partial(Budget, share=WORK_SHARE))

    @property
    def settings(self) -> PeerSettings:
        """What the operator says of this peer."""
        return self.home.config.peer(self.id)

    def report(self, topic: str, **facts: object) -> None:
        """Publish a decision about this peer."""
        self.home.hub.publish(f"peer.{topic}", peer=self.id, **facts)

    def paced(
        self, worker: Callable[[K], Coroutine[Any, Any, float | None]]
    ) -> Callable[[K], Coroutine[Any, Any, float | None]]:
        """A queue's worker that pauses where this peer has it work without end."""

        async def work(key: K) -> float | None:
            metered = Metered(worker(key))
            try:
                again = await metered
            except Exception:
                await self.work.spend(metered.used)
                raise
            await self.work.spend(metered.used)
            return again

        return work

    def failures(self, topic: str, **facts: object) -> Callable[[object, Exception], None]:
        """What a queue calls when its worker fails: publishes the key and the reason.

        What time alone does not mend is logged too, each only now and then.
        """
        seldom = Seldom()

        def report(key: object, error: Exception) -> None:
            reason = str(error) or type(error).__name__
            self.report(topic, key=_brief(key), failed=reason, **facts)
            whose = None if isinstance(error, ProtocolError) else key  # that is the whole server's
            if isinstance(error, TransientError | Conflict) or not seldom.allows((whose, reason)):
                return
            extra = {"topic": topic, **facts, "key": _brief(key), "reason": reason}
            known = isinstance(error, LiqodError) and not isinstance(error, PluginError)
            logger.warning("failed, and is tried again", extra=extra, exc_info=not known and error)

        return report


def _brief(key: object) -> str:
    """A queue's key for people: a kind by its plural, and tuples with slashes."""
    if isinstance(key, tuple):
        return "/".join(_brief(part) for part in key if part)
    return str(getattr(key, "plural", key))
