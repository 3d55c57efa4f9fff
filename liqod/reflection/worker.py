"""One reflector at one peer: takes a key, decides with the reflector, has it carried out.

Level-triggered: a key only means "reconcile this object". The present state is read from the
stores, the reflector's functions give the wanted state, and the difference is written
(:mod:`liqod.reflection.remotewriter` at the peer, :mod:`liqod.reflection.statuswriter` locally).
"""

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext, suppress
from typing import NamedTuple, NoReturn, ParamSpec

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.errors import LiqodError, PluginError, TransientError
from liqod.kube import times
from liqod.kube.cache.nodeindex import node_index
from liqod.kube.queue import KeyedQueue
from liqod.kube.watched import DOUBT
from liqod.model.crossing.adoption import made_for
from liqod.model.crossing.exclusions import STAYS_HOME, object_stays
from liqod.model.view.daemonfacts import PLUGIN_FAILS
from liqod.plugins.callguard import FAILING
from liqod.plugins.contracts import (
    NOTHING,
    Absence,
    Json,
    Plan,
    Policy,
    Reason,
    Reflector,
    RemoteObject,
    Scope,
    Watch,
)
from liqod.plugins.validation import bool_problem, plan_problem, seconds_problem
from liqod.reflection import topology
from liqod.reflection.overrides import NOT_APPLIED, Overriding
from liqod.reflection.reflectioncontext import Context, State, Version, Work, bare, version_of
from liqod.reflection.remotecache import Stamps
from liqod.reflection.remotewriter import RemoteWriter
from liqod.reflection.statuswriter import StatusWriter
from liqod.reflection.view import Key, LiveView, ReflectedObject, fulfil
from liqod.runtime.backoff import Backoff

P = ParamSpec("P")

PAUSES = Backoff(first=0.05, last=10.0)
"""Between tries at one object: a peer that has recovered is to be used soon."""
BORNE = 8
"""Calls in a row that may fail for an object before it pauses: that one alone, so that a bad object
stops no good one. A change of its state has it tried at once."""
REST = 300.0
"""Seconds of that pause."""
SOONEST = 1.0
"""Seconds after which a reflector of others is called again, at the soonest, on its own request."""
ROUNDS = 4
"""Times that a reflector is called again within one turn because a need was fulfilled."""


log = logging.getLogger(__name__)


class _Settled(NamedTuple):
    """The state that an object was last decided by, our own write included.

    Attributes:
        state: the state then, our own write of the object's status included.
        over: the version before that write; the store may still show it.
    """

    state: State
    over: Version | None

    def covers(self, now: State) -> bool:
        """True if nothing has changed since, except by our own write."""
        if now.source == self.over:
            now = now._replace(source=self.state.source)
        return now == self.state


