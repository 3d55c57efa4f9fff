"""Takes back the local writes about an object for a peer that no longer has to do with it.

A namespace that is offloaded no more, or a peer that is left, leaves no outdated status behind,
and no object that was made here in its name. The peer's own task is gone by
then, so this is a component of the whole cluster. It tries each retraction as often as it takes
while the daemon runs; if that ends in between, the next reflection of the object puts the rest
right.
"""

import logging
from typing import Any

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.errors import NotFound, PermanentError
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.reflection import localobjects, statuswriter
from liqod.reflection.statusarbitration import Retraction, StatusArbiter, taken_back
from liqod.reflection.view import ReflectedObject
from liqod.runtime.backoff import Backoff

AT_ONCE = 4
logger = logging.getLogger(__name__)


Said = tuple[ReflectedObject, str]
"""An object, and the peer that declared a state of it."""


class Retractions(Controller[Said]):
    """Takes back statuses and local objects that no peer's engine wants any more."""

    def __init__(self, context: ClusterContext, arbiter: StatusArbiter) -> None:
        self._context, self._arbiter = context, arbiter
        self._waiting: dict[Said, Retraction] = {}
        pauses = Backoff(first=0.5, last=60.0)
        super().__init__(context, "retractions", concurrency=AT_ONCE, backoff=pauses)

    async def prepare(self) -> None:
        """Subscribe to retractions."""
        self._arbiter.retracted = self._take_note

    def _take_note(self, retraction: Retraction) -> None:
        key = (retraction.subject, retraction.peer)
        self._waiting[key] = retraction
        self.queue.add(key)

    async def reconcile(self, key: Said) -> None:
        """Take back one peer's writes about one object, unless it declares a state of it again."""
        retraction = self._waiting.get(key)
        if retraction is None or self._arbiter.has_desired(*key):
            self._waiting.pop(key, None)  # it came back
            return
        try:
            await self._remove(retraction)
            await self._clear(retraction)
        except PermanentError as error:
            if not isinstance(error, NotFound):
                about = f"{retraction.subject.namespace}/{retraction.subject.name}"
                logger.warning("what %s said of %s stays: %s", retraction.peer, about, error)
        if self._waiting.get(key) is retraction:  # another may have come while this was at work
            del self._waiting[key]

    async def _remove(self, retraction: Retraction) -> None:
        """Delete the objects that were made in the peer's name."""
        client, subject = self._context.client, retraction.subject
        selector = f"{labels.ORIGIN}={retraction.peer}"
        for kind in retraction.reflector.local:
            found = await client.list(
                kind, Selection(subject.namespace, labels=selector), decode=Partial
            )
            for each in found:
                if localobjects.made_from(each, subject.reflector, subject.name, retraction.uid):
                    meta = each.metadata
                    await client.delete(kind, meta.name, subject.namespace, uid=meta.uid)

    async def _clear(self, retraction: Retraction) -> None:
        """Remove from the status the values that no peer declares any more."""
        if not retraction.shown:
            return
        client, subject = self._context.client, retraction.subject
        kind = retraction.reflector.kind
        live: dict[str, Any] = await client.get(kind, subject.name, subject.namespace)
        patch = taken_back(retraction.shown, live.get("status") or {}, {})
        if patch and live["metadata"]["uid"] == retraction.uid:
            await statuswriter.patch_status(client, kind, live, patch)
