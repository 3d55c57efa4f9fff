"""The way out: brings at the peer what a plan wants there, and removes what it does not.

Each object is written by the identity it belongs to; a refusal is kept until another try is due
(:mod:`liqod.reflection.troubles`); nothing is removed for the absence of its local object while
that absence is in doubt.
"""

from collections.abc import Iterable

import trio

from liqod.consumer.remote import Remote
from liqod.errors import ProtocolError, TransientError, Unreachable
from liqod.kube.meta import Partial
from liqod.model import labels
from liqod.model.crossing import keys, partings
from liqod.model.crossing.adoption import stands_for
from liqod.model.crossing.crossing import STAYS_HOME, object_stays
from liqod.plugins.contracts import Json, Plan, Reason, Reflector, Refusal, Scope
from liqod.reflection import marks, remote, steps, troubles
from liqod.reflection.context import DOUBT, Context, Work, publish
from liqod.reflection.remote import UNCHANGED, Outcome
from liqod.reflection.steps import Step
from liqod.reflection.troubles import Trouble
from liqod.reflection.view import Key

FAILING = 60.0
"""Seconds for which a write that failed counts: longer than a try and the pause before it."""

SERVING = 60.0
"""Seconds between looks whether a pod still needs what Liqo made for it."""

LESSONS = 4
"""How often one object is tried again because a refusal named keys that can be left out."""
MOST_STRANGE = 256
"""Keys that are remembered as refused, for each kind."""
LEFT_OUT = "LeftOut"
"""Reason for an object that the peer takes without some of its labels or annotations."""
REFUSED = "ReflectionRefused"
"""Reason for an object that the peer does not take."""


