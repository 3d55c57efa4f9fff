"""The contract suite of reflectors: derive a test class from it and name your reflector.

    class TestGadgets(ReflectorContract):
        reflector = GADGETS
        sources = (A_GADGET,)                       # local objects to try
        local = (A_CONFIG_MAP,)                     # other objects that the view holds
        fulfilled = {NEED: VALUE}                   # what the engine would have fetched

Needs nothing but pytest. What it asks is what the engine relies on: functions that change nothing
and remember nothing, that read and write only what is declared, and whose objects the peer's API
server can take. :class:`StaticView` is a view made of values, for tests of one's own.
"""

import copy
import inspect
import itertools
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec

from liqod.errors import PluginError
from liqod.kube.kinds import Kind
from liqod.model import ids
from liqod.plugins.contracts import (
    API,
    SERVER_FIELDS,
    Json,
    Names,
    Need,
    Plan,
    Reflector,
    Refusal,
    VirtualNode,
    Watch,
)

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
        local: local objects.
        there: objects at the peer that the object at hand has.
        fulfilled: what has been fetched, by need.
        refusals: why the last writes failed.
    """

    def __init__(
        self,
        reflector: Reflector,
        *,
        names: Names = NAMES,
        local: Iterable[Json] = (),
        there: Iterable[Json] = (),
        fulfilled: Mapping[Need, Any] | None = None,
        refusals: tuple[Refusal, ...] = (),
        now: str = NOW,
    ) -> None:
        self.names = names
        self.now = now
        self.refusals = refusals
        self._reflector = reflector
        self._local = list(local)
        self._there = list(there)
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
                    for each in self._local
                    if (each["kind"], each["apiVersion"]) == (kind.name, kind.api_version)
                    and each["metadata"].get("namespace", "") == where
                ),
                key=lambda each: str(each["metadata"]["name"]),
            )
        )

    def there(self, kind: Kind) -> tuple[Json, ...]:
        """As :meth:`liqod.plugins.contracts.View.there`."""
        return tuple(
            each
            for each in self._there
            if (each["kind"], each["apiVersion"]) == (kind.name, kind.api_version)
        )

    def fulfilled(self, need: Need) -> Any:
        """As :meth:`liqod.plugins.contracts.View.fulfilled`."""
        return self._fulfilled.get(need)


class ReflectorContract:
    """What every reflector keeps. Set the attributes in a sub-class.

    Attributes:
        reflector: the reflector under test.
        sources: local objects of its kind to try; at least one.
        local: other local objects that its view holds.
        remote: objects at the peer, for ``incoming``; at least one where it has that function.
        fulfilled: what the engine would have fetched, by need.
        names: names and settings.
    """

    reflector: ClassVar[Reflector]
    sources: ClassVar[tuple[Json, ...]]
    local: ClassVar[tuple[Json, ...]] = ()
    remote: ClassVar[tuple[Json, ...]] = ()
    fulfilled: ClassVar[Mapping[Need, Any]] = {}
    names: ClassVar[Names] = NAMES

    def _view(self, *, fulfilled: bool = True, names: Names | None = None) -> StaticView:
        return StaticView(
            type(self).reflector,
            names=names or self.names,
            local=copy.deepcopy(self.local),
            there=copy.deepcopy(self.remote),
            fulfilled=self.fulfilled if fulfilled else {},
        )

    def _plans(self, *, names: Names | None = None) -> list[Plan]:
        reflector = type(self).reflector
        plans = [
            reflector.outgoing(copy.deepcopy(source), self._view(names=names))
            for source in self.sources
        ]
        if reflector.incoming is not None:
            plans += [
                reflector.incoming(
                    copy.deepcopy(source), copy.deepcopy(self.remote), self._view(names=names)
                )
                for source in self.sources
            ]
        return plans

    def test_is_written_for_this_contract(self) -> None:
        assert type(self).reflector.api == API

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
            assert isinstance(plan, Plan)

    def test_is_a_function_of_values(self) -> None:
        assert self._plans() == self._plans()

    def test_changes_nothing_that_it_is_given(self) -> None:
        reflector = type(self).reflector
        for source in self.sources:
            given, remote = copy.deepcopy(source), copy.deepcopy(self.remote)
            view = self._view()
            reflector.outgoing(given, view)
            if reflector.incoming is not None:
                reflector.incoming(given, remote, view)
            assert given == source
            assert remote == self.remote
            assert view._local == list(self.local)

    def test_writes_only_what_it_declares(self) -> None:
        reflector = type(self).reflector
        for wanted in self._wanted():
            declared = reflector.declaration(wanted["apiVersion"], wanted["kind"])
            assert declared is not None, f"{wanted['kind']} is not among the kinds it writes there"
        kinds = {(kind.api_version, kind.name) for kind in reflector.here}
        for made in itertools.chain.from_iterable(plan.here for plan in self._plans()):
            assert (made["apiVersion"], made["kind"]) in kinds, f"{made['kind']} is not declared"

    def test_names_what_it_writes(self) -> None:
        for source in self.sources:
            plan = type(self).reflector.outgoing(copy.deepcopy(source), self._view())
            keys = [(wanted["kind"], wanted["metadata"]["name"]) for wanted in plan.there]
            assert len(keys) == len(set(keys)), "two objects of one kind and name"
            assert all(ids.is_dns_subdomain(name) for _, name in keys)

    def test_leaves_to_the_server_what_is_the_servers(self) -> None:
        for wanted in self._wanted():
            assert "status" not in wanted
            stray = SERVER_FIELDS.intersection(wanted["metadata"])
            assert not stray, f"these never cross: {sorted(stray)}"

    def test_writes_json(self) -> None:
        for plan in self._plans():
            for value in itertools.chain(plan.there, plan.here, [plan.status or {}]):
                assert msgspec.json.decode(msgspec.json.encode(value)) == value

    def test_declares_a_status_only_with_incoming(self) -> None:
        reflector = type(self).reflector
        if reflector.incoming is not None:
            assert any(there.watch is Watch.FULL for there in reflector.there)

    def test_asks_for_its_needs(self) -> None:
        """With nothing fetched it asks, and with everything fetched it asks no more."""
        reflector = type(self).reflector
        asked: set[Need] = set()
        for source in self.sources:
            asked.update(reflector.outgoing(source, self._view(fulfilled=False)).needs)
        assert asked == set(self.fulfilled)
        assert not any(plan.needs for plan in self._plans())

    def _wanted(self) -> list[Json]:
        return [wanted for plan in self._plans() for wanted in plan.there]
