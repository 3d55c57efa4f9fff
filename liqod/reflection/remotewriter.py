"""Writes the objects of a plan at the peer, with the fewest requests, and removes the rest.

Each object is written by the identity it belongs to. A write that the peer's API server refuses is
kept as a :class:`Refusal` until another try is due, and shown on the local object; one that fails
temporarily (no connection, overload) is raised and tried again. Nothing is removed for the absence
of its local object while that absence is in doubt.
"""

from collections.abc import Iterable

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.consumer.remote import Remote
from liqod.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    PluginError,
    ProtocolError,
    TransientError,
    Unreachable,
)
from liqod.kube import ensure
from liqod.kube.client import Client
from liqod.kube.watched import DOUBT
from liqod.model.crossing import allowedkeys, graces
from liqod.model.crossing.adoption import is_adopted, made_for
from liqod.model.crossing.exclusions import STAYS_HOME, object_stays
from liqod.model.objects.patches import contained
from liqod.plugins.contracts import (
    Json,
    Plan,
    Reason,
    Reflector,
    Refusal,
    RemoteKind,
    Scope,
    Write,
)
from liqod.reflection import ownership, writebackoff
from liqod.reflection.ownership import WriteAction
from liqod.reflection.reflectioncontext import Context, Work
from liqod.reflection.remotecache import RemoteCache
from liqod.reflection.remotedeletion import delete_remote
from liqod.reflection.view import Key
from liqod.reflection.writebackoff import RefusalBackoff

FAILING = 60.0
"""Seconds for which a write that failed counts: longer than a try and the pause before it."""
AGAIN_SOON = 0.2
"""Seconds until the next try where the answer of the watch is due at any moment."""
FOLLOWED = 1.0
"""Seconds after a change of content until its outcome is read: our own write causes no
reconciliation."""

LESSONS = 4
"""Times that one object is tried again because a refusal named keys that can be left out."""
MOST_STRANGE = 256
"""Keys that are remembered as refused, for each kind."""

LEFT_OUT = "LeftOut"
"""Reason for an object that the peer takes without some of its labels or annotations."""
REFUSED = "ReflectionRefused"
"""Reason for an object that the peer refuses."""
FOREIGN = "FailedReflection"
"""Reason (Liqo's) for an object at the peer that has our object's name and is not ours."""

COLLECTORS = ("foregroundDeletion", "orphan")
"""Finalizers that Kubernetes' garbage collector takes off by itself."""


class DesiredObject(msgspec.Struct, frozen=True):
    """One object as it is to be at the peer.

    Attributes:
        remote: how its kind is written.
        body: the object, with the marks of ownership.
    """

    remote: RemoteKind
    body: Json

    @property
    def name(self) -> str:
        """Its name."""
        name: str = self.body["metadata"]["name"]
        return name


class WriteResult(msgspec.Struct, frozen=True):
    """The result of writing one object.

    Attributes:
        done: the step that was taken; KEEP where nothing was written.
        refusal: the refusal by the peer's API server, if any.
        reason: the reason that it is not as wanted, where no request was sent.
        again: seconds until it is to be reconciled again, where no change will cause that.
    """

    done: WriteAction = WriteAction.KEEP
    refusal: Refusal | None = None
    reason: Reason | None = None
    again: float | None = None


UNCHANGED = WriteResult()
"""The object is as wanted."""


