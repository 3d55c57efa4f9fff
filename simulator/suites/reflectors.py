"""The contract suite of reflectors: derive a test class from it and name your reflector.

    class TestGadgets(ReflectorContract):
        reflector = GADGETS
        sources = (A_GADGET,)                       # local objects to try
        local = (A_CONFIG_MAP,)                     # other objects that the view holds
        fulfilled = {NEED: VALUE}                   # what the engine would have fetched
        remote = (A_GADGET_OVER_THERE,)             # what is at the peer, for `incoming`
        elsewhere = (A_GADGET_AT_ANOTHER_PEER,)     # and at a second one, which says otherwise

The suite tests all that the engine relies on:
functions that change nothing and remember nothing, that read and write only what is declared, whose
objects the peer's API server can take, and of which two peers do not fight over one object.
:class:`StaticView` is a view made of values, for tests of one's own.
"""

import copy
import inspect
import itertools
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec

from liqod.apimachinery.kinds import Kind
from liqod.errors import PluginError
from liqod.model import ids
from liqod.model.objects.fieldpaths import select
from liqod.model.objects.patches import merged
from liqod.plugins.callguard import ORDINARY, CallGuardTimings
from liqod.plugins.contracts import (
    API,
    SERVER_FIELDS,
    Json,
    Names,
    Need,
    Plan,
    Reflector,
    Refusal,
    Scope,
    Several,
    Transit,
    VirtualNode,
    Watch,
)
from liqod.plugins.validation import (
    bool_problem,
    json_problem,
    plan_problem,
    provided_problem,
    seconds_problem,
)
from liqod.reflection.reflectioncontext import bare
from liqod.reflection.statusarbitration import DesiredStatus, Retraction, StatusArbiter, taken_back
from liqod.reflection.view import ReflectedObject
from simulator.suites.trials import no_system_tasks, quick

NAMES = Names(
    consumer="rome",
    peer="milan",
    namespace="shop",
    remote_namespace="shop-rome",
    nodes={"milan": VirtualNode(name="milan", slice="milan")},
    pod_network="routed",
    pod_cidrs=("10.10.0.0/16",),
    service_cidrs=("10.20.0.0/16",),
)
"""Names for trying a reflector with."""

NOW = "2026-01-02T03:04:05Z"


class StaticView:
    """A view of values that never change.

    Args:
        reflector: whose view it is; reading what it does not declare raises.
        names: names and settings.
        settings: the reflector's own; its ``config_type`` with nothing set, if not given.
        local: local objects.
        remote: objects at the peer that the object at hand has.
        gone: what the object at hand lost there.
        fulfilled: what has been fetched, by need.
        refusals: why the last writes failed.
        now: RFC 3339 time.
        ahead: seconds by which the peer's clock is ahead of it.
        transits: the addresses that lead to endpoints at third clusters, by cluster and address.
    """

    def __init__(
        self,
        reflector: Reflector,
        *,
        names: Names = NAMES,
        local: Iterable[Json] = (),
        remote: Iterable[Json] = (),
        gone: Iterable[Json] = (),
        fulfilled: Mapping[Need, Any] | None = None,
        refusals: tuple[Refusal, ...] = (),
        now: str = NOW,
        ahead: float = 0.0,
        settings: Any = None,
        transits: Mapping[tuple[str, str], str] = {},
    ) -> None:
        self._transits = transits
        self.names = names
        self.settings = reflector.config_type() if settings is None else settings
        self.now = now
        self.ahead = ahead
        self.refusals = refusals
        self._reflector = reflector
        self.local_objects = list(local)
        self._remote = list(remote)
        self._gone = list(gone)
        self._fulfilled = dict(fulfilled or {})

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Json | None:
        """As :meth:`liqod.plugins.contracts.View.get`."""
        found = (each for each in self.all(kind, namespace) if each["metadata"]["name"] == name)
        return next(found, None)

    def all(self, kind: Kind, namespace: str | None = None) -> tuple[Json, ...]:
        """As :meth:`liqod.plugins.contracts.View.all`."""
        if kind not in {reads.kind for reads in self._reflector.reads}:
            raise PluginError(f"{self._reflector.name} does not declare that it reads {kind.name}")
        where = (namespace or self.names.namespace) if kind.namespaced else ""
        return tuple(
            sorted(
                (
                    each
                    for each in self.local_objects
                    if (each["kind"], each["apiVersion"]) == (kind.name, kind.api_version)
                    and each["metadata"].get("namespace", "") == where
                ),
                key=lambda each: str(each["metadata"]["name"]),
            )
        )

    def remote(self, kind: Kind) -> tuple[Json, ...]:
        """As :meth:`liqod.plugins.contracts.View.remote`."""
        return tuple(
            each
            for each in self._remote
            if (each["kind"], each["apiVersion"]) == (kind.name, kind.api_version)
        )

    def gone(self, kind: Kind) -> Json | None:
        """As :meth:`liqod.plugins.contracts.View.gone`."""
        wanted = (kind.name, kind.api_version)
        found = [each for each in self._gone if (each["kind"], each["apiVersion"]) == wanted]
        return found[-1] if found else None

    def fulfilled(self, need: Need) -> Any:
        """As :meth:`liqod.plugins.contracts.View.fulfilled`."""
        return self._fulfilled.get(need)

    def transit(self, owner: str, address: str) -> Transit:
        """As :meth:`liqod.plugins.contracts.View.transit`."""
        found = self._transits.get((owner, address), "")
        return Transit(found, "" if found else "no transit is allowed")

    def overridden(self, made: Json) -> Json:
        """As :meth:`liqod.plugins.contracts.View.overridden`; there are no policies."""
        return made


