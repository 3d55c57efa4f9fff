"""The doctor's layer of the ids of a cluster and its set: each state, and whose they are."""

from typing import Any

import pytest

from liqod.model.view.setfacts import set_facts
from liqod.plugins.checks.clusterset import clusterset
from liqod.plugins.diagnosis import ClusterFacts
from liqod.resources.about import CLUSTER, CLUSTER_SET

OURS = {"liqod.io/managed": "true"}


def one(name: str, value: Any, labels: dict[str, str] | None = OURS) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"value": value}}


ID, SET = one(CLUSTER, "rome"), one(CLUSTER_SET, "europe")


@pytest.mark.parametrize(
    ("found", "verdict", "says", "remedy"),
    [
        ((ID, SET), "ok", "rome in 'europe'", ""),
        ((ID, SET, one("fleet.example.com", "a")), "ok", "rome in 'europe'", ""),
        ((ID, one(CLUSTER_SET, "europe", None)), "ok", f"program's: {CLUSTER_SET}", ""),
        ((ID,), "failing", f"the ClusterProperty {CLUSTER_SET} is missing", "--clusterset NAME"),
        ((SET,), "failing", f"the ClusterProperty {CLUSTER} is missing", "--clusterset NAME"),
        (
            (one(CLUSTER, "milan"), SET),
            "failing",
            "'milan', and this cluster is rome",
            "write rome into it",
        ),
        ((one(CLUSTER, "milan", {}), SET), "failing", "another program's", "that one write rome"),
        ((ID, one(CLUSTER_SET, "")), "failing", "names no set", "give it a value"),
        ((ID, {"metadata": {"name": CLUSTER_SET}, "spec": None}), "failing", "no set", "value"),
    ],
)
def test_both_are_there_and_the_clusters_is_its_id(
    found: tuple[Any, ...], verdict: str, says: str, remedy: str
) -> None:
    said = clusterset(ClusterFacts(clusterset=set_facts("rome", found)))
    assert said is not None
    assert (said.verdict, says in said.evidence, remedy in said.remedy) == (verdict, True, True)


def test_a_cluster_with_neither_is_told_nothing() -> None:
    assert clusterset(ClusterFacts()) is None
    others = [one("fleet.example.com", "a")]
    assert clusterset(ClusterFacts(clusterset=set_facts("rome", others))) is None
