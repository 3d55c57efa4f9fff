"""Writes to this cluster the results of a plan for the local object itself.

Its status, objects made from it, reasons as Events, and its deletion where it only waits for
that. The status is patched with the object's UID, so that an object of the same name that came
meanwhile is not given the status of the one before. The objects made are owned by the local object
they belong to, and go with it.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

import msgspec
import trio

from liqod.apimachinery.kinds import EVENTS, Kind
from liqod.apimachinery.meta import Partial, newer
from liqod.errors import (
    Conflict,
    Forbidden,
    Invalid,
    LiqodError,
    NotFound,
    PermanentError,
)
from liqod.kube import recorder, times
from liqod.kube.client import Client
from liqod.model.objects.patches import digest
from liqod.model.objects.remoteevents import MESSAGE_BYTES, REASON_BYTES, clean
from liqod.plugins.contracts import NOTHING, Json, Plan, Reason, Reflector, Scope
from liqod.plugins.validation import json_problem
from liqod.reflection import writebackoff
from liqod.reflection.localobjects import Lately, make, owned, sweep
from liqod.reflection.reflectioncontext import Context, Version, Work, bare
from liqod.reflection.statusarbitration import DesiredStatus
from liqod.reflection.view import Key, ReflectedObject
from liqod.reflection.writebackoff import Contest, Rate
from liqod.resources import FOREIGN_CLUSTERS

log = logging.getLogger(__name__)

STATUS_REFUSED = "StatusRefused"
"""Reason for a status that this cluster's own API server refuses."""

STATUS_CONTESTED = "StatusContested"
"""Reason for a status that another changes as often as it is written."""

STALE = 5.0
"""Seconds until another try where our own status has not come back from the API server."""

LOST = 1.0
"""Seconds until another try where a status met another object, or too many other writers."""


MOST_REASONS = 32
"""Reasons of one object that are written as Events; the first ones."""