class RemoteWriter:
    """Writes the objects of one reflector at one peer."""

    def __init__(self, reflector: Reflector, context: Context) -> None:
        self._reflector = reflector
        self._context = context
        self._declared = {
            (each.kind.api_version, each.kind.name): each for each in reflector.written
        }
        self._refused: dict[Key, RefusalBackoff] = {}
        self._failing: dict[Key, tuple[float, str]] = {}
        self._strange: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        """Keys of labels and of annotations that the peer takes from no guest, by kind."""

    @property
    def problem(self) -> str | None:
        """The reason why the peer's API server refused some objects lately; None normally."""
        oldest = trio.current_time() - FAILING
        self._failing = {key: each for key, each in self._failing.items() if each[0] > oldest}
        return next((reason for _, reason in self._failing.values()), None)

    def refusals(self, key: Key) -> tuple[Refusal, ...]:
        """The refusals of the last writes for an object, where they are to be shown."""
        refused = self._refused.get(key)
        return () if refused is None else refused.shown

    @property
    def remembered(self) -> set[Key]:
        """The objects of which a record is kept."""
        return {*self._refused, *self._failing}

    def forget(self, key: Key) -> None:
        """Drop the records of an object that is gone, with nothing left of it."""
        self._refused.pop(key, None)
        self._failing.pop(key, None)

    def check_link(self) -> None:
        """Raise Unreachable while the peer's API server does not answer."""
        link = self._context.peer.link
        if not link.up:
            raise Unreachable(f"the peer cannot be reached: {link.reason}")

    async def carry_out(self, work: Work, plan: Plan) -> bool:
        """Write the wanted objects, remove the others; True if the reflector is to be called again.

        Raises:
            TransientError: the peer cannot be reached now.
            PluginError: an object is wanted of a kind that the reflector does not declare.
        """
        try:
            again = await self._carry_out(work, plan)
        except (TransientError, ProtocolError) as error:
            self._failing[work.key] = (trio.current_time(), str(error))
            raise
        self._failing.pop(work.key, None)
        return again

    async def _carry_out(self, work: Work, plan: Plan) -> bool:
        key = work.key
        wanted = self._desired(work, plan)
        # Removals first: they may free a quota, or a name, that a new object needs.
        await self._remove(work, wanted)
        if not wanted:
            return self._refused.pop(key, None) is not None
        before = self._refused.get(key)
        if before is not None:
            pause = before.waits(_digest(wanted), trio.current_time())
            if pause is not None:
                work.pauses.append(pause)
                work.reasons += self._shown(before)
                return False
        outcomes = [await self._bring(work, each) for each in wanted]
        refusals = tuple(each.refusal for each in outcomes if each.refusal is not None)
        for _ in range(LESSONS):
            if not refusals or not self._learns(refusals):
                break
            wanted = self._desired(work, plan)
            outcomes = [await self._bring(work, each) for each in wanted]
            refusals = tuple(each.refusal for each in outcomes if each.refusal is not None)
        work.reasons += [each.reason for each in outcomes if each.reason is not None]
        work.pauses += [each.again for each in outcomes if each.again is not None]
        work.settled &= all(each == UNCHANGED for each in outcomes)
        if not refusals:
            assert work.mapped is not None
            # What a control plane makes in each namespace says nothing of the other objects there.
            if key[1] not in self._reflector.always:
                work.mapped.met.add(self._reflector.name)
            return self._refused.pop(key, None) is not None
        after = writebackoff.refused(before, refusals, _digest(wanted), trio.current_time())
        self._refused[key] = after
        work.pauses.append(after.due - trio.current_time())
        self._context.publish(work.subject, "refused", refusals[0].message)
        work.reasons += self._shown(after)
        return bool(after.shown)

    # The wanted objects, as they are to be written

    def _desired(self, work: Work, plan: Plan) -> list[DesiredObject]:
        """The objects of a plan that may leave this cluster, with the marks of ownership."""
        source = work.source
        leaving: list[Json] = []
        for each in plan.remote:
            stays = object_stays(each["kind"], each)
            if stays:
                work.reasons.append(Reason(STAYS_HOME, f"it does not leave this cluster: {stays}"))
            else:
                leaving.append(each)
        if source is None or not leaving:
            return []
        creator = ""
        if self._reflector.scope is Scope.NODE:
            creator = self._writer(work, source["spec"].get("nodeName")).user
        wanted = []
        for each in leaving:
            remote = self._declared.get((each["apiVersion"], each["kind"]))
            if remote is None:
                what = f"{self._reflector.name} does not declare that it writes {each['kind']}"
                raise PluginError(what)
            body = ownership.decorate(
                self._without_strange(work, each),
                reflector=self._reflector,
                remote=remote,
                source=source,
                names=work.names,
                creator=creator,
            )
            wanted.append(DesiredObject(remote, body))
        return wanted

    def _learns(self, refusals: Iterable[Refusal]) -> bool:
        """True if a refusal names further keys that the peer takes from none, to be left out."""
        learned = False
        for each in refusals:
            labelled, annotated = allowedkeys.refused(each.message)
            known = self._strange.get(each.kind.name, (frozenset(), frozenset()))
            after = (known[0] | labelled, known[1] | annotated)
            learned |= after != known
            if max(map(len, after)) <= MOST_STRANGE:
                self._strange[each.kind.name] = after
        return learned

    def _without_strange(self, work: Work, wanted: Json) -> Json:
        """A wanted object without the keys that the peer has refused, with a reason added."""
        strange = self._strange.get(wanted["kind"])
        if strange is None:
            return wanted
        meta = dict(wanted["metadata"])
        for field, refused in zip(("labels", "annotations"), strange, strict=True):
            names = sorted(refused & (meta.get(field) or {}).keys())
            if names:
                meta[field] = {k: v for k, v in meta[field].items() if k not in names}
                message = f"{self._context.peer.id} takes no {field} {', '.join(names)}: left out"
                work.reasons.append(Reason(LEFT_OUT, message[:1024]))
        return {**wanted, "metadata": meta}

    def _shown(self, refused: RefusalBackoff) -> list[Reason]:
        """Refusals as reasons; pods show theirs in their status."""
        if self._reflector.scope is Scope.NODE:
            return []
        peer = self._context.peer.id
        return [
            Reason(REFUSED, f"{each.kind.name} refused by {peer}: {each.message}")
            for each in refused.shown
        ]

    # One object

    async def _bring(self, work: Work, wanted: DesiredObject) -> WriteResult:
        """Make one object at the peer be as wanted."""
        mapped, remote, name = work.mapped, wanted.remote, wanted.name
        assert mapped is not None
        client = self._writer(work, wanted.body["metadata"]["labels"].get(labels.NODE_NAME)).client
        self.check_link()
        cache = mapped.caches[remote.kind]
        if not cache.ready_for(work.origin):
            return WriteResult(WriteAction.WAIT)
        live = cache.find(name)
        if live is not None:
            source = cache.source(name)
            if source not in (None, work.origin):
                return self._taken(remote, name, self._made_from(source))
            wanted = DesiredObject(remote, ownership.as_made(wanted.body, live, remote))
        known = cache.settled(name)
        stands = live is None or _made_for(work, live)
        step = ownership.judge(wanted.body, live, remote, known, stands=stands)
        try:
            if step is WriteAction.CREATE:
                outcome = await self._create(work, wanted, cache, client)
            elif live is None or step in (WriteAction.KEEP, WriteAction.WAIT):
                return WriteResult(step, reason=_deletion_blocker(remote, live))
            elif step is WriteAction.REMOVE:
                await delete_remote(remote, live, cache, self._owner(work, live).client)
                outcome = WriteResult(WriteAction.REMOVE)
            else:
                outcome = await self._update(work, wanted, live, step, cache, client)
        except Forbidden as error:
            return WriteResult(refusal=Refusal(403, str(error), remote.kind, True))
        except Invalid as error:
            return WriteResult(refusal=Refusal(422, str(error), remote.kind, False))
        except Conflict:
            return WriteResult(again=AGAIN_SOON)
        if outcome.done is not WriteAction.KEEP:
            self._context.publish(work.subject, outcome.done.value, kind=remote.kind.name)
        return outcome

    def _made_from(self, source: tuple[str, str]) -> str:
        """The text that names the other object here that one there was made from, and the cure."""
        found = self._context.reflectors.get(source[0])
        kind = "object" if found is None else found.kind.name
        return f"it was made from the {kind} {source[1]} here: one of the two needs another name"

    async def _create(
        self, work: Work, wanted: DesiredObject, cache: RemoteCache, client: Client
    ) -> WriteResult:
        remote, name = wanted.remote, wanted.name
        kind, namespace = remote.kind, cache.namespace
        body = ownership.stamped(wanted.body, remote)
        try:
            if remote.write is Write.APPLY:
                # An apply would take over others' objects, and the watch shows ours only: read.
                found = await client.find(kind, name, namespace, decode=Partial)
                if found is not None:
                    return self._existing(found, wanted)
                written = await client.apply(
                    kind, body, namespace, manager=labels.REFLECTION_MANAGER
                )
            else:
                written = await client.create(kind, body, namespace)
        except AlreadyExists:
            found = await client.find(kind, name, namespace, decode=Partial)
            return WriteResult(again=AGAIN_SOON) if found is None else self._existing(found, wanted)
        # No checkpoint since the answer: the cache has the write before anything reads again.
        return _written(work, cache, written, WriteAction.CREATE)

    async def _update(
        self,
        work: Work,
        wanted: DesiredObject,
        live: Partial,
        step: WriteAction,
        cache: RemoteCache,
        client: Client,
    ) -> WriteResult:
        remote = wanted.remote
        if remote.write is Write.ONCE:
            return await self._restore(work, wanted, live, cache, client)
        if remote.write is Write.APPLY and step is WriteAction.UPDATE:
            return await self._apply(work, wanted, live, cache, client)
        whole = await client.find(remote.kind, wanted.name, cache.namespace)
        if whole is None:
            return WriteResult(again=AGAIN_SOON)
        read = msgspec.convert(whole, Partial)
        if remote.write is Write.APPLY:
            if contained(wanted.body, whole):
                cache.settle(read)
                return UNCHANGED
            return await self._apply(work, wanted, live, cache, client)
        written = await ensure.ensure(
            client,
            remote.kind,
            wanted.body,
            live=msgspec.json.encode(whole),
            namespace=cache.namespace,
            recreate=True,
        )
        if written.partial is None:
            cache.settle(read)
            return UNCHANGED
        return _written(work, cache, written.partial, WriteAction.UPDATE)

    async def _restore(
        self, work: Work, wanted: DesiredObject, live: Partial, cache: RemoteCache, client: Client
    ) -> WriteResult:
        """Update labels and annotations of an object written once; its content, where that follows,
        or others edited it.

        An adopted object keeps its content, but for the fields that follow.
        """
        remote, name, namespace = wanted.remote, wanted.name, cache.namespace
        content: Json = {}
        edited = ownership.edited(live, remote, cache.settled(name))
        edited &= not is_adopted(live.metadata.annotations)
        if edited or ownership.changed(wanted.body, live, remote):
            whole = await client.find(remote.kind, name, namespace)
            if whole is None:
                return WriteResult(again=AGAIN_SOON)
            live = msgspec.convert(whole, Partial)
            if edited:
                content = ownership.restored(wanted.body, whole)
            else:
                content = ownership.followed(wanted.body, whole, remote)
        patch = ownership.relabel(wanted.body, live, remote)
        if content:
            meta = {**content.get("metadata", {}), **patch.get("metadata", {})}
            patch = content | ({"metadata": meta} if meta else {})
        if not patch:
            cache.settle(live)
            return UNCHANGED
        try:
            written = await client.patch(remote.kind, name, patch, namespace)
        except (Forbidden, Invalid):
            alone = ownership.relabel(wanted.body, live, remote, alone=True) if content else {}
            if alone:
                written = await client.patch(remote.kind, name, alone, namespace)
                cache.wrote(work.origin, written)
            raise
        outcome = _written(work, cache, written, WriteAction.UPDATE)
        if content and outcome.again is None:
            outcome = msgspec.structs.replace(outcome, again=FOLLOWED)
        return outcome

    async def _apply(
        self, work: Work, wanted: DesiredObject, live: Partial, cache: RemoteCache, client: Client
    ) -> WriteResult:
        kind, name, namespace = wanted.remote.kind, wanted.name, cache.namespace
        body = ownership.stamped(wanted.body, wanted.remote)
        try:
            written = await client.apply(kind, body, namespace, manager=labels.REFLECTION_MANAGER)
        except Invalid:
            # Values that others put into a list of ours may not go together with it, or a changed
            # field cannot change: the content is replaced, or else the whole object.
            content = {key: value for key, value in wanted.body.items() if key != "metadata"}
            try:
                await client.patch(kind, name, content, namespace)
            except Invalid:
                await ensure.make_room(client, kind, body, live.metadata.uid, namespace)
            written = await client.apply(kind, body, namespace, manager=labels.REFLECTION_MANAGER)
        return _written(work, cache, written, WriteAction.UPDATE)

    # Unwanted objects

    async def _remove(self, work: Work, wanted: Iterable[DesiredObject]) -> None:
        """Remove the object's unwanted objects at the peer, once that is sure."""
        mapped = work.mapped
        assert mapped is not None
        keep = {(each.remote.kind, each.name) for each in wanted}
        found = work.has(self._reflector)
        surplus = [
            (remote, live)
            for remote, live in found
            if remote.write is not None
            and (remote.kind, live.metadata.name) not in keep
            and live.metadata.deletion_timestamp is None
        ]
        kept = [(remote, live) for remote, live in surplus if mapped.serves(live.metadata)]
        if kept:
            work.pauses.append(self._context.timings.serving)
            surplus = [each for each in surplus if each not in kept]
        if not surplus:
            return
        doubt = None if work.source is not None else self._doubt(work)
        if doubt is None:
            self.check_link()
            if await self._lives(work, [live for _, live in surplus]):
                doubt = "it is there after all"
        if doubt is not None:
            self._context.publish(work.subject, "waiting", doubt)
            work.pauses.append(DOUBT)
            return
        ended = work.source if self._reflector.scope is Scope.NODE else None
        grace = None if ended is None else graces.requested_grace(ended)
        for remote, live in surplus:
            client = self._owner(work, live).client
            if await delete_remote(remote, live, mapped.caches[remote.kind], client, grace):
                self._context.publish(work.subject, "remove", kind=remote.kind.name)

    async def _lives(self, work: Work, surplus: Iterable[Partial]) -> bool:
        """True if a running one there was made for an object that the store lacks: a list may lie.

        Objects that hold no work are made again, so no request is made about those.
        """
        if work.source is not None or self._reflector.scope is not Scope.NODE:
            return False
        client, kind = self._context.peer.context.client, self._reflector.kind
        namespace, name = work.key
        local = await client.find(kind, name, namespace, decode=Partial)
        if local is None:
            return False
        uids = {live.metadata.annotations.get(labels.LOCAL_UID) for live in surplus}
        return not uids.isdisjoint((local.metadata.uid, None))

    def _doubt(self, work: Work) -> str | None:
        """The reason why the absence of the local object is in doubt; None normally."""
        mapped, reflector = work.mapped, self._reflector
        assert mapped is not None
        informer = self._context.local(reflector, mapped)
        doubt = mapped.suspect(reflector)
        if doubt is None and informer is not None:
            doubt = informer.suspect or mapped.suspiciously_empty(reflector, informer.store)
        return doubt

    def _existing(self, found: Partial, wanted: DesiredObject) -> WriteResult:
        """The outcome for an object that the watch has not shown: ours, or another's."""
        own = wanted.body["metadata"]["labels"]
        if ownership.ours(found.metadata.labels, own[labels.ORIGIN], own[labels.DESTINATION]):
            return WriteResult(again=AGAIN_SOON)
        return self._taken(
            wanted.remote, found.metadata.name, "it is not a reflection of this cluster"
        )

    def _taken(self, remote: RemoteKind, name: str, why: str) -> WriteResult:
        text = f"{remote.kind.name} {name} exists at the peer and is left alone: {why}"
        return WriteResult(reason=Reason(FOREIGN, text), again=self._context.timings.free_again)

    # Identities

    def _owner(self, work: Work, live: Partial) -> Remote:
        """The identity that wrote an object at the peer, and so removes it."""
        return self._writer(work, live.metadata.labels.get(labels.NODE_NAME))

    def _writer(self, work: Work, node: str | None) -> Remote:
        """The identity that writes at the peer: for objects on nodes that of the node's slice."""
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


