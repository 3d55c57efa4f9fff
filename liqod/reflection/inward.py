"""The way in: what comes of a plan in this cluster, for the local object itself.

Status, objects made here, reasons told as Events, and the end of an object that only waits for it.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import msgspec
import trio

from liqod.errors import Forbidden, Invalid, LiqodError
from liqod.kube.meta import Partial, newer
from liqod.model.objects.patches import digest
from liqod.plugins.contracts import NOTHING, Json, Plan, Reason, Reflector, Scope
from liqod.reflection import here, troubles
from liqod.reflection.contest import Contest
from liqod.reflection.context import Context, Version, Work, bare, publish
from liqod.reflection.measure import Measure
from liqod.reflection.view import Key, Subject
from liqod.reflection.voices import Said

log = logging.getLogger(__name__)

STATUS_REFUSED = "StatusRefused"
"""Reason for a status that this cluster's own API server does not take."""

STATUS_CONTESTED = "StatusContested"
"""Reason for a status that somebody else changes as often as it is written."""

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
        self._wanted: dict[Key, Json] = {}
        self._contest = Contest()
        self._measure = Measure()
        self._gauge = context.peer.home.gauge("reflector", reflector.name)

    @property
    def remembered(self) -> set[Key]:
        """The objects of which something is known here."""
        return {*self._patient, *self._statuses, *self._refused, *self._told}

    def told(self) -> Iterator[tuple[Key, frozenset[Reason]]]:
        """The reasons that objects were given, and that still hold."""
        for key, (_, reasons) in self._told.items():
            yield key, reasons

    def gone(self, key: Key) -> None:
        """The object is gone: there is nothing to take back of what was said of it."""
        peer = self._context.peer
        peer.home.voices.forget(Subject(self._reflector.name, *key), peer.id)

    def forget(self, key: Key) -> None:
        """The object is gone, or not this session's any more."""
        self._wanted.pop(key, None)
        self._contest.forget(key)
        self._measure.forget(key)
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
        work.settled &= not (reasons or self._reflector.local)
        said = outgoing if outgoing.status is not None else incoming
        made = (*outgoing.local, *incoming.local)
        status = self._agreed(work, source, said, made)
        if status.status:
            await self._patch(work, source, status)
        else:
            self._patient.pop(work.key, None)
        if self._reflector.local:
            await self._make(work, source, made)
        if outgoing.delete_local or incoming.delete_local:
            abandon = outgoing.orphan_remote or incoming.orphan_remote
            left = [] if abandon else list(self._left(work))
            if not left and (abandon or work.session is not None):
                home = self._context.peer.home
                if await here.finish(home.client, self._reflector.kind, source):
                    publish(self._context, work, "finish")

    def _agreed(self, work: Work, source: Json, said: Plan, made: Iterable[Json]) -> Plan:
        """What this engine is to write of the status, where other peers may have a say, too."""
        reflector, voices = self._reflector, self._context.peer.home.voices
        if reflector.scope is Scope.NODE:
            return said
        subject, peer = work.subject, self._context.peer.id
        names = frozenset((each["kind"], each["metadata"]["name"]) for each in made)
        voice = Said(said.status or None, names)
        if not voice.anything and not voices.knows(subject, peer):
            return NOTHING
        again, uid = partial(self._context.ask_again, subject), source["metadata"]["uid"]
        voices.say(reflector, subject, uid, peer, voice, again)
        wanted = voices.wanted(subject, peer, partial(self._combine, source))
        if wanted is None:
            return NOTHING
        patch = voices.patch(subject, peer, wanted, source.get("status") or {})
        if not patch:
            voices.written(subject, peer, wanted)
            return NOTHING
        self._wanted[work.key] = wanted
        return msgspec.structs.replace(said, status=patch)

    def _combine(self, source: Json, statuses: Mapping[str, Json]) -> Json:
        """The one status that the reflector makes of what several peers say."""
        combine = self._reflector.combine
        assert combine is not None
        return self._gauge.ask(combine, bare(source), statuses)

    def _left(self, work: Work) -> Iterable[Partial]:
        """What an end waits for: not for what is going and only held by somebody's finalizer."""
        for there, live in work.has(self._reflector):
            if there.write is None or live.metadata.deletion_timestamp is None:
                yield live

    async def _patch(self, work: Work, source: Json, plan: Plan) -> None:
        key = work.key
        now = trio.current_time()
        ready = self._patient.setdefault(key, now) + plan.debounce
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
        if (soon := self._measure.waits(key, now)) > 0:
            work.pauses.append(soon)
            return
        contested = self._contest.waits(key, now)
        if contested is not None:
            work.pauses.append(contested)
            return
        home = self._context.peer.home
        client = home.client
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
            if (wanted := self._wanted.pop(key, None)) is not None:
                home.voices.written(work.subject, self._context.peer.id, wanted)
            self._measure.wrote(key, now)
            pause = self._contest.wrote(key, asked, now)
            if pause is not None:
                await self._tell_contested(work, source, pause)
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

    async def _tell_contested(self, work: Work, source: Json, pause: float) -> None:
        """Say that somebody else writes another status each time, and that this one stops."""
        peer = self._context.peer
        message = (
            f"somebody else changes the status from {peer.id} as often as it is written;"
            f" the next try is in {pause:.0f} s"
        )
        publish(self._context, work, "refused", message)
        reason = Reason(STATUS_CONTESTED, message)
        await here.tell(peer.home.client, self._reflector.kind, source, reason, self._context.now())

    async def _make(self, work: Work, source: Json, wanted: Iterable[Json]) -> None:
        client, peer = self._context.peer.home.client, self._context.peer.id
        name = self._reflector.name
        voices = self._context.peer.home.voices
        others = voices.others(work.subject, peer)
        made = [
            here.owned(each, self._reflector.kind, source, name, peer)
            for each in wanted
            if voices.makes(work.subject, peer)
            and (each["kind"], each["metadata"]["name"]) not in others
        ]
        for kind in self._reflector.local:
            store = self._context.store(kind, work.subject.namespace)
            if store is None:
                continue
            mine = [each for each in made if each["kind"] == kind.name]
            for each in mine:
                await here.make(client, kind, each, source, name, store)
            # What another one makes from now on it takes over as it is.
            keep = {each["metadata"]["name"] for each in mine}
            keep |= {made_name for made_kind, made_name in others if made_kind == kind.name}
            await here.sweep(client, kind, source, name, peer, keep, store)

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