class StatusWriter:
    """Writes the results of one reflector to this cluster, for one peer.

    Args:
        ask_again: has an object reconciled, regardless of its last outcome.
    """

    def __init__(
        self, reflector: Reflector, context: Context, ask_again: Callable[[Key], None]
    ) -> None:
        self._requeue = ask_again
        self._reflector = reflector
        self._context = context
        self._debounced: dict[Key, float] = {}
        self._statuses: dict[Key, Version] = {}
        self._refused: dict[Key, tuple[str, float]] = {}
        self._reported: dict[Key, tuple[str, frozenset[Reason]]] = {}
        self._desired: dict[Key, Json] = {}
        self._contest = Contest(context.timings.contested)
        self._rate = Rate()
        self._lately = Lately()
        self._gauge = context.plugins.gauge("reflector", reflector.name)

    @property
    def remembered(self) -> set[Key]:
        """The objects of which a record is kept."""
        return {*self._debounced, *self._statuses, *self._refused, *self._reported}

    def reasons(self) -> Iterator[tuple[Key, frozenset[Reason]]]:
        """The reasons that objects were given, and that still hold."""
        for key, (_, reasons) in self._reported.items():
            yield key, reasons

    def gone(self, key: Key) -> None:
        """Drop the arbitration of an object that is gone: there is nothing to take back."""
        subject = ReflectedObject(self._reflector.name, *key)
        self._context.arbiter.forget(subject, self._context.peer.id)

    def forget(self, key: Key) -> None:
        """Drop the records of an object that is gone, or not this session's any more."""
        self._desired.pop(key, None)
        self._contest.forget(key)
        self._rate.forget(key)
        self._debounced.pop(key, None)
        self._statuses.pop(key, None)
        self._refused.pop(key, None)
        self._reported.pop(key, None)

    async def carry_out(self, work: Work, outgoing: Plan, incoming: Plan) -> None:
        """Write status, local objects and reasons; delete an object that only waits for that."""
        source = work.source
        if source is None:
            return
        reasons = (*outgoing.reasons, *incoming.reasons, *work.reasons)
        await self.report(work, reasons)
        work.settled &= not (reasons or self._reflector.local)
        said = outgoing if outgoing.status is not None else incoming
        made = (*outgoing.local, *incoming.local)
        status = self._agreed(work, source, said, made)
        written = True
        if status.status:
            written = await self._patch(work, source, status)
        else:
            self._debounced.pop(work.key, None)
        if self._reflector.local:
            await self._make(work, source, made)
        if outgoing.delete_local or incoming.delete_local:
            orphan = outgoing.orphan_remote or incoming.orphan_remote
            left = [] if orphan else list(self._left(work))
            if not left and (orphan or work.mapped is not None):
                context = self._context.peer.context
                if await delete_local(context.client, self._reflector.kind, source):
                    self._context.publish(work.subject, "finish")
        elif written and (outgoing.end_local or incoming.end_local):
            context = self._context.peer.context
            if not source["metadata"].get("deletionTimestamp"):
                await delete_local(context.client, self._reflector.kind, source, grace=None)
                self._context.publish(work.subject, "end")

    def _agreed(self, work: Work, source: Json, said: Plan, made: Iterable[Json]) -> Plan:
        """The part of a plan that this engine writes where several peers reflect the object."""
        reflector, arbiter = self._reflector, self._context.arbiter
        if reflector.scope is Scope.NODE:
            return said
        subject, peer = work.subject, self._context.peer.id
        names = frozenset((each["kind"], each["metadata"]["name"]) for each in made)
        voice = DesiredStatus(said.status or None, names)
        if not voice.anything and not arbiter.tracks(subject, peer):
            return NOTHING
        again = partial(self._requeue, work.key)
        arbiter.set_desired(reflector, subject, source["metadata"]["uid"], peer, voice, again)
        wanted = arbiter.resolve(subject, peer, partial(self._combine, source))
        if wanted is None:
            return NOTHING
        patch = arbiter.patch(subject, peer, wanted, source.get("status") or {})
        if not patch:
            arbiter.written(subject, peer, wanted)
            return NOTHING
        self._desired[work.key] = wanted
        return msgspec.structs.replace(said, status=patch)

    def _combine(self, source: Json, statuses: Mapping[str, Json]) -> Json:
        """The one status that the reflector makes of those of several peers."""
        combine = self._reflector.combine
        assert combine is not None
        return self._gauge.judge(json_problem, combine, bare(source), statuses)

    def _left(self, work: Work) -> Iterable[Partial]:
        """Reflections that an end waits for; not those being deleted, held by a finalizer alone."""
        for remote, live in work.has(self._reflector):
            if remote.write is None or live.metadata.deletion_timestamp is None:
                yield live

    async def _patch(self, work: Work, source: Json, plan: Plan) -> bool:
        """Write a status; False where it is not written (now)."""
        key, meta, now = work.key, source["metadata"], trio.current_time()
        pause = self._waits(key, meta, plan, now)
        if pause is not None:
            work.pauses.append(pause)
            return False
        assert plan.status is not None
        asked = digest(plan.status)
        context, peer = self._context.peer.context, self._context.peer.id
        wanted = self._desired.pop(key, None)
        if wanted is not None:
            # Before the request: where this task is cancelled while it waits for the answer, the
            # status may have been written, and later tasks have to take it back.
            self._context.arbiter.writing(work.subject, peer, wanted)
        try:
            written = await patch_status(context.client, self._reflector.kind, source, plan.status)
        except (Forbidden, Invalid) as error:
            self._refused[key] = (asked, now + writebackoff.UNCHANGED)
            work.pauses.append(writebackoff.UNCHANGED)
            await self._report_refused(source, error)
            return False
        finally:
            self._debounced.pop(key, None)
        self._refused.pop(key, None)
        if written is None:
            work.pauses.append(LOST)
            return False
        self._statuses[key] = work.written = (meta["uid"], written.metadata.resource_version)
        if wanted is not None:
            self._context.arbiter.written(work.subject, peer, wanted)
        self._rate.wrote(key, now)
        contested = self._contest.wrote(key, asked, now)
        if contested is not None:
            await self._report_contested(work, source, contested)
        # Only a list of conditions is written over the very version that was read.
        work.settled &= "conditions" in plan.status
        self._context.publish(work.subject, "status", str(plan.status.get("reason") or ""))
        return True

    def _waits(self, key: Key, meta: Json, plan: Plan, now: float) -> float | None:
        """Seconds for which a status is not to be written; None where it may be now."""
        ready = self._debounced.setdefault(key, now) + plan.debounce
        if ready > now:
            return ready - now
        uid, version = self._statuses.get(key, ("", ""))
        if uid == meta["uid"] and not newer(meta["resourceVersion"], version):
            return STALE  # decided on the object as it was before our last write
        refused, until = self._refused.get(key, ("", 0.0))
        if until > now and refused == digest(plan.status):
            return until - now
        return self._rate.waits(key, now) or self._contest.waits(key, now)

    async def _report_refused(self, source: Json, error: LiqodError) -> None:
        """Report that this cluster refuses the status: it will until one of them changes."""
        meta, kind = source["metadata"], self._reflector.kind
        message = f"the status from {self._context.peer.id} is refused here: {error}"
        extra = {"kind": kind.name, "name": meta["name"], "namespace": meta.get("namespace", "")}
        log.warning("status refused here", extra={"object": extra, "reason": str(error)})
        reason = Reason(STATUS_REFUSED, message)
        await self._event(kind, source, reason)

    async def _report_contested(self, work: Work, source: Json, pause: float) -> None:
        """Report that another writes a different status each time, and that this one stops."""
        peer = self._context.peer
        message = (
            f"somebody else changes the status from {peer.id} as often as it is written;"
            f" the next try is in {pause:.0f} s"
        )
        self._context.publish(work.subject, "refused", message)
        reason = Reason(STATUS_CONTESTED, message)
        await self._event(self._reflector.kind, source, reason)

    async def _event(self, kind: Kind, source: Json, reason: Reason) -> None:
        await write_event(
            self._context.peer.context.client, kind, source, reason, self._context.peer.id
        )

    async def _make(self, work: Work, source: Json, wanted: Iterable[Json]) -> None:
        client, peer = self._context.peer.context.client, self._context.peer.id
        name = self._reflector.name
        arbiter = self._context.arbiter
        others = arbiter.others(work.subject, peer)
        made = [
            owned(each, self._reflector.kind, source, name, peer)
            for each in wanted
            if arbiter.makes(work.subject, peer)
            and (each["kind"], each["metadata"]["name"]) not in others
        ]
        for kind in self._reflector.local:
            store = self._context.store(kind, work.subject.namespace)
            if store is None:
                continue
            mine = [each for each in made if each["kind"] == kind.name]
            for each in mine:
                await make(client, kind, each, source, name, store, self._lately)
            # Objects that another makes from now on are taken over as they are.
            keep = {each["metadata"]["name"] for each in mine}
            keep |= {made_name for made_kind, made_name in others if made_kind == kind.name}
            await sweep(client, kind, source, name, peer, keep, store)

    async def report(self, work: Work, reasons: tuple[Reason, ...]) -> None:
        """Report the reasons that were not reported of the object; no others hold any more."""
        source = work.source
        assert source is not None
        context, uid = self._context, source["metadata"]["uid"]
        known, before = self._reported.get(work.key, ("", frozenset()))
        if not reasons:
            self._reported.pop(work.key, None)
            return
        reasons = tuple(dict.fromkeys(map(_shown, reasons[:MOST_REASONS])))
        for reason in reasons:
            if known == uid and reason in before:
                continue
            await self._event(*self._told_on(reason, source), reason)
            context.publish(work.subject, reason.code, reason.message)
        self._reported[work.key] = (uid, frozenset(reasons))

    def _told_on(self, reason: Reason, source: Json) -> tuple[Kind, Json]:
        """The object that a reason is told on, with its kind: the one at hand or its governor."""
        kind, meta, governor = self._reflector.kind, source["metadata"], self._reflector.governor
        name = (meta.get("labels") or {}).get(governor.label) if governor is not None else None
        if not reason.governor or governor is None or not name:
            return kind, source
        store = self._context.store(governor.kind, meta["namespace"])
        body = None if store is None else store.get((meta["namespace"], name))
        return (kind, source) if body is None else (governor.kind, msgspec.json.decode(body))


