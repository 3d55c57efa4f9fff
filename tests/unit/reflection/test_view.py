"""Objects that a reflector may look at; it then depends on those that it saw."""

import msgspec
import pytest

from liqod.apimachinery.kinds import CONFIG_MAPS, NODES, SECRETS
from liqod.errors import PluginError
from liqod.kube.cache.store import IndexedStore
from liqod.plugins.contracts import NOTHING, Reads, Reflector, RemoteKind, RemoteObject
from liqod.reflection.view import Dependencies, Dependency, LiveView, ReflectedObject
from simulator.suites import NAMES

GADGETS = Reflector(
    name="gadgets",
    kind=CONFIG_MAPS,
    outgoing=lambda source, view: NOTHING,
    remote=(RemoteKind(kind=CONFIG_MAPS),),
    reads=(Reads(SECRETS), Reads(NODES)),
)
A, B = ReflectedObject("gadgets", "shop", "a"), ReflectedObject("gadgets", "shop", "b")


def test_a_change_names_those_who_looked():
    found = Dependencies()
    found.record(A, [Dependency(SECRETS, "shop", "cred")])
    found.record(B, [Dependency(SECRETS, "shop", "")])
    assert found.readers(SECRETS, ("shop", "cred")) == {A, B}
    assert found.readers(SECRETS, ("shop", "other")) == {B}
    assert found.readers(SECRETS, ("home", "cred")) == frozenset()
    assert found.readers(CONFIG_MAPS, ("shop", "cred")) == frozenset()


def test_what_was_looked_at_last_counts():
    found = Dependencies()
    found.record(A, [Dependency(SECRETS, "shop", "old")])
    found.record(A, [Dependency(SECRETS, "shop", "new")])
    assert found.readers(SECRETS, ("shop", "old")) == frozenset()
    assert found.readers(SECRETS, ("shop", "new")) == {A}
    found.record(A, [])
    assert found.readers(SECRETS, ("shop", "new")) == frozenset()


def secret(name):
    return msgspec.json.encode({"kind": "Secret", "metadata": {"name": name, "namespace": "shop"}})


@pytest.fixture
def view():
    store = IndexedStore()
    for name in ("b", "a"):
        store.put(("shop", name), secret(name))
    return LiveView(
        GADGETS,
        names=NAMES,
        now="2026-01-01T00:00:00Z",
        refusals=(),
        stores=lambda kind, namespace: store if (kind, namespace) == (SECRETS, "shop") else None,
        remote={CONFIG_MAPS: ({"metadata": {"name": "x"}},)},
        answers=lambda need: None,
    )


def test_looks_are_remembered(view):
    assert view.get(SECRETS, "a")["metadata"]["name"] == "a"
    assert view.get(SECRETS, "missing") is None
    assert [each["metadata"]["name"] for each in view.all(SECRETS)] == ["a", "b"]
    assert view.get(NODES, "milan") is None
    assert view.seen == {
        Dependency(SECRETS, "shop", "a"),
        Dependency(SECRETS, "shop", "missing"),
        Dependency(SECRETS, "shop", ""),
        Dependency(NODES, "", "milan"),
    }


def test_what_is_not_declared_cannot_be_read(view):
    with pytest.raises(PluginError, match="gadgets does not declare that it reads ConfigMap"):
        view.get(CONFIG_MAPS, "a")


def test_needs_and_objects_there_are_shown(view):
    need = RemoteObject(kind=CONFIG_MAPS, name="x", version="1")
    assert view.fulfilled(need) is None
    assert view.used == {need}
    assert view.remote(CONFIG_MAPS) == ({"metadata": {"name": "x"}},)
    assert view.remote(SECRETS) == ()
