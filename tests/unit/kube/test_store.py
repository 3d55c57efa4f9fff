"""The store against a plain dict, and its indexes."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.apimachinery.meta import Partial
from liqod.errors import ProtocolError
from liqod.kube.cache.store import IndexedStore, StoreChange
from tests.testbed.held import held

KEYS = st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from("xyz"))
VALUES = st.lists(st.sampled_from("123"), max_size=2)


def body(values: list[str]) -> bytes:
    return json.dumps({"metadata": {"labels": dict.fromkeys(values, "")}}).encode()


def label_names(obj: Partial) -> list[str]:
    return list(obj.metadata.labels)


@given(st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=30), st.integers(0, 30))
def test_it_is_a_dict_with_indexes(steps, late):
    model: dict[tuple[str, str], bytes] = {}
    store = IndexedStore({"label": label_names})
    for number, (key, values) in enumerate(steps):
        if number == late:
            store.add_indexes({"late": label_names, "label": label_names})
        old = model.pop(key, None)
        if values is None:
            change = store.remove(key)
            assert change == (StoreChange(key, old, None) if old else None)
        else:
            model[key] = body(values)
            change = store.put(key, model[key])
            assert change == (StoreChange(key, old, model[key]) if old != model[key] else None)
    assert {key: store.get(key) for key in store} == model
    assert set(store.keys()) == set(model)
    assert len(store) == len(model)
    for name in ("", "a", "b"):
        assert store.indexed("namespace", name) == {key for key in model if key[0] == name}
    names = ["label"] + (["late"] if late < len(steps) else [])
    for index in names:
        for value in "123":
            expected = {key for key, obj in model.items() if f'"{value}"'.encode() in obj}
            assert store.indexed(index, value) == expected
    assert all(held(store, set)), "an index keeps no value that no object has"


def test_what_nobody_claims_is_not_kept():
    store = IndexedStore(keep=lambda obj: b"mine" in obj)
    assert store.put(("a", "x"), b'{"no":1}') is None
    assert store.put(("a", "x"), b'{"mine":1}') == StoreChange(("a", "x"), None, b'{"mine":1}')
    assert store.put(("a", "x"), b'{"no":1}') == StoreChange(("a", "x"), b'{"mine":1}', None)
    assert len(store) == 0


def test_an_index_of_more_than_metadata():
    class Spec(msgspec.Struct, rename="camel"):
        node_name: str = ""

    class Part(msgspec.Struct):
        spec: Spec = msgspec.field(default_factory=Spec)

    store = IndexedStore({"node": lambda obj: [obj.spec.node_name]}, partial=Part)
    store.put(("a", "x"), b'{"spec":{"nodeName":"n1"}}')
    store.put(("a", "y"), b"{}")
    assert store.indexed("node", "n1") == {("a", "x")}
    store.put(("a", "x"), b'{"spec":{"nodeName":"n2"}}')
    assert store.indexed("node", "n1") == frozenset()
    with pytest.raises(KeyError):
        store.indexed("other", "x")


def test_decoding_and_what_cannot_be(caplog):
    class Thing(msgspec.Struct):
        n: int

    store = IndexedStore()
    store.put(("a", "good"), b'{"n":1}')
    store.put(("a", "bad"), b'{"n":"x"}')
    assert store.decode(("a", "good"), Thing) == Thing(1)
    assert store.decode(("a", "none"), Thing) is None
    with pytest.raises(ProtocolError, match="a/bad"):
        store.decode(("a", "bad"), Thing)
    assert list(store.values(Thing)) == [Thing(1)]
    assert "object left out" in caplog.text
    assert ("a", "good") in store


def test_an_object_that_an_index_cannot_read_is_kept(caplog):
    store = IndexedStore({"label": label_names})
    assert store.put(("a", "x"), b'{"metadata":{"labels":3}}') is not None
    assert store.indexed("namespace", "a") == {("a", "x")}
    assert "object not indexed" in caplog.text
