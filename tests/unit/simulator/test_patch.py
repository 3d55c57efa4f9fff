"""Patches: RFC 7386 and 6902, strategic merge, and field sets, as pure functions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.storage import fields, patch
from simulator.storage.shapes import BUILTIN, of_schema
from simulator.wire.failures import ApiError

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
solid = st.dictionaries(st.text(max_size=3), st.integers() | st.lists(st.integers()), max_size=4)


@given(values, values)
def test_merging_twice_is_merging_once(target, change):
    once = patch.merge(target, change)
    assert patch.merge(once, change) == once


@given(solid, solid)
def test_merged_holds_the_patch(target, change):
    assert patch.merge(target, change) == {**target, **change}


@pytest.mark.parametrize(
    ("target", "change", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        (["a"], {"a": "b"}, {"a": "b"}),
    ],
)
def test_merge_as_the_standard_says(target, change, result):
    assert patch.merge(target, change) == result


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/a", "value": 1}], {"l": [1, 2], "a": 1}),
        ([{"op": "add", "path": "/l/1", "value": 9}], {"l": [1, 9, 2]}),
        ([{"op": "add", "path": "/l/-", "value": 9}], {"l": [1, 2, 9]}),
        ([{"op": "remove", "path": "/l/0"}], {"l": [2]}),
        ([{"op": "move", "from": "/l", "path": "/m"}], {"m": [1, 2]}),
        ([{"op": "copy", "from": "/l/0", "path": "/m"}], {"l": [1, 2], "m": 1}),
        ([{"op": "replace", "path": "", "value": 3}], 3),
    ],
)
def test_operations(operations, result):
    target = {"l": [1, 2]}
    assert patch.apply_operations(target, operations) == result
    assert target == {"l": [1, 2]}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ({}, 400),
        ([{"op": "add"}], 400),
        ([{"op": "odd", "path": "/a"}], 400),
        ([{"op": "replace", "path": "/a", "value": 1}], 422),
        ([{"op": "add", "path": "/l/7", "value": 1}], 422),
        ([{"op": "test", "path": "/l", "value": []}], 422),
    ],
)
def test_operations_that_do_not_fit(operations, code):
    with pytest.raises(ApiError) as raised:
        patch.apply_operations({"l": [1, 2]}, operations)
    assert raised.value.code == code


def test_strategic():
    target = {
        "spec": {
            "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}],
            "nodeSelector": {"x": "y"},
            "tolerations": [{"key": "k"}],
        },
        "metadata": {"finalizers": ["one"]},
    }
    change = {
        "spec": {
            "containers": [
                {"name": "b", "image": "2"},
                {"name": "c"},
                {"name": "a", "$patch": "delete"},
            ],
            "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}],
            "tolerations": [{"key": "l"}],
        },
        "metadata": {"finalizers": ["two"], "$deleteFromPrimitiveList/finalizers": ["one"]},
    }
    result = patch.strategic(target, change, BUILTIN)
    assert result["spec"]["containers"] == [{"name": "b", "image": "2"}, {"name": "c"}]
    assert result["spec"]["nodeSelector"] == {"x": "y"}
    assert result["spec"]["tolerations"] == [{"key": "l"}]
    assert result["metadata"]["finalizers"] in (["two"], ["one", "two"])


def test_strategic_replacement():
    change = {"spec": {"$patch": "replace", "replicas": 1}}
    assert patch.strategic({"spec": {"x": 1}}, change, BUILTIN) == {"spec": {"replicas": 1}}


OBJECT = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["f"]},
    "spec": {
        "containers": [{"name": "c", "ports": [{"containerPort": 1}]}],
        "nodeSelector": {"x": "y"},
    },
}


def test_paths_go_there_and_back():
    owned = frozenset(fields.paths(OBJECT, BUILTIN))
    assert ("f:metadata", "f:labels", "f:a") in owned
    assert ("f:metadata", "f:finalizers", 'v:"f"') in owned
    assert ("f:spec", "f:nodeSelector") in owned
    port = ("f:spec", "f:containers", 'k:{"name":"c"}', "f:ports")
    assert (*port, 'k:{"containerPort":1,"protocol":"TCP"}') in owned
    assert fields.from_fields(fields.to_fields(owned)) == owned


def test_removal_leaves_no_empty_containers():
    obj = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    fields.remove(obj, ("f:metadata", "f:labels", "f:a"), BUILTIN)
    fields.remove(obj, ("f:spec", "f:containers", 'k:{"name":"c"}'), BUILTIN)
    assert obj == {"metadata": {"name": "p"}}


def test_shapes_of_schemas():
    schema = {
        "properties": {
            "spec": {
                "properties": {
                    "m": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
                    "s": {"x-kubernetes-list-type": "set"},
                    "a": {"x-kubernetes-map-type": "atomic"},
                }
            }
        }
    }
    spec = of_schema(schema).field("spec")
    assert spec.field("m").keys == ("k",)
    assert spec.field("s").is_set
    assert spec.field("a").atomic
    assert of_schema(schema).field("metadata").field("finalizers").is_set