class ReflectorContract:
    """The contract of reflectors, as tests. Set the attributes in a sub-class.

    Attributes:
        reflector: the reflector under test.
        sources: local objects of its kind to try; at least one.
        local: other local objects that its view holds.
        remote: objects at the peer, for ``incoming``; at least one where it has that function.
        elsewhere: the same at a second peer, with another status; if not set, those of the first
            with every value of their status changed.
        fulfilled: what the engine would have fetched, by need: all that either function asks for.
        names: names and settings; a copy of ``NAMES`` with others in it
            (``msgspec.structs.replace``), where a translation depends on them.
        settings: the reflector's own; if not set, its ``config_type`` with nothing in it.
        timings: by which its calls are judged; the daemon's, if not set.
    """

    reflector: ClassVar[Reflector]
    sources: ClassVar[tuple[Json, ...]]
    local: ClassVar[tuple[Json, ...]] = ()
    remote: ClassVar[tuple[Json, ...]] = ()
    elsewhere: ClassVar[tuple[Json, ...]] = ()
    fulfilled: ClassVar[Mapping[Need, Any]] = {}
    names: ClassVar[Names] = NAMES
    settings: ClassVar[Any] = None
    timings: ClassVar[CallGuardTimings] = ORDINARY

    def _view(
        self, *, fulfilled: Mapping[Need, Any] | None = None, names: Names | None = None
    ) -> StaticView:
        return StaticView(
            type(self).reflector,
            names=names or self.names,
            local=copy.deepcopy(self.local),
            remote=copy.deepcopy(self.remote),
            fulfilled=self.fulfilled if fulfilled is None else fulfilled,
            settings=self.settings,
        )

    def _plans(
        self, *, fulfilled: Mapping[Need, Any] | None = None, names: Names | None = None
    ) -> list[Plan]:
        reflector = type(self).reflector

        def view() -> StaticView:
            return self._view(fulfilled=fulfilled, names=names)

        plans = [reflector.outgoing(copy.deepcopy(source), view()) for source in self.sources]
        if reflector.incoming is not None:
            plans += [
                reflector.incoming(self._given(source), self._seen(), view())
                for source in self.sources
            ]
        return plans

    def _needs(self, known: Mapping[Need, Any]) -> set[Need]:
        """The needs of both functions, for all sources."""
        return {need for plan in self._plans(fulfilled=known) for need in plan.needs}

    def _seen(self) -> tuple[Json, ...]:
        """The peer's objects that ``incoming`` is given: those that are watched in full."""
        full = {
            (each.kind.api_version, each.kind.name)
            for each in type(self).reflector.remote
            if each.watch is Watch.FULL
        }
        return tuple(
            copy.deepcopy(each)
            for each in self.remote
            if (each["apiVersion"], each["kind"]) in full
        )

    def _given(self, source: Json) -> Json:
        """A local object as ``incoming`` is given it."""
        given = copy.deepcopy(source)
        return given if type(self).reflector.scope is Scope.NODE else bare(given)

    def test_is_written_for_this_contract(self) -> None:
        assert type(self).reflector.api == API

    def test_its_description_fits(self) -> None:
        assert provided_problem(type(self).reflector) is None

    def test_has_something_to_try(self) -> None:
        assert self.sources, "name at least one local object in `sources`"
        kind = type(self).reflector.kind
        for source in self.sources:
            assert (source["apiVersion"], source["kind"]) == (kind.api_version, kind.name)

    def test_does_not_wait(self) -> None:
        reflector = type(self).reflector
        assert not inspect.iscoroutinefunction(reflector.outgoing)
        assert not inspect.iscoroutinefunction(reflector.incoming)

    def test_returns_plans(self) -> None:
        for plan in self._plans():
            problem = plan_problem(plan)
            assert problem is None, f"the daemon carries it not out: {problem}"

    def test_is_a_function_of_values(self) -> None:
        assert self._plans() == self._plans()

    def test_changes_nothing_that_it_is_given(self) -> None:
        reflector = type(self).reflector
        for source in self.sources:
            given, remote = copy.deepcopy(source), self._seen()
            view = self._view()
            reflector.outgoing(given, view)
            if reflector.incoming is not None:
                reflector.incoming(given, remote, view)
                reflector.incoming(self._given(source), remote, view)
            assert given == source
            assert remote == self._seen()
            assert view.local_objects == list(self.local)

    def test_writes_only_what_it_declares(self) -> None:
        reflector = type(self).reflector
        for wanted in self._wanted():
            declared = reflector.declaration(wanted["apiVersion"], wanted["kind"])
            assert declared is not None, f"{wanted['kind']} is not among the kinds it writes there"
        assert not stiff(reflector, self._wanted()), "follows leads to nothing of what it writes"
        kinds = {(kind.api_version, kind.name) for kind in reflector.local}
        for made in itertools.chain.from_iterable(plan.local for plan in self._plans()):
            assert (made["apiVersion"], made["kind"]) in kinds, f"{made['kind']} is not declared"

    def test_names_what_it_writes(self) -> None:
        for source in self.sources:
            plan = type(self).reflector.outgoing(copy.deepcopy(source), self._view())
            keys = [(wanted["kind"], wanted["metadata"]["name"]) for wanted in plan.remote]
            assert len(keys) == len(set(keys)), "two objects of one kind and name"
            assert all(ids.is_dns_subdomain(name) for _, name in keys)

    def test_leaves_to_the_server_what_is_the_servers(self) -> None:
        for wanted in self._wanted():
            assert "status" not in wanted
            stray = SERVER_FIELDS.intersection(wanted["metadata"])
            assert not stray, f"these never cross: {sorted(stray)}"

    def test_writes_json(self) -> None:
        for plan in self._plans():
            for value in itertools.chain(plan.remote, plan.local, [plan.status or {}]):
                assert msgspec.json.decode(msgspec.json.encode(value)) == value

    def test_declares_a_status_only_with_incoming(self) -> None:
        reflector = type(self).reflector
        if reflector.incoming is not None:
            assert any(each.watch is Watch.FULL for each in reflector.remote)

    def test_asks_for_its_needs(self) -> None:
        """With nothing fetched it asks, and with everything fetched it asks no more.

        A need may be seen by either function, and may be asked for once another one is fulfilled.
        """
        asked: set[Need] = set()
        while True:
            known = {need: self.fulfilled[need] for need in asked if need in self.fulfilled}
            more = asked | self._needs(known)
            if more == asked:
                break
            asked = more
        missing = asked - self.fulfilled.keys()
        assert not missing, f"put what the engine would fetch for {missing} into `fulfilled`"
        unasked = self.fulfilled.keys() - asked
        assert not unasked, f"it never asks for {unasked}, which is in `fulfilled`"
        again = self._needs(self.fulfilled)
        assert not again, f"it asks for {again}, which it was given"

    def test_comes_back_at_once(self) -> None:
        """In the daemon everybody waits for it, and parks who is slow."""
        reflector, view, slow = type(self).reflector, self._view(), self.timings.slow
        for source in self.sources:
            quick(slow, reflector.outgoing, copy.deepcopy(source), view)
            if reflector.incoming is None:
                continue
            said = quick(slow, reflector.incoming, self._given(source), self._seen(), view).status
            if reflector.combine is not None and said:
                made = quick(slow, reflector.combine, self._given(source), {NAMES.peer: said})
                problem = json_problem(made)
                assert problem is None, f"combine returned {problem}"

    def test_says_of_a_node_whether_its_provider_takes_it(self) -> None:
        offered = type(self).reflector.offered
        for node in self.names.nodes.values():
            if offered is not None:
                problem = bool_problem(quick(self.timings.slow, offered, node))
                assert problem is None, f"offered returned {problem}"

    def test_says_for_how_long_a_change_may_wait(self) -> None:
        slow = self.timings.slow
        for declared in type(self).reflector.remote:
            if declared.debounce is None:
                continue
            kind = (declared.kind.api_version, declared.kind.name)
            given = [each for each in self.remote if (each["apiVersion"], each["kind"]) == kind]
            assert given, f"put a {declared.kind.name} into `remote`, so that debounce is tried"
            for each in given:
                said = quick(slow, declared.debounce, msgspec.json.encode(each))
                problem = seconds_problem(said)
                assert problem is None, f"debounce returned {problem}"

    def test_begins_no_system_task(self) -> None:
        reflector = type(self).reflector
        more = (each.debounce for each in reflector.remote)
        functions = (reflector.outgoing, reflector.incoming, reflector.combine, reflector.offered)
        no_system_tasks((*functions, *more))

    def test_two_peers_do_not_fight(self) -> None:
        """The status of an object that two peers reflect settles, in either order of writes."""
        for source in self._of_several():
            for order in (("milan", "turin"), ("turin", "milan")):
                talk = _Talk(self, source)
                for _ in range(2):
                    for peer in order:
                        talk.turn(peer)
                settled = talk.live
                writes = [talk.turn(peer) for _ in range(3) for peer in order]
                assert not any(writes), (
                    f"two peers undo each other's status ({type(self).reflector.several}):"
                    f" {[each for each in writes if each]}"
                )
                assert talk.live == settled

    def test_two_peers_have_something_to_say(self) -> None:
        """Else the tests of several peers would hold of a rule that they never see."""
        sources = self._of_several()
        talks = [_Talk(self, source) for source in sources]
        assert not (sources and self.remote) or any(
            talk.said("milan").anything and talk.said("turin").anything for talk in talks
        ), "of no object do two peers say anything: put what the second one has into `elsewhere`"

    def test_two_peers_make_objects_of_their_own(self) -> None:
        """Objects that each peer makes of its own here are never the same."""
        if type(self).reflector.several is not Several.BY_PEER:
            return
        for source in self._of_several():
            talk = _Talk(self, source)
            both = talk.said("milan").made & talk.said("turin").made
            assert not both, f"both peers make {sorted(both)}: put view.names.peer into the name"

    def test_what_was_said_is_taken_back(self) -> None:
        """With the last peer its status goes, and what was there before it stays."""
        for source in self._of_several():
            talk = _Talk(self, {**source, "status": {"theirs": "stays"}})
            for _ in range(2):
                talk.turn("milan")
                talk.turn("turin")
            for peer in ("milan", "turin"):
                talk.end(peer)
            assert _leaves(talk.live) == {"theirs": "stays"}, "something of the status is left"

    def _of_several(self) -> tuple[Json, ...]:
        """The objects that several peers may have a say about."""
        reflector = type(self).reflector
        shared = reflector.incoming is not None and reflector.scope is Scope.NAMESPACE
        return self.sources if shared else ()

    def _wanted(self) -> list[Json]:
        return [wanted for plan in self._plans() for wanted in plan.remote]


