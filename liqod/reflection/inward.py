"""The way in: what comes of a plan in this cluster, for the local object itself.

Status, objects made here, reasons told as Events, and the end of an object that only waits for it.
"""

import logging
from collections.abc import Iterable

import trio

from liqod.errors import Forbidden, Invalid, LiqodError
from liqod.kube.meta import Partial, newer
from liqod.model.diff import digest
from liqod.plugins.contracts import Json, Plan, Reason, Reflector
from liqod.reflection import here, troubles
from liqod.reflection.context import Context, Version, Work, publish
from liqod.reflection.view import Key

log = logging.getLogger(__name__)

STATUS_REFUSED = "StatusRefused"
"""Reason for a status that this cluster's own API server does not take."""

STALE = 5.0
"""Seconds until another look where our own status has not come back from the API server."""

LOST = 1.0
"""Seconds until another look where a status met another object, or too many other writers."""


class Inward:
    """What one reflector writes here, for one peer."""

    def __init__(self, reflector: Reflector, context: Context) -> None:
        self._reflector = reflector
        self._context = context
        self._patient: dict[Key, float] = {}
        self._statuses: dict[Key, Version] = {}
        self._refused: dict[Key, tuple[str, float]] = {}
        self._told: dict[Key, tuple[str, frozenset[Reason]]] = {}

    @property
    def remembered(self) -> set[Key]:
        """The objects of which something is known here."""
        return {*self._patient, *self._statuses, *self._refused, *self._told}

    def forget(self, key: Key) -> None:
        """The object is gone, and nothing of it is left."""
        self._patient.pop(key, None)
        self._statuses.pop(key, None)
        self._refused.pop(key, None)
        self._told.pop(key, None)

    async def carry_out(self, work: Work, outgoing: Plan, incoming: Plan) -> None:
        """Status, objects made here, reasons, and the end of what only waits for it."""
        source = work.source
        if source is None:
            return
        reasons = (*outgoing.reasons, *incoming.reasons, *work.reasons)
        await self._tell(work, reasons)
        work.settled &= not (reasons or self._reflector.here)
        status = outgoing if outgoing.status is not None else incoming
        if status.status:
            await self._patch(work, source, status)
        else:
            self._patient.pop(work.key, None)
        if self._reflector.here:
            await self._make(work, source, (*outgoing.here, *incoming.here))
        if outgoing.finish or incoming.finish:
            abandon = outgoing.abandon or incoming.abandon
            left = [] if abandon else list(self._left(work))
            if not left and (abandon or work.session is not None):
                home = self._context.peer.home
                if await here.finish(home.client, self._reflector.kind, source):
                    publish(self._context, work, "finish")

    def _left(self, work: Work) -> Iterable[Partial]:
        """What an end waits for: not for what is going and only held by somebody's finalizer."""
        for there, live in work.has(self._reflector):
            if there.write is None or live.metadata.deletion_timestamp is None:
                yield live

    async def _patch(self, work: Work, source: Json, plan: Plan) -> None:
        key = work.key
        now = trio.current_time()
        ready = self._patient.setdefault(key, now) + plan.patience
        if ready > now:
            work.pauses.append(ready - now)
            return
        meta = source["metadata"]
        uid, version = self._statuses.get(key, ("", ""))
        if uid == meta["uid"] and not newer(meta["resourceVersion"], version):
            work.pauses.append(STALE)
            return
        assert plan.status is not None
        asked = digest(plan.status)
        refused, until = self._refused.get(key, ("", 0.0))
        if refused == asked and until > now:
            work.pauses.append(until - now)
            return
        client = self._context.peer.home.client
        try:
            written = await here.patch_status(client, self._reflector.kind, source, plan.status)
        except (Forbidden, Invalid) as error:
            self._refused[key] = (asked, now + troubles.UNCHANGED)
            work.pauses.append(troubles.UNCHANGED)
            await self._tell_refused(source, error)
            return
        finally:
            self._patient.pop(key, None)
        self._refused.pop(key, None)
        if written is None:
            work.pauses.append(LOST)
        else:
            self._statuses[key] = work.written = (meta["uid"], written.metadata.resource_version)
            # Only a list of conditions is written over the very version that was read.
            work.settled &= "conditions" in plan.status
            publish(self._context, work, "status", str(plan.status.get("reason") or ""))

    async def _tell_refused(self, source: Json, error: LiqodError) -> None:
        """Say that this cluster does not take the status: it will not until one of them changes."""
        meta, kind = source["metadata"], self._reflector.kind
        message = f"the status from {self._context.peer.id} is refused here: {error}"
        extra = {"kind": kind.name, "name": meta["name"], "namespace": meta.get("namespace", "")}
        log.warning("status refused here", extra={"object": extra, "reason": str(error)})
        reason = Reason(STATUS_REFUSED, message)
        client, now = self._context.peer.home.client, self._context.now()
        await here.tell(client, kind, source, reason, now)

    async def _make(self, work: Work, source: Json, wanted: Iterable[Json]) -> None:
        client, peer = self._context.peer.home.client, self._context.peer.id
        made = [
            here.owned(each, self._reflector.kind, source, self._reflector.name, peer)
            for each in wanted
        ]
        for kind in self._reflector.here:
            store = self._context.store(kind, work.subject.namespace)
            if store is None:
                continue
            mine = [each for each in made if each["kind"] == kind.name]
            for each in mine:
                await here.make(client, kind, each, store)
            keep = {each["metadata"]["name"] for each in mine}
            await here.sweep(client, kind, source, self._reflector.name, keep, store)

    async def _tell(self, work: Work, reasons: tuple[Reason, ...]) -> None:
        source = work.source
        assert source is not None
        context, uid = self._context, source["metadata"]["uid"]
        known, before = self._told.get(work.key, ("", frozenset()))
        if not reasons:
            self._told.pop(work.key, None)
            return
        for reason in dict.fromkeys(reasons):
            if known == uid and reason in before:
                continue
            await here.tell(
                context.peer.home.client, self._reflector.kind, source, reason, context.now()
            )
            publish(self._context, work, reason.code, reason.message)
        self._told[work.key] = (uid, frozenset(reasons))