def _written(work: Work, cache: RemoteCache, written: Partial, step: WriteAction) -> WriteResult:
    """The outcome of a write, by its answer; not settled where the object has gone."""
    if cache.wrote(work.origin, written):
        return WriteResult(step)
    return WriteResult(again=AGAIN_SOON)


def _deletion_blocker(remote: RemoteKind, live: Partial | None) -> Reason | None:
    """The reason that an object is kept while it is being deleted: its finalizers, if any."""
    if live is None or live.metadata.deletion_timestamp is None:
        return None
    others = [each for each in live.metadata.finalizers if each not in COLLECTORS]
    if not others:
        return None
    what, names = f"{remote.kind.name} {live.metadata.name}", ", ".join(others)
    text = f"{what} at the peer is being deleted and still held by its finalizers: {names}"
    return Reason(FOREIGN, text)


def _digest(wanted: Iterable[DesiredObject]) -> str:
    """A digest of the wanted objects, to detect that the same is requested again."""
    return "/".join(ownership.hash_of(each.body, each.remote) for each in wanted)


def _made_for(work: Work, live: Partial) -> bool:
    """True if the peer's object was made for the local object that is being reconciled."""
    assert work.source is not None
    meta = live.metadata
    return made_for(work.source, meta.annotations, meta.creation_timestamp)
