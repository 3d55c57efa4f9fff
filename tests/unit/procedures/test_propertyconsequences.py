"""What comes of another ClusterProperty: the id under which programs of a set find the cluster."""

from typing import Any

import msgspec
import pytest

from liqod.procedures.clusterobjects import ClusterObjects
from liqod.procedures.dryrun import PlannedObject
from liqod.procedures.planning import judged
from liqod.resources.about import CLUSTER, CLUSTER_PROPERTIES, CLUSTER_SET

Json = dict[str, Any]
OURS = {"liqod.io/managed": "true"}
BETA = msgspec.structs.replace(CLUSTER_PROPERTIES, version="v1beta1")


def one(value: str, labels: Json = OURS) -> Json:
    return {"metadata": {"name": "a", "labels": labels}, "spec": {"value": value}}


@pytest.mark.parametrize(
    ("name", "before", "after", "told"),
    [
        (
            CLUSTER_SET,
            None,
            one("europe"),
            ["begins rome: programs of the set find"],
        ),
        (CLUSTER_SET, one("asia"), one("europe"), ["'europe', and no more 'asia'"]),
        (CLUSTER_SET, one("asia", {}), one("europe"), ["'asia' that another program has written"]),
        (CLUSTER_SET, one("asia"), None, ["ends rome: programs of the set find no set any more"]),
        (CLUSTER_SET, one("asia", {}), one("asia"), []),
        (
            CLUSTER,
            None,
            one("rome"),
            ["begins rome: ", "know this cluster as 'rome'"],
        ),
        (CLUSTER, one("rome"), one("milan"), ["changes rome: ", "and no more 'rome': it is rome"]),
        (CLUSTER, one("rome"), None, ["find no cluster's id any more, which was 'rome'"]),
        ("fleet.example.com", one("a"), one("b"), []),
    ],
)
def test_another_id_is_told(name: str, before: Json | None, after: Json | None, told: list[str]):
    change: Any = "created" if before is None else "deleted" if after is None else "changed"
    planned = PlannedObject(BETA, "", name, "a.yaml", change, before, after)
    [found] = judged([planned], ClusterObjects(), ClusterObjects(), "rome", "liqo")
    said = [f"{each.action} {each.cluster}: {each.message}" for each in found.consequences]
    assert len(said) == bool(told)
    assert all(each in said[0] for each in told), said


@pytest.mark.parametrize("change", ["same", "refused"])
def test_one_that_stays_as_it_is_is_told_nothing_of(change: Any):
    planned = PlannedObject(BETA, "", CLUSTER, "a.yaml", change, one("rome"), one("milan"))
    [found] = judged([planned], ClusterObjects(), ClusterObjects(), "rome", "liqo")
    assert not found.consequences
