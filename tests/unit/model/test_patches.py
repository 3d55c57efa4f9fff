"""Patches from existing to wanted objects: tables of what API servers do, and properties."""

import json
from types import MappingProxyType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from liqod.apimachinery import labels
from liqod.model.objects import patches
from liqod.model.objects.patches import merged

CONTAINER = {"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "0.5"}}}
STORED = {
    "name": "web",
    "image": "nginx",
    "imagePullPolicy": "Always",
    "resources": {"requests": {"cpu": "500m"}},
    "terminationMessagePath": "/dev/termination-log",
}


def pod(*containers, **spec):
    return {"spec": {"containers": list(containers), **spec}}


@pytest.mark.parametrize(
    ("wanted", "live"),
    [
        ({}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3}),
        (pod(CONTAINER), pod(STORED, {"name": "injected"})),
        (pod(CONTAINER, hostNetwork=False), pod(STORED)),
        ({"spec": {"volumes": []}}, {"spec": {}}),
        ({"metadata": {"labels": {}}}, {"metadata": {}}),
        ({"a": None}, {"b": 1}),
        ({"a": {"b": {}}}, {}),
        ({"spec": {"resources": {"cpu": 4}}}, {"spec": {"resources": {"cpu": "4000m"}}}),
        ({"emptyDir": {"sizeLimit": "1Gi"}}, {"emptyDir": {"sizeLimit": "1024Mi"}}),
        (
            {"spec": {"ports": [{"port": 80}]}},
            {"spec": {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30000}]}},
        ),
        ({"data": {"a": "1"}}, {"data": {"a": "1"}, "kind": "ConfigMap"}),
        ({"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": ["b", "a"]}}),
        ({"command": ["a", "b"]}, {"command": ["a", "b"]}),
        ({"a": MappingProxyType({"b": ("x", 1)})}, {"a": {"b": ["x", 1], "c": 2}}),
        ({"env": [{"name": "a"}]}, {"env": [{"name": "a", "value": ""}, {"name": "b"}]}),
    ],
)
def test_contained(wanted, live):
    assert patches.contained(wanted, live)
    assert patches.owned_patch(live, wanted, {}) == {}


@pytest.mark.parametrize(
    ("wanted", "live", "patch"),
    [
        ({"a": 1}, {"a": 2}, {"a": 1}),
        ({"a": 1}, {}, {"a": 1}),
        ({"a": None}, {"a": 1}, {"a": None}),
        ({"a": True}, {"a": 1}, {"a": True}),
        ({"a": {"b": 1}}, {"a": {"b": 2, "c": 3}}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": "text"}, {"a": {"b": 1}}),
        # a text that looks like a quantity is one only where quantities are
        ({"data": {"n": "1k"}}, {"data": {"n": "1000"}}, {"data": {"n": "1k"}}),
        ({"limits": {"cpu": "1k"}}, {"limits": {"cpu": "2k"}}, {"limits": {"cpu": "1k"}}),
        # an empty text is a value where users choose the keys
        ({"data": {"a": ""}}, {"data": {}}, {"data": {"a": ""}}),
        ({"labels": {"headless": ""}}, {}, {"labels": {"headless": ""}}),
        # nothing else may be in a map that is ours alone
        ({"data": {"a": "1"}}, {"data": {"a": "1", "b": "2"}}, {"data": {"b": None}}),
        (
            {"spec": {"desiredMapping": {}}},
            {"spec": {"desiredMapping": {"demo": "demo-ly"}}},
            {"spec": {"desiredMapping": {"demo": None}}},
        ),
        # a keyed item that differs is written as wanted, those of others stay
        (
            {"env": [{"name": "a", "value": "1"}]},
            {"env": [{"name": "x", "value": "y"}, {"name": "a", "valueFrom": {}}]},
            {"env": [{"name": "x", "value": "y"}, {"name": "a", "value": "1"}]},
        ),
        ({"command": ["a", "b"]}, {"command": ["b", "a"]}, {"command": ["a", "b"]}),
        ({"command": ["a"]}, {"command": ["a", "b"]}, {"command": ["a"]}),
        (
            {"metadata": {"finalizers": ["a"]}},
            {"metadata": {"finalizers": ["b"]}},
            {"metadata": {"finalizers": ["b", "a"]}},
        ),
        ({"args": [{"x": 1}]}, {"args": "no list"}, {"args": [{"x": 1}]}),
    ],
)
def test_patch(wanted, live, patch):
    assert not patches.contained(wanted, live)
    assert patches.owned_patch(live, wanted, {}) == patch
    assert patches.contained(wanted, merged(live, patch))


@pytest.mark.parametrize(
    ("before", "wanted", "live", "patch"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2, "c": 3}, {"b": None}),
        ({"a": 1, "b": 2}, {"a": 1}, {"a": 1}, {}),
        (
            {"metadata": {"labels": {"x": "1", "y": "2"}}},
            {"metadata": {"labels": {"y": "2"}}},
            {"metadata": {"labels": {"x": "1", "y": "2", "other": "z"}}},
            {"metadata": {"labels": {"x": None}}},
        ),
        (
            {"env": [{"name": "a"}, {"name": "b"}]},
            {"env": [{"name": "a"}]},
            {"env": [{"name": "a"}, {"name": "b"}, {"name": "other"}]},
            {"env": [{"name": "other"}, {"name": "a"}]},
        ),
        (
            {"env": [{"name": "a", "value": "1"}]},
            {"env": [{"name": "a"}]},
            {"env": [{"name": "a", "value": "1"}]},
            {"env": [{"name": "a"}]},
        ),
        (
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["b"]}},
            {"metadata": {"finalizers": ["a", "b", "c"]}},
            {"metadata": {"finalizers": ["b", "c"]}},
        ),
        (
            pod(CONTAINER, {"name": "side", "ports": [{"containerPort": 1}, {"containerPort": 2}]}),
            pod(CONTAINER, {"name": "side", "ports": [{"containerPort": 1}]}),
            pod(STORED, {"name": "side", "ports": [{"containerPort": 1}, {"containerPort": 2}]}),
            pod(STORED, {"name": "side", "ports": [{"containerPort": 1}]}),
        ),
    ],
)
def test_what_is_no_longer_wanted_goes(before, wanted, live, patch):
    recorded = patches.decode_keys(patches.encode_keys(patches.keys_of(before)))
    assert patches.owned_patch(live, wanted, recorded) == patch