class Outward:
    """What one reflector writes at one peer."""

    def __init__(self, reflector: Reflector, context: Context) -> None:
        self._reflector = reflector
        self._context = context
        self._troubles: dict[Key, Trouble] = {}
        self._failing: dict[Key, tuple[float, str]] = {}
        self._strange: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        """Keys of labels and of annotations that the peer takes of no guest, by kind."""

    @property
    def problem(self) -> str | None:
        """Why the peer's API server took the last writes of some objects not; None normally."""
        oldest = trio.current_time() - FAILING
        self._failing = {key: each for key, each in self._failing.items() if each[0] > oldest}
        return next((reason for _, reason in self._failing.values()), None)

    def refusals(self, key: Key) -> tuple[Refusal, ...]:
        """Why the last writes for an object failed, where that is to be shown."""
        trouble = self._troubles.get(key)
        return () if trouble is None else trouble.shown

    @property
    def remembered(self) -> set[Key]:
        """The objects of which something is known here."""
        return {*self._troubles, *self._failing}

    def forget(self, key: Key) -> None:
        """The object is gone, and nothing of it is left."""
        self._troubles.pop(key, None)
        self._failing.pop(key, None)

    def check_link(self) -> None:
        """Raise Unreachable while the peer's API server does not answer."""
        link = self._context.peer.link
        if not link.up:
            raise Unreachable(f"the peer cannot be reached: {link.reason}")

    async def carry_out(self, work: Work, plan: Plan) -> bool:
        """Bring what is wanted, remove what is not; whether the reflector is to be asked again."""
        try:
            again = await self._carry_out(work, plan)
        except (TransientError, ProtocolError) as error:
            self._failing[work.key] = (trio.current_time(), str(error))
            raise
        self._failing.pop(work.key, None)
        return again

    async def _carry_out(self, work: Work, plan: Plan) -> bool:
        key = work.key
        wanted = self._decorated(work, plan.remote)
        await self._remove(work, wanted)
        if not wanted:
            return self._troubles.pop(key, None) is not None
        trouble = self._troubles.get(key)
        if trouble is not None:
            pause = troubles.waits(trouble, self._digest(wanted), trio.current_time())
            if pause is not None:
                work.pauses.append(pause)
                work.reasons += self._shown(trouble)
                return False
        outcomes = [await self._bring(work, each) for each in wanted]
        refusals = tuple(each.refusal for each in outcomes if each.refusal is not None)
        for _ in range(LESSONS):
            if not self._learns(refusals):
                break
            wanted = self._decorated(work, plan.remote)
            outcomes = [await self._bring(work, each) for each in wanted]
            refusals = tuple(each.refusal for each in outcomes if each.refusal is not None)
        work.reasons += [each.reason for each in outcomes if each.reason is not None]
        work.pauses += [each.again for each in outcomes if each.again is not None]
        work.settled &= all(each == UNCHANGED for each in outcomes)
        if not refusals:
            return self._troubles.pop(key, None) is not None
        after = troubles.after(trouble, refusals, self._digest(wanted), trio.current_time())
        self._troubles[key] = after
        work.pauses.append(after.due - trio.current_time())
        publish(self._context, work, "refused", refusals[0].message)
        work.reasons += self._shown(after)
        return bool(after.shown)

    def _learns(self, refusals: Iterable[Refusal]) -> bool:
        """Whether a refusal names keys that the peer takes from nobody: they are left out then."""
        learned = False
        for each in refusals:
            marks, notes = keys.refused(each.message)
            known = self._strange.get(each.kind.name, (frozenset(), frozenset()))
            after = (known[0] | marks, known[1] | notes)
            learned |= after != known
            if max(map(len, after)) <= MOST_STRANGE:
                self._strange[each.kind.name] = after
        return learned

    def _taken(self, work: Work, wanted: Json) -> Json:
        """A wanted object without the keys that the peer has refused, which is said."""
        marks, notes = self._strange.get(wanted["kind"], (frozenset(), frozenset()))
        meta = dict(wanted["metadata"])
        left = {
            field: sorted(refused & (meta.get(field) or {}).keys())
            for field, refused in (("labels", marks), ("annotations", notes))
        }
        for field, names in left.items():
            if names:
                meta[field] = {k: v for k, v in meta[field].items() if k not in names}
                message = f"{self._context.peer.id} takes no {field} {', '.join(names)}: left out"
                work.reasons.append(Reason(LEFT_OUT, message[:1024]))
        return {**wanted, "metadata": meta}

    def _digest(self, wanted: Iterable[Json]) -> str:
        """What tells whether the peer is asked for the same again."""
        reflector = self._reflector
        return "/".join(steps.hash_of(each, remote.declared(each, reflector)) for each in wanted)

    def _shown(self, trouble: Trouble | None) -> list[Reason]:
        """Refusals as reasons, for objects that have no status to show them in."""
        if trouble is None or self._reflector.incoming is not None:
            return []
        peer = self._context.peer.id
        return [
            Reason(REFUSED, f"{each.kind.name} refused by {peer}: {each.message}")
            for each in trouble.shown
        ]

    def _decorated(self, work: Work, there: Iterable[Json]) -> list[Json]:
        source = work.source
        wanted: list[Json] = []
        for each in there:
            stays = object_stays(each["kind"], each)
            if stays:
                work.reasons.append(Reason(STAYS_HOME, f"it does not leave this cluster: {stays}"))
            else:
                wanted.append(each)
        if source is None or not wanted:
            return []
        creator = ""
        if self._reflector.scope is Scope.NODE:
            creator = self._writer(work, source["spec"].get("nodeName")).user
        return [
            marks.decorate(
                self._taken(work, each),
                reflector=self._reflector,
                there=remote.declared(each, self._reflector),
                source=source,
                names=work.names,
                creator=creator,
            )
            for each in wanted
        ]

    async def _bring(self, work: Work, wanted: Json) -> Outcome:
        session = work.session
        assert session is not None
        writer = self._writer(work, wanted["metadata"]["labels"].get(labels.NODE_NAME))
        kind = remote.declared(wanted, self._reflector).kind
        self.check_link()
        outcome = await remote.bring(
            wanted,
            self._reflector,
            session.observed[kind],
            writer.client,
            work.origin,
            lambda live: self._owner(work, live).client,
            lambda live: _stands(work, live),
        )
        if outcome.done in (Step.CREATE, Step.UPDATE, Step.REMOVE):
            publish(self._context, work, outcome.done.value, kind=kind.name)
        return outcome

    async def _remove(self, work: Work, wanted: list[Json]) -> None:
        """Remove what the object has there and does not want, once that can be believed."""
        session = work.session
        assert session is not None
        keep = {(each["kind"], each["metadata"]["name"]) for each in wanted}
        surplus = [
            (there, live)
            for there, live in work.has(self._reflector)
            if there.write is not None
            and (there.kind.name, live.metadata.name) not in keep
            and live.metadata.deletion_timestamp is None
        ]
        kept = [(there, live) for there, live in surplus if session.serves(live.metadata)]
        if kept:
            work.pauses.append(SERVING)
            surplus = [each for each in surplus if each not in kept]
        if not surplus:
            return
        doubt = None if work.source is not None else self._doubt(work)
        if doubt is not None:
            publish(self._context, work, "waiting", doubt)
            work.pauses.append(DOUBT)
            return
        self.check_link()
        if await self._lives(work, [live for _, live in surplus]):
            publish(self._context, work, "waiting", "it is there after all")
            work.pauses.append(DOUBT)
            return
        ended = work.source if self._reflector.scope is Scope.NODE else None
        grace = None if ended is None else partings.asked(ended)
        for there, live in surplus:
            client = self._owner(work, live).client
            if await remote.remove(there, live, session.observed[there.kind], client, grace):
                publish(self._context, work, "remove", kind=there.kind.name)

    async def _lives(self, work: Work, surplus: Iterable[Partial]) -> bool:
        """Whether what runs there stands for an object that the store lacks: a list may lie.

        Objects that hold no work are made again, so nobody is asked about those.
        """
        if work.source is not None or self._reflector.scope is not Scope.NODE:
            return False
        client, kind = self._context.peer.home.client, self._reflector.kind
        namespace, name = work.key
        local = await client.find(kind, name, namespace, decode=Partial)
        if local is None:
            return False
        uids = {live.metadata.annotations.get(labels.LOCAL_UID) for live in surplus}
        return not uids.isdisjoint((local.metadata.uid, None))

    def _owner(self, work: Work, live: Partial) -> Remote:
        """Who wrote an object that is there, and so removes it."""
        return self._writer(work, live.metadata.labels.get(labels.NODE_NAME))

    def _writer(self, work: Work, node: str | None) -> Remote:
        """Who writes there: for objects on nodes the identity of the node's slice."""
        remotes = self._context.remotes
        known = work.names.nodes.get(node or "")
        if self._reflector.scope is Scope.NODE and known is not None:
            found = remotes.slice(known.slice)
            if found is None:
                raise Unreachable(f"there is no identity of the slice {known.slice} yet")
            return found
        found = remotes.any_slice()
        if found is None:
            raise Unreachable("there is no identity of any slice")
        return found

    def _doubt(self, work: Work) -> str | None:
        """Why the absence of the local object must not be believed yet; None normally."""
        session, reflector = work.session, self._reflector
        assert session is not None
        on_nodes = reflector.scope is Scope.NODE
        informer = (
            self._context.placed(reflector.kind)
            if on_nodes
            else session.local(reflector.kind, reflector.selector)
        )
        doubt = session.suspect(reflector)
        if doubt is None and informer is not None:
            doubt = informer.suspect or session.farewell(reflector, informer.store)
        return doubt


def _stands(work: Work, live: Partial) -> bool:
    """Whether what is there was made for the object of this turn."""
    assert work.source is not None
    meta = live.metadata
    return stands_for(work.source, meta.annotations, meta.creation_timestamp)