def _shown(reason: Reason) -> Reason:
    """A reason as an Event holds it, and as a line of a table does."""
    return Reason(
        clean(reason.code, REASON_BYTES) or "Unknown",
        clean(reason.message, MESSAGE_BYTES),
        reason.expected,
        reason.governor,
    )


async def patch_status(client: Client, kind: Kind, source: Json, status: Json) -> Partial | None:
    """Merge a patch into an object's status; None where it is gone or replaced.

    A list of conditions is written as a whole, with those of others in it: if the object has
    changed since it was read, nothing is written, and its change causes another reconciliation.
    """
    meta = source["metadata"]
    only = {"uid": meta["uid"]}
    if "conditions" in status:
        only["resourceVersion"] = meta["resourceVersion"]
    patch = {"metadata": only, "status": status}
    try:
        return await client.patch(
            kind, meta["name"], patch, meta.get("namespace"), subresource="status"
        )
    except (NotFound, Conflict):
        return None
    except Invalid as error:
        # A wrong UID is refused as the change of a field that cannot change.
        if "metadata.uid" in str(error):
            return None
        raise


async def delete_local(client: Client, kind: Kind, source: Json, *, grace: int | None = 0) -> bool:
    """Delete an object that only waits for its end, or with its own grace (None); False if others
    did."""
    meta = source["metadata"]
    try:
        return await client.delete(
            kind, meta["name"], meta.get("namespace"), uid=meta["uid"], grace=grace
        )
    except Conflict:
        return False


async def write_event(client: Client, kind: Kind, source: Json, reason: Reason, peer: str) -> None:
    """Write an Event on an object: one for each object and reason, however often it is.

    ``related`` names the peer's ForeignCluster, for its readers.

    One that the API server refuses is dropped: its namespace may be going, and an Event there must
    not hold that up.
    """
    meta = msgspec.convert(source, Partial).metadata
    made = recorder.event(
        kind,
        meta,
        reason.code,
        reason.message,
        at=times.now(),
        type=recorder.NORMAL if reason.expected else recorder.WARNING,
        related={
            "apiVersion": FOREIGN_CLUSTERS.api_version,
            "kind": FOREIGN_CLUSTERS.name,
            "name": peer,
        },
    )
    with suppress(PermanentError):
        await client.create(EVENTS, made)
