"""A pod's spec as one API server has it, translated, is what a second API server takes."""

from __future__ import annotations

from typing import Any

import pytest

from liqod.model.objects.podspec import shadow_spec
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.kubernetes]

LABELS = {"app": "web", "rev": "1", "tenant": "x"}
TERM = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "matchLabelKeys": ["rev"],
}
POD: dict[str, Any] = {
    "metadata": {
        "name": "here",
        "labels": LABELS,
        "annotations": {"liqo.io/anti-affinity-preset": "propagate"},
    },
    "spec": {
        "containers": [{"name": "web", "image": "web"}],
        "hostUsers": False,
        "topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **TERM}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {**TERM, "mismatchLabelKeys": ["tenant"]}
                ]
            }
        },
    },
}


def test_label_keys_and_isolation_are_taken_a_second_time(
    control_plane: ControlPlane, namespace: str
) -> None:
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    wait_until("the ServiceAccount", lambda: control_plane.api.exists(account), 20)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    here = control_plane.api.call("POST", pods, POD)
    spec = shadow_spec(here, consumer="rome")
    there = {"metadata": {"name": "there", "labels": LABELS}, "spec": spec}
    taken = control_plane.api.call("POST", f"{pods}?dryRun=All", there)["spec"]
    assert taken["hostUsers"] is False
    [spread] = taken["topologySpreadConstraints"]
    assert {each["key"] for each in spread["labelSelector"]["matchExpressions"]} == {"rev"}
