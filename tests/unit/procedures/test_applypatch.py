"""The patch of an object that was applied before comes to what ``kubectl apply`` makes of it."""

from typing import Any

import pytest

from liqod.procedures.applypatch import merge_patch, strategic_patch
from simulator.storage import patch
from simulator.storage.shapes import BUILTIN

Json = dict[str, Any]
WEB: Json = {"name": "web", "image": "web:1", "ports": [{"containerPort": 80}]}
SIDE: Json = {"name": "side", "image": "side:1"}
DNS = [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]


def pod(*containers: Json, **more: Any) -> Json:
    return {"spec": {"containers": list(containers), **more}}


def env(*names: str) -> Json:
    return {**WEB, "env": [{"name": each, "value": "1"} for each in names]}


@pytest.mark.parametrize(
    ("applied", "live", "written", "comes"),
    [
        (pod(WEB, SIDE), pod(WEB, SIDE), pod(WEB), pod(WEB)),
        (pod(WEB), pod(WEB, SIDE), pod(WEB), pod(WEB, SIDE)),
        (pod(env("A", "B")), pod(env("A", "B", "C")), pod(env("A")), pod(env("A", "C"))),
        (pod(env("A")), pod(env("A")), pod(WEB), pod(WEB)),
        (pod({**WEB, "tty": True}), pod({**WEB, "tty": True}), pod(WEB), pod(WEB)),
        (
            pod({**WEB, "ports": [{"containerPort": 80}, {"containerPort": 81}]}),
            pod({**WEB, "ports": [{"containerPort": 80}, {"containerPort": 81}]}),
            pod(WEB),
            pod(WEB),
        ),
        (
            pod(WEB, tolerations=[{"key": "a"}, {"key": "b"}]),
            pod(WEB, tolerations=[{"key": "a"}, {"key": "b"}]),
            pod(WEB, tolerations=[{"key": "a"}]),
            pod(WEB, tolerations=[{"key": "a"}]),
        ),
        (pod(env("A", "B")), pod(env("A", "B", "C")), pod(env("B", "A")), pod(env("B", "A", "C"))),
        (
            pod(env(), volumes=[{"name": "v"}]),
            pod(env(), volumes=[{"name": "v", "emptyDir": {}}]),
            pod(env(), volumes=[{"name": "v", "secret": {}}]),
            pod(env(), volumes=[{"name": "v", "secret": {}}]),
        ),
        (
            {"spec": {"strategy": {"type": "RollingUpdate"}}},
            {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
            *({"spec": {"strategy": {"type": "Recreate"}}},) * 2,
        ),
        ({"spec": {"ports": DNS}}, {"spec": {"ports": DNS}}, *({"spec": {"ports": DNS}},) * 2),
        ({"spec": {"ports": DNS}}, {"spec": {"ports": DNS}}, *({"spec": {"ports": DNS[:1]}},) * 2),
        (
            {"metadata": {"finalizers": ["a/b", "c/d"]}},
            {"metadata": {"finalizers": ["a/b", "c/d", "e/f"]}},
            {"metadata": {"finalizers": ["a/b"]}},
            {"metadata": {"finalizers": ["a/b", "e/f"]}},
        ),
    ],
)
def test_an_item_that_is_written_no_more_is_taken_out(
    applied: Json, live: Json, written: Json, comes: Json
):
    assert patch.strategic(live, strategic_patch(applied, written), BUILTIN) == comes


def test_the_selector_of_a_budget_is_replaced_as_a_whole():
    applied, written = ({"matchLabels": {each: "1"}} for each in "ab")
    bodies = [{"kind": "PodDisruptionBudget", "spec": {"selector": x}} for x in (applied, written)]
    assert strategic_patch(*bodies) == bodies[1]


def test_lists_of_a_custom_resource_are_replaced():
    applied, written = {"spec": {"env": [{"name": "a"}, {"name": "b"}], "x": 1}}, pod()
    assert merge_patch(applied, written) == {"spec": {"containers": [], "env": None, "x": None}}
    written = {"spec": {"env": [{"name": "a"}]}}
    assert merge_patch(applied, written) == {"spec": {"env": [{"name": "a"}], "x": None}}


def test_fields_that_are_written_no_more_are_taken_out_at_any_depth():
    applied = {"spec": {"a": 1, "b": {"c": 1, "d": 2}}, "data": {}}
    for made in (merge_patch, strategic_patch):
        assert made(applied, {"spec": {"b": {"c": 3}}}) == {
            "spec": {"a": None, "b": {"c": 3, "d": None}},
            "data": None,
        }
