"""Bounds of the length of texts that a peer sends."""

from typing import Any

import msgspec

from liqod.model.objects import podstatus
from liqod.model.objects.bounded import ENOUGH, fit


def size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def test_what_is_small_is_taken_as_it_is():
    status = {"phase": "Running", "conditions": [{"message": "x" * 20_000}]}
    assert fit(status) is status


def test_what_is_large_is_cut_everywhere():
    deep: Any = "end"
    for _ in range(3000):
        deep = [deep]
    status = {
        "message": "x" * 10**6,
        "conditions": [{"message": "y" * 10**5}] * 1000,
        "deep": deep,
        **{f"k{number}": number for number in range(100)},
    }
    found = fit(status)
    assert found["message"] == "x" * 1024
    assert len(found["conditions"]) == 64
    assert len(found) == 64
    assert size(found) < 4 * ENOUGH


def test_a_pod_at_home_does_not_grow_with_what_its_provider_says():
    local = {
        "metadata": {"name": "web", "uid": "u"},
        "spec": {"containers": [{"name": "web"}]},
        "status": {"phase": "Pending"},
    }
    state = {"waiting": {"reason": "r" * 10**5, "message": "m" * 10**6}}
    container = {"name": "web", "restartCount": 0, "state": state, "imageID": "i" * 10**6}
    conditions = [{"type": "Ready", "status": "False", "message": "c" * 10**6}] * 3
    status = {
        "phase": "Pending",
        "message": "t" * 10**6,
        "containerStatuses": [container],
        "conditions": conditions,
    }
    remote_pod = {"metadata": {"uid": "t"}, "status": status}
    made = podstatus.merge(local, remote_pod, node_address="10.0.0.1", now="2026-01-01T00:00:00Z")
    assert size(made.status) < 12_000
    assert made.status is not None
    assert made.status["containerStatuses"][0]["state"]["waiting"]["reason"] == "r" * 1024