class Worker:
    """One reflector at one peer.

    It is no :class:`liqod.kube.controller.Controller`: it has no watches of its own. The peer's
    engine opens and closes them for each mapped namespace, and all of its workers share them.

    Args:
        context: the state shared with the peer's other workers.
        only: the names of the objects that it works on, where it is disabled for all others.

    Attributes:
        queue: the keys that wait.
        remote: its writer at the peer.
    """

    def __init__(
        self, reflector: Reflector, context: Context, only: Collection[str] | None = None
    ) -> None:
        self.reflector = reflector
        self.queue: KeyedQueue[Key] = KeyedQueue(PAUSES, name=reflector.name)
        self._context = context
        self._only = only
        self._gauge = context.plugins.gauge("reflector", reflector.name)
        self._settings = context.plugins.settings("reflector", reflector.name)
        self._settled: dict[Key, _Settled] = {}
        self._served = reflector.offered is None
        self.remote = RemoteWriter(reflector, context)
        self._status = StatusWriter(reflector, context, self.requeue)

    @property
    def own(self) -> bool:
        """True if the reflector is part of liqod."""
        return self._gauge.own

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Work until cancelled; started at once."""
        peer = self._context.peer
        try:
            await self.queue.run(
                self.reconcile,
                concurrency=self.reflector.concurrency,
                on_error=peer.failures("reflection", reflector=self.reflector.name),
                task_status=task_status,
            )
        finally:
            self._gauge.forget_peer(peer.id)

    def serves(self) -> bool:
        """True if the peer takes the reflector's objects, on any of its nodes.

        One that breaks at this call has nothing to do with the peer until its nodes change; one
        that is parked stays as it was.
        """
        offered, peer = self.reflector.offered, self._context.peer.id
        if offered is None or self._gauge.rests:
            return self._served
        try:
            nodes = self._context.nodes.values()
            self._served = any(self._gauge.judge(bool_problem, offered, each) for each in nodes)
        except PluginError as error:
            self._gauge.rest((peer, "offered"), str(error))
            log.warning("nothing of it goes to the peer: %s", error)
            self._served = False
        else:
            self._gauge.resting.pop((peer, "offered"), None)
        return self._served

    def pause(self, debounce: Callable[[bytes], float], body: bytes) -> float:
        """Seconds for which a changed object at the peer may wait for its next change.

        One that breaks at this call, or is parked, gives 0.
        """
        gauge, what = self._gauge, (self._context.peer.id, "debounce")
        if gauge.rests:
            return 0.0
        try:
            answer = gauge.judge(seconds_problem, debounce, body)
        except PluginError as error:
            gauge.rest(what, str(error))
            return 0.0
        if gauge.resting:
            gauge.resting.pop(what, None)
        return answer

    def enqueue(self, key: Key, after: float = 0.0) -> None:
        """Have an object reconciled within so many seconds, unless nothing about it has changed."""
        if self._only is not None and key[1] not in self._only:
            return
        settled = self._settled.get(key)
        if settled is None or not settled.covers(self._state(key)):
            self.queue.add(key, after=after)

    def enqueue_all(self, namespace: str | None = None) -> None:
        """Have all local objects reconciled, or those of one namespace."""
        for key in self.objects():
            if namespace in (None, key[0]):
                self.enqueue(key)

    def requeue(self, key: Key) -> None:
        """Have an object reconciled, regardless of its last outcome."""
        self._settled.pop(key, None)
        self.queue.add(key)

    def unsettle(self) -> None:
        """Have each object decided anew next time: the state it was decided by may have changed."""
        self._settled.clear()

    def reasons(self) -> Iterator[tuple[ReflectedObject, Reason]]:
        """The reasons that objects were given, and that still hold."""
        for key, reasons in self._status.reasons():
            for reason in reasons:
                yield ReflectedObject(self.reflector.name, *key), reason

    def objects(self) -> set[Key]:
        """The existing objects, and those that went while no work on them was possible."""
        context, found = self._context, self._remembered()
        if self.reflector.scope is Scope.NODE:
            informer = context.wide.get(self.reflector.kind)
            if informer is not None:
                for node in context.nodes:
                    found |= node_index(informer).on(node)
            return found
        for mapped in context.namespaces.values():
            informer = context.local(self.reflector, mapped)
            found.update(() if informer is None else informer.store.keys())
        return found

    def _remembered(self) -> set[Key]:
        """The objects of which a record is kept outside the stores."""
        peer = self._context.peer.id
        broken = {(key[1], key[2]) for key in self._gauge.resting if key[0] == peer and key[2:]}
        return self.remote.remembered | self._status.remembered | broken

    def unmap(self, namespace: str) -> None:
        """Stop reconciling the objects of a namespace that is mapped no more, unless on nodes."""
        if self.reflector.scope is Scope.NODE:
            return
        for key in [key for key in self._remembered() if key[0] == namespace]:
            self._forget(key)
        self._context.dependencies.forget_namespace(self.reflector.name, namespace)

    def _wakes(self, key: Key) -> None:
        """Note that nothing (more) keeps the reflector from working on an object."""
        if self._gauge.resting:
            self._gauge.resting.pop((self._context.peer.id, *key), None)

    def _forget(self, key: Key) -> None:
        self._wakes(key)
        subject = ReflectedObject(self.reflector.name, *key)
        self._context.dependencies.record(subject, ())
        self.remote.forget(key)
        self._status.forget(key)
        self._context.problems.report(self._context.peer.id, subject, {})

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one object; the seconds after which it wants to be reconciled again.

        Raises:
            TransientError: the peer, or this cluster's API server, cannot be reached now.
            PluginError: the reflector breaks at this object; others go on.
        """
        rests = self._gauge.rests
        if rests:
            return rests
        try:
            pause = await self._reconcile(key)
        except PluginError as error:
            times = self.queue.failures(key) + 1
            if times >= BORNE:
                error.retry_after = REST
            if times >= FAILING:
                self._gauge.rest((self._context.peer.id, *key), str(error))
                await self._complain(key, error)
            raise
        self._wakes(key)
        return pause

    async def _complain(self, key: Key, error: PluginError) -> None:
        """Report that an object cannot be worked on, by an Event on it."""
        work = self._prepare(key, self._state(key))
        if work is not None and work.source is not None:
            with suppress(LiqodError):
                await self._status.report(work, (Reason(PLUGIN_FAILS, str(error)),))

    async def _reconcile(self, key: Key) -> float | None:
        state = self._state(key)
        # Taken out for the length of the turn: a change that comes while a request is under way
        # finds nothing settled, and puts the key into the queue again.
        settled = self._settled.pop(key, None)
        if settled is not None and settled.covers(state):
            self._settled[key] = settled
            return None
        work = self._prepare(key, state)  # no checkpoint since: the stores are those of the state
        if work is None:
            return None
        plans = await self._decide(work)
        if plans is not None:
            outgoing, incoming = plans
            if work.blind and not outgoing.orphan_remote:
                return None  # a session that can work has everything reconciled again
            if work.mapped is not None and not outgoing.hold and not work.hold:
                third = self._context.third
                publishes = bool(work.passages) or work.subject in third.published
                if publishes:
                    third.begin(work.subject, work.passages)
                # An abandoned object does not wait for a peer that does not answer.
                with suppress(TransientError) if outgoing.orphan_remote else nullcontext():
                    told_more = await self._write(work, outgoing)
                    if told_more and work.source is not None:
                        outgoing, incoming = self._plans(work)
                if publishes:
                    third.end(work.subject, work.passages)
            await self._status.carry_out(work, outgoing, incoming)
            if not work.pauses:
                work.judged()
        if work.source is None and not work.hold and not work.has(self.reflector):
            self._status.gone(key)
            self._forget(key)
        elif plans is not None and work.settled and not work.pauses:
            left = state._replace(source=work.written or state.source)
            self._settled[key] = _Settled(left, state.source)
        return min(work.pauses, default=None)

    async def _write(self, work: Work, outgoing: Plan) -> bool:
        """Write the wanted objects at the peer; True if the reflector is to be called again.

        The plan's reasons are written here also where the peer cannot be reached.
        """
        try:
            return await self.remote.carry_out(work, outgoing)
        except TransientError:
            if work.source is not None and outgoing.reasons:
                await self._status.report(work, outgoing.reasons)
            raise

    def _state(self, key: Key) -> State:
        """All that a decision about one object depends on, where that settles it."""
        context, reflector = self._context, self.reflector
        mapped = context.namespaces.get(key[0])
        informer = context.local(reflector, mapped)
        body = None if informer is None else informer.store.get(key)
        remote: tuple[Stamps, ...] = ()
        if mapped is not None:
            origin = (reflector.name, key[1])
            remote = tuple(mapped.caches[each.kind].state(origin) for each in reflector.remote)
        version = None if body is None else version_of(body)
        policies = context.policies.of(key[0])
        return State(mapped, context.names(key[0]), policies, version, remote)

    def _prepare(self, key: Key, state: State) -> Work | None:
        """The present state of an object; None where it is too early to judge."""
        context, reflector = self._context, self.reflector
        mapped, names = state.mapped, state.names
        placed = reflector.scope is Scope.NODE
        blind = mapped is not None and reflector.name not in mapped.ready
        blind |= mapped is None and names.absence is Absence.MAPPED
        if blind and not placed:
            return None
        informer = context.local(reflector, mapped)
        if informer is None or not informer.store.synced:
            return None
        body = informer.store.get(key)
        source: Json | None = None if body is None else msgspec.json.decode(body)
        if blind:
            # The peer's objects are unknown; an object that ends can be given up all the same.
            if source is None or not source["metadata"].get("deletionTimestamp"):
                return None
            mapped = None
        work = Work(ReflectedObject(reflector.name, *key), mapped, source, names, blind)
        if mapped is not None:
            for each in reflector.remote:
                gone = mapped.caches[each.kind].gone(work.origin)
                if gone is not None:
                    work.gone[each.kind] = gone
        if names.absence is Absence.BRIEF:
            work.pauses.append(min(DOUBT, context.timings.grace))
        if source is not None and placed:
            node = (source.get("spec") or {}).get("nodeName", "")
            if node not in names.nodes:
                # Perhaps a node that has just gone: its pods' remote objects go with the pods,
                # and not before.
                work.source, work.hold = None, self._made_for(work, source)
                work.pauses += [DOUBT] if work.hold else []
        return work

    def _made_for(self, work: Work, source: Json) -> bool:
        """True if something at the peer was made for exactly this object."""
        found = (live.metadata for _, live in work.has(self.reflector))
        return any(made_for(source, meta.annotations, meta.creation_timestamp) for meta in found)

    async def _decide(self, work: Work) -> tuple[Plan, Plan] | None:
        """Both plans, complete; None where their needs cannot be met now."""
        for _ in range(ROUNDS):
            outgoing, incoming = self._plans(work)
            wait = self._context.needs.wait(incoming.needs)
            if wait:
                work.pauses.append(wait)
                incoming = NOTHING
            needs = dict.fromkeys((*outgoing.needs, *incoming.needs))
            if not needs:
                return outgoing, incoming
            if work.blind:
                return None  # no request can be sent yet, and that is no answer
            for need in needs:
                await fulfil(
                    need,
                    self._context.needs,
                    local=self._context.peer.context.client,
                    namespace=work.subject.namespace,
                    read=lambda wanted: self._read(work, wanted),
                )
        work.pauses.append(DOUBT)
        return None

    async def _read(self, work: Work, wanted: RemoteObject) -> Json | None:
        """A whole object at the peer."""
        if work.mapped is None:
            return None
        self.remote.check_link()
        client, namespace = work.mapped.client, work.mapped.remote_namespace
        return await client.find(wanted.kind, wanted.name, namespace)

    def _plans(self, work: Work) -> tuple[Plan, Plan]:
        """Both plans of the reflector for the present state; notes its reads."""
        source, mapped, reflector = work.source, work.mapped, self.reflector
        if source is None:
            return NOTHING, NOTHING
        context = self._context
        policies = context.policies.of(work.key[0])
        overriding = Overriding(reflector, source, policies, context.peer.id)
        remote: dict[object, tuple[Json, ...]] = {}
        if mapped is not None:
            for each in reflector.remote:
                remote[each.kind] = mapped.caches[each.kind].bodies(work.origin)
        view = LiveView(
            reflector,
            names=work.names,
            settings=self._settings,
            now=times.now(),
            ahead=context.peer.link.skew or 0.0,
            refusals=self.remote.refusals(work.key),
            stores=context.store,
            remote=remote,
            gone=work.gone,
            answers=context.needs.get,
            overridden=overriding.change,
            transit=context.third.address,
        )
        outgoing, incoming = NOTHING, NOTHING
        stays = object_stays(reflector.kind.name, source)
        if stays:
            work.reasons.append(Reason(STAYS_HOME, f"it does not leave this cluster: {stays}"))
        elif self._allowed(source, view):
            outgoing = self._changed(self._call(reflector.outgoing, source, view), work, overriding)
            if reflector.incoming is not None and mapped is not None:
                full = (each.kind for each in reflector.remote if each.watch is Watch.FULL)
                objects = tuple(each for kind in full for each in remote[kind])
                given = source if reflector.scope is Scope.NODE else bare(source)
                incoming = self._call(reflector.incoming, given, objects, view)
        context.problems.report(context.peer.id, work.subject, overriding.problems)
        work.settled &= not (view.seen or view.used or view.asked or view.passages)
        work.passages = view.passages
        self._context.dependencies.record(work.subject, view.seen)
        ends = (self._context.needs.expiry(need) for need in view.used)
        again = (outgoing.requeue_after, incoming.requeue_after)
        # A reflector from outside may request to be called again at once, for ever.
        least = 0.0 if self._gauge.own else SOONEST
        work.pauses += [max(pause, least) for pause in (*ends, *again) if pause is not None]
        return outgoing, incoming

    def _changed(self, plan: Plan, work: Work, overriding: Overriding) -> Plan:
        """A plan with its objects at the peer as policies change them."""
        remote = tuple(overriding.change(each) for each in plan.remote)
        work.reasons += [
            Reason(NOT_APPLIED, f"the OverridePolicy {policy} is not applied as a whole: {text}")
            for policy, text in overriding.problems.items()
        ]
        return msgspec.structs.replace(plan, remote=remote) if remote else plan

    def _call(self, function: Callable[P, Plan], *args: P.args, **named: P.kwargs) -> Plan:
        """The plan of a function of the reflector. Raises PluginError where it breaks."""
        if self._gauge.own:
            return self._gauge.call(function, *args, **named)
        return self._gauge.judge(plan_problem, function, *args, **named)

    def _allowed(self, source: Json, view: LiveView) -> bool:
        """True if the object is to be reflected at all."""
        reflector, meta = self.reflector, source["metadata"]
        if (meta.get("labels") or {}).get(labels.ORIGIN) == self._context.peer.id:
            return False  # it came from that peer
        if meta["name"] in reflector.always:
            return True
        in_force = self._context.policy(reflector.name)
        if in_force is Policy.ALWAYS:
            return True
        governor = reflector.governor
        name = None if governor is None else (meta.get("labels") or {}).get(governor.label)
        notes = meta.get("annotations") or {}
        if governor is None or not name:
            return topology.follows(in_force, notes)
        found = view.get(governor.kind, name)
        return topology.follows(
            in_force,
            notes,
            governing=None if found is None else found["metadata"].get("annotations") or {},
            governing_policy=self._context.policy(governor.reflector),
        )
