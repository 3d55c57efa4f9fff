"""Checks every few seconds for degraded reflection at a peer that answers; reports to the link.

A server may answer the link's small probe and nothing else: one kind cannot be followed, no
object can be written. A fault that two checks in a row find is reported. One that concerns the
kinds of plugins alone, or a kind that the peer lacks or gives no right to, keeps no pod from
running there. A watch that does not show a write made long ago is begun anew.
"""

from collections.abc import Callable
from typing import NoReturn

from liqod.apimachinery.kinds import Kind
from liqod.consumer.degradations import Degradation
from liqod.reflection.reflectioncontext import Context
from liqod.reflection.timings import ORDINARY, ReflectionTimings
from liqod.reflection.workers import Workers
from liqod.runtime.ticks import sleep_until_tick

TEXTS = 3
"""Faults that a report names at most."""
ROOM = "reflection"

Found = dict[str, Degradation]


class HealthCheck:
    """Checks the sessions and workers of one peer.

    Args:
        workers: the peer's.
        better: called when a degradation ends: work that waits for the end of a pause is due.
    """

    def __init__(
        self,
        context: Context,
        workers: Workers,
        better: Callable[[], None],
        timings: ReflectionTimings = ORDINARY,
    ) -> None:
        self._context = context
        self._workers = workers
        self._every = timings.check_every
        self._link = context.peer.link
        self._better = better
        self._lacking: set[Kind] = set()

    async def run(self) -> NoReturn:
        """Check until cancelled."""
        before: Found = {}
        try:
            while True:
                await sleep_until_tick(self._every)
                found = self._find()
                self._link.degradations.report(ROOM, _summary(found, before))
                if before.keys() - found.keys():
                    self._better()
                before = found
        finally:
            self._link.degradations.report(ROOM, None)

    def _find(self) -> Found:
        """The present faults, by their subject."""
        found: Found = {}
        if not self._link.up:
            return found
        lacking: dict[Kind, str] = {}
        for mapped in self._context.namespaces.values():
            for kind, cache in mapped.caches.items():
                cache.mend()
                trouble = cache.trouble
                if trouble is not None:
                    found[f"read {kind.plural}"] = trouble
                if cache.lacks:
                    lacking[kind] = cache.lacks
        self._report(lacking)
        for worker in self._workers.values():
            reason = worker.remote.problem
            if reason is not None:
                what = worker.reflector.name
                text = f"{what} cannot be written: {reason}"
                found[f"write {what}"] = Degradation(text, worker.own)
        return found

    def _report(self, lacking: dict[Kind, str]) -> None:
        """Report the kinds that the peer lacks or gives no right to, and those served again."""
        for kind, why in lacking.items():
            self._context.unreadable(kind, why)
        for kind in self._lacking - lacking.keys():
            self._context.readable(kind)
        self._lacking = set(lacking)


def _summary(found: Found, before: Found) -> Degradation | None:
    """The faults that two checks in a row found, as one degradation; None without any."""
    lasting = [found[what] for what in sorted(found) if what in before]
    if not lasting:
        return None
    texts = list(dict.fromkeys(each.text for each in lasting))
    return Degradation(
        "; ".join(texts[:TEXTS]),
        any(each.grave for each in lasting),
        blind=any(each.blind for each in lasting),
    )