def stiff(reflector: Reflector, wanted: Iterable[Mapping[str, Any]]) -> set[str]:
    """Kinds that a reflector writes and of which nothing is where its ``follows`` leads to."""
    declared = {each.kind.name: each.follows for each in reflector.written if each.follows}
    mine = [obj for obj in wanted if obj["kind"] in declared]
    follow = {obj["kind"] for obj in mine if select(obj, declared[obj["kind"]])}
    return {obj["kind"] for obj in mine} - follow


class _Talk:
    """Two peers that have one object, driven as their engines drive them."""

    def __init__(self, suite: ReflectorContract, source: Json) -> None:
        self.live: Json = copy.deepcopy(source.get("status") or {})
        self._suite = suite
        self._source = source
        self._reflector = type(suite).reflector
        meta = source["metadata"]
        self._subject = ReflectedObject(self._reflector.name, suite.names.namespace, meta["name"])
        self._arbiter = StatusArbiter()
        self._arbiter.retracted = self._take_back

    def said(self, peer: str) -> DesiredStatus:
        """The status and the objects here that the peer's plan wants."""
        suite, reflector = self._suite, self._reflector
        remote = copy.deepcopy(suite.remote)
        if peer != NAMES.peer:
            remote = copy.deepcopy(suite.elsewhere) or tuple(_otherwise(each) for each in remote)
        view = StaticView(
            reflector,
            names=msgspec.structs.replace(suite.names, peer=peer),
            local=copy.deepcopy(suite.local),
            remote=remote,
            fulfilled=suite.fulfilled,
            settings=suite.settings,
        )
        assert reflector.incoming is not None
        plan = reflector.incoming(bare(copy.deepcopy(self._source)), remote, view)
        made = frozenset((each["kind"], each["metadata"]["name"]) for each in plan.local)
        return DesiredStatus(plan.status or None, made)

    def turn(self, peer: str) -> Json:
        """Take one turn of a peer's engine; the status patch that it writes."""
        uid, said = self._source["metadata"].get("uid", ""), self.said(peer)
        arbiter, subject = self._arbiter, self._subject
        arbiter.set_desired(self._reflector, subject, uid, peer, said, lambda: None)
        wanted = arbiter.resolve(subject, peer, self._combine)
        if wanted is None:
            return {}
        patch = arbiter.patch(subject, peer, wanted, self.live)
        self.live = merged(self.live, patch)
        arbiter.written(subject, peer, wanted)
        return patch

    def end(self, peer: str) -> None:
        """A peer is left."""
        self._arbiter.end(peer)
        if peer == NAMES.peer:
            self.turn("turin")

    def _combine(self, statuses: Mapping[str, Json]) -> Json:
        combine = self._reflector.combine
        assert combine is not None
        return combine(bare(copy.deepcopy(self._source)), copy.deepcopy(dict(statuses)))

    def _take_back(self, retraction: Retraction) -> None:
        self.live = merged(self.live, taken_back(retraction.shown, self.live, {}))


def _otherwise(value: Any, *, inside: bool = False) -> Any:
    """An object whose status says something else in every value."""
    if isinstance(value, dict):
        return {
            key: _otherwise(each, inside=inside or key == "status")
            if inside or key == "status"
            else each
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_otherwise(each, inside=inside) for each in value]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}-elsewhere" if isinstance(value, str) else value


def _leaves(value: Any) -> Any:
    """A status without the maps of it that are empty."""
    if not isinstance(value, dict):
        return value
    inner = {key: _leaves(each) for key, each in value.items()}
    return {key: each for key, each in inner.items() if each != {}}
