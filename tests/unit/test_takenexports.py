"""The marks of a peer's exports: each export is read once, as long as all it follows from stays."""

import msgspec
import pytest

from liqod.clusterset import takenexports
from liqod.clusterset.takenexports import TakenExports
from liqod.model.clusterset.exchange import confirmed
from tests.unit.model.clusterset.values import SCOPE, endpoints, export


def text(name, address="10.71.0.1", **more):
    found = export(name=name, slices=(endpoints(address),), **more)
    return msgspec.json.encode(found).decode()


@pytest.fixture
def read(monkeypatch):
    """The names of the exports that were read since the last look."""
    names = []

    def judge(told, namespace, name, scope):
        names.append(name)
        return confirmed(told, namespace, name, scope)

    monkeypatch.setattr(takenexports, "confirmed", judge)

    def since():
        found = sorted(names)
        names.clear()
        return found

    return since


def test_of_a_hundred_exports_the_one_is_read_that_has_changed(read):
    taken = TakenExports()
    told = {name: text(name) for name in (f"s{number:03}" for number in range(100))}
    first = taken.of("shop.milan", "shop", told, SCOPE)
    assert read() == sorted(first) == sorted(told)
    told["s007"] = text("s007", "10.71.0.2")
    assert taken.of("shop.milan", "shop", told, SCOPE) == first
    assert read() == ["s007"]
    told["s008"] = text("s008", type="Headless")
    assert taken.of("shop.milan", "shop", told, SCOPE)["s008"] != first["s008"]
    assert read() == ["s008"]


def test_what_is_refused_is_read_once_and_has_no_mark(read):
    taken = TakenExports()
    told = {"web": "nonsense", "api": text("api")}
    for _ in range(2):
        assert list(taken.of("shop.milan", "shop", told, SCOPE)) == ["api"]
    assert read() == ["api", "web"]


def test_an_export_is_read_anew_for_another_namespace_and_after_one_that_is_not_shared(read):
    taken = TakenExports()
    told = {"web": text("web")}
    both = msgspec.structs.replace(SCOPE, namespaces=("shop", "other"))
    assert set(taken.of("shop.milan", "shop", told, both)) == {"web"}
    assert taken.of("shop.milan", "other", told, both) == {}
    assert read() == ["web", "web"]
    assert taken.of("shop.milan", "shop", told, SCOPE) != {}
    nowhere = msgspec.structs.replace(SCOPE, namespaces=())
    assert taken.of("shop.milan", "shop", told, nowhere) == {}
    read()
    taken.of("shop.milan", "shop", told, SCOPE)
    taken.forget("shop.milan")
    taken.of("shop.milan", "shop", told, SCOPE)
    assert read() == ["web", "web"]


def test_an_export_of_a_third_cluster_is_read_each_time_as_its_signature_may_have_ended(read):
    taken = TakenExports()
    told = {"web.turin": text("web", cluster="turin"), "api": text("api")}
    for _ in range(3):
        assert set(taken.of("shop.milan", "shop", told, SCOPE)) == {"api"}
    assert read() == ["api", "web.turin", "web.turin", "web.turin"]
