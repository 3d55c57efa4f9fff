"""Workloads whose spread would count a virtual node on which they may not run."""

from typing import Any

import pytest

from liqod.model.objects.scheduling import TOLERATION
from liqod.model.objects.spreading import broken_keys, held_back, warning

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
NODE = {HOST: "milan", "liqo.io/type": "virtual-node"}


def template(constraint: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    usual = {"topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
    return {"spec": {"topologySpreadConstraints": [{**usual, **(constraint or {})}], **spec}}


REQUIRED: dict[str, Any] = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
}
AFFINITY = {"nodeAffinity": REQUIRED}


@pytest.mark.parametrize(
    ("pods", "key"),
    [
        (template(), HOST),
        (template({"topologyKey": ZONE}), ""),
        (template({"whenUnsatisfiable": "ScheduleAnyway"}), ""),
        (template({"nodeTaintsPolicy": "Honor"}), ""),
        (template(tolerations=[TOLERATION]), ""),
        (template(nodeSelector={"disk": "ssd"}), ""),
        (template(nodeSelector={"liqo.io/type": "virtual-node"}), HOST),
        (template({"nodeAffinityPolicy": "Ignore"}, nodeSelector={"disk": "ssd"}), HOST),
        (template(affinity=AFFINITY), ""),
        ({"spec": {}}, ""),
        ({}, ""),
    ],
)
def test_who_counts_the_node_and_may_not_run_there(pods: dict[str, Any], key: str) -> None:
    assert list(broken_keys(pods, NODE)) == ([key] if key else [])


def test_a_zone_counts_where_the_node_shows_one() -> None:
    pods = template({"topologyKey": ZONE})
    assert list(broken_keys(pods, {**NODE, ZONE: "eu-1"})) == [ZONE]


def test_a_few_are_named_and_the_others_counted() -> None:
    def workload(name: str, **more: Any) -> tuple[str, dict[str, Any]]:
        meta = {"namespace": "shop", "name": name}
        return "Deployment", {"metadata": meta, "spec": {"template": template(), **more}}

    said = warning("milan", NODE, [workload(name) for name in "edcba"])
    assert f"of Deployment shop/a ({HOST}), Deployment shop/b" in said
    assert "and 2 more, whose pods may not run there" in said
    assert warning("milan", NODE, [workload("x", template={})]) == ""


@pytest.mark.parametrize("what", ["zone", "region"])
def test_a_zone_that_is_held_back_is_told_with_those_for_whom(what: str) -> None:
    meta, key = {"namespace": "shop", "name": "web"}, f"topology.kubernetes.io/{what}"
    by_zone = {"metadata": meta, "spec": {"template": template({"topologyKey": key})}}
    by_host = {"metadata": {**meta, "name": "db"}, "spec": {"template": template()}}
    held = (key, "eu-1")
    said = held_back("milan", NODE, held, [("Deployment", by_zone), ("Deployment", by_host)])
    assert f"does not show its {what} eu-1: those of Deployment shop/web ({key}) may" in said
    assert f"are spread by {what} and" in said
    assert "db" not in said
    assert f"{what} eu-1: pods here may not" in held_back("milan", NODE, held, [])