def test_digest_sees_values_not_order_nor_bookkeeping():
    wanted = {"metadata": {"name": "x", "annotations": {"a": "b"}}, "data": {"k": "v"}}
    turned = {"data": {"k": "v"}, "metadata": {"annotations": {"a": "b"}, "name": "x"}}
    assert patches.digest(wanted) == patches.digest(turned)
    noted = json.loads(json.dumps(wanted))
    noted["metadata"]["annotations"][labels.APPLIED_HASH] = "0"
    noted["metadata"]["annotations"][labels.APPLIED_KEYS] = "{}"
    assert patches.digest(noted) == patches.digest(wanted)
    noted["data"]["k"] = "w"
    assert patches.digest(noted) != patches.digest(wanted)
    assert len(patches.digest("x")) == 16


def test_keys_leave_out_what_every_object_has():
    wanted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "y", "labels": {"a": "b"}},
        "data": {"k": "v"},
    }
    assert patches.keys_of(wanted) == {"metadata": {"labels": {"a": {}}}, "data": {}}
    assert patches.decode_keys("nonsense") == {}
    assert patches.decode_keys("[]") == {}


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "1k"]))
KEYS = st.sampled_from(["a", "b", "data", "spec", "env", "finalizers", "limits"])
ITEMS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("xyz")}, optional={"value": SCALARS}),
    max_size=3,
    unique_by=lambda item: item["name"],
)
VALUES = st.recursive(
    st.one_of(SCALARS, ITEMS, st.lists(st.sampled_from("pq"), unique=True, max_size=2)),
    lambda inner: st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


@given(OBJECTS)
def test_everything_contains_itself(obj):
    assert patches.contained(obj, obj)
    assert patches.owned_patch(obj, obj, patches.keys_of(obj)) == {}


@given(OBJECTS, OBJECTS, OBJECTS)
def test_patched_contains_wanted(wanted, live, before):
    patch = patches.owned_patch(live, wanted, patches.keys_of(before))
    after = merged(live, patch)
    assert patches.contained(wanted, after)
    # and it rests: the same want writes nothing more
    assert patches.owned_patch(after, wanted, patches.keys_of(wanted)) == {}


@example({"data": {"a": None, "b": {"a": True}}}, {"data": {"b": {}}})
@given(OBJECTS, OBJECTS)
def test_following_a_want_leaves_nothing_of_the_last_one(first, second):
    live = merged({}, first)
    after = merged(live, patches.owned_patch(live, second, patches.keys_of(first)))
    assert patches.contained(second, after)
    assert patches.contained(after, merged({}, second))
