"""Writes that bring a pod to the spec of another one, and the reports of those that fail."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from liqod.apimachinery import labels
from liqod.model.objects import fieldpaths
from liqod.model.objects.patches import merged
from liqod.model.objects.podchanges import (
    MUTABLE,
    NOT_TAKEN_OVER,
    PodChangeProblem,
    behind,
    changes,
    note,
    noted,
    state,
)

Json = dict[str, Any]

THERE: Json = {
    "containers": [
        {"name": "web", "image": "web:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
        {"name": "injected", "image": "proxy:1"},
    ],
    "initContainers": [{"name": "init", "image": "init:1"}],
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}],
    "volumes": [{"name": "data", "emptyDir": {}}],
}
SPOT = {"key": "spot", "operator": "Exists"}


def web(**more: Any) -> Json:
    return {"containers": [{"name": "web", "image": "web:1", **more}]}


@pytest.mark.parametrize(
    ("wanted", "subresource", "field"),
    [
        (web(image="web:2"), "", "containers"),
        ({"initContainers": [{"name": "init", "image": "init:2"}]}, "", "initContainers"),
        ({"activeDeadlineSeconds": 30}, "", "activeDeadlineSeconds"),
        ({"tolerations": [SPOT]}, "", "tolerations"),
        (web(resources={"limits": {"cpu": "2"}}), "resize", "containers"),
        ({"resources": {"limits": {"cpu": "2"}}}, "resize", "resources"),
        ({"ephemeralContainers": [{"name": "d", "image": "b"}]}, "ephemeralcontainers", None),
    ],
)
def test_each_change_is_one_write_and_then_none(
    wanted: Json, subresource: str, field: str | None
) -> None:
    [change] = changes(THERE, wanted)
    assert change.subresource == subresource
    assert list(change.patch) == [field or "ephemeralContainers"]
    after = merged(THERE, change.patch)
    assert changes(after, wanted) == ()
    assert [each["name"] for each in after["containers"]] == ["web", "injected"]
    assert after["containers"][1] == THERE["containers"][1]
    assert after["tolerations"][0] == THERE["tolerations"][0]


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"containers": [{"name": "new", "image": "x"}]},
        {"volumes": [{"name": "host", "hostPath": {"path": "/"}}], "nodeName": "a"},
        web(resources={"limits": {"cpu": "1000m", "memory": "1024Mi"}}),
        web(command=["other"], env=[{"name": "A", "value": "b"}], securityContext={}),
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}]},
        {"containers": 7, "tolerations": "x", "ephemeralContainers": {}, "resources": []},
        {"activeDeadlineSeconds": "soon"},
    ],
)
def test_all_else_changes_nothing(wanted: Json) -> None:
    assert changes(THERE, wanted) == ()


def test_a_deadline_is_lowered_and_never_raised() -> None:
    there = {**THERE, "activeDeadlineSeconds": 60}
    assert changes(there, {"activeDeadlineSeconds": 61}) == ()
    assert changes(there, {}) == ()
    [change] = changes(there, {"activeDeadlineSeconds": 59})
    assert change.patch == {"activeDeadlineSeconds": 59}


def test_seconds_of_a_toleration_may_change() -> None:
    longer = {**THERE["tolerations"][0], "tolerationSeconds": 9}
    [change] = changes(THERE, {"tolerations": [longer]})
    assert change.patch == {"tolerations": [longer]}


def test_of_resources_what_is_not_named_stays() -> None:
    [change] = changes(THERE, web(resources={"limits": {"cpu": "2"}, "claims": [{"name": "x"}]}))
    [container, _] = change.patch["containers"]
    assert container["resources"] == {"limits": {"cpu": "2", "memory": "1Gi"}}


def test_a_state_is_that_of_what_can_be_changed() -> None:
    assert state(THERE) == state({**THERE, "volumes": [], "nodeName": "a"})
    assert state(THERE) != state({**THERE, "tolerations": [SPOT]})


def test_a_note_says_the_state_and_the_problem() -> None:
    problem = PodChangeProblem("OverQuota", "cpu: too much: 1 left")
    assert noted(note("abc", problem)) == ("abc", problem)
    assert noted(note("abc", None)) == ("abc", None)
    assert noted("") == ("", None)
    assert len(note("abc", PodChangeProblem("Refused", "x" * 5000))) <= 1024


def remote_pod(said: str = "") -> Json:
    return {"metadata": {"annotations": {labels.CHANGES: said} if said else {}}, "spec": THERE}


def test_what_is_behind_is_what_the_peer_says_or_what_is_seen() -> None:
    wanted = web(image="web:2")
    assert behind(remote_pod(), web(), "milan") is None
    assert behind(remote_pod(state(wanted)), wanted, "milan") is None
    found = behind(
        remote_pod(note(state(wanted), PodChangeProblem("OverQuota", "cpu"))), wanted, "milan"
    )
    assert found == PodChangeProblem("OverQuota", "milan: cpu")
    found = behind(remote_pod(state(web())), wanted, "milan")
    assert found is not None
    assert found.reason == NOT_TAKEN_OVER
    assert found.message.endswith("what was changed: image")
    assert behind(remote_pod(), {"tolerations": [SPOT]}, "milan") is None
    hostile = behind(remote_pod(f"{state(wanted)} a b\x1b: c"), wanted, "milan")
    assert hostile is not None
    assert hostile.reason == "Refused"


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "name",
                    "image",
                    "resources",
                    "limits",
                    "requests",
                    "cpu",
                    "containers",
                    "tolerations",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)
SPECS = st.dictionaries(
    st.sampled_from([path.partition("[")[0] for path in MUTABLE]), ANY, max_size=4
)


@example({"containers": [{"name": []}]}, {"containers": [{"name": []}]})
@example({"containers": [{"name": []}]}, {"containers": [{"name": ""}]})
@example({"containers": [{}]}, {"containers": [{"name": ""}]})
@given(SPECS, SPECS)
def test_nonsense_breaks_nothing(there: Json, wanted: Json) -> None:
    changes(there, wanted)
    state(wanted)
    behind({"spec": there}, wanted, "milan")
    after = fieldpaths.overlay(there, wanted, MUTABLE)
    assert fieldpaths.overlay(after, wanted, MUTABLE) == after
