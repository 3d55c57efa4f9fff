"""Upgrading definitions on a real API server: they gain, never lose, and then rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from liqod.apimachinery import labels
from liqod.resources.crdmanifests import crd_manifests, merge_crd
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane
from tests.testbed.federation import is_true
from tests.testbed.fixtures import ControlPlanes

pytestmark = [pytest.mark.cluster, pytest.mark.kubernetes]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OURS = {crd["metadata"]["name"]: crd for crd in crd_manifests()}


@pytest.fixture(scope="module")
def plane(control_planes: ControlPlanes) -> Iterator[ControlPlane]:
    """A shared control plane that has none of the definitions."""
    made = control_planes.take(1)[0]
    yield made
    for name in OURS:
        if made.api.exists(f"{DEFINITIONS}/{name}"):
            made.api.call("DELETE", f"{DEFINITIONS}/{name}")


def older(crd: dict[str, Any]) -> dict[str, Any]:
    """A definition of somebody who knows one field less and one more, and has an older version."""
    spec = crd["spec"]
    version = spec["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    inner = schema["properties"]["spec"]
    fields = inner.get("properties", {})
    fields["theirs"] = {"type": "string", "default": "x"}
    for name in list(fields)[:1]:
        if name not in inner.get("required", ()) and name != "theirs":
            del fields[name]
    version["additionalPrinterColumns"] = [
        {"name": "Theirs", "type": "string", "jsonPath": ".spec.theirs"}
    ]
    del crd["metadata"]["annotations"]
    old = {**version, "name": "v1alpha7", "storage": False, "deprecated": True}
    return {**crd, "spec": {**spec, "versions": [*spec["versions"], old]}}


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_definition_gains_and_loses_nothing(plane: ControlPlane, name: str) -> None:
    path = f"{DEFINITIONS}/{name}"
    fresh = next(crd for crd in crd_manifests() if crd["metadata"]["name"] == name)
    plane.api.call("POST", DEFINITIONS, older(fresh))
    wait_until("an established definition", lambda: is_true(plane.api.get(path), "Established"), 40)
    live = plane.api.get(path)
    plane.api.call("PUT", path, merge_crd(live, OURS[name]))
    after = plane.api.get(path)
    assert labels.CRD_REVISION in after["metadata"]["annotations"]
    version, old = after["spec"]["versions"]
    assert old == live["spec"]["versions"][1]
    assert "Theirs" in [column["name"] for column in version["additionalPrinterColumns"]]
    ours = OURS[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert fields.keys() >= {"theirs", *ours["properties"]}
    assert merge_crd(after, OURS[name]) == after


def test_a_fresh_definition_rests(plane: ControlPlane) -> None:
    name = "quotas.offloading.liqo.io"
    path = f"{DEFINITIONS}/{name}"
    if plane.api.exists(path):
        plane.api.call("DELETE", path)
        wait_until("no definition", lambda: not plane.api.exists(path), 40)
    plane.api.call("POST", DEFINITIONS, merge_crd(None, OURS[name]))
    wait_until("an established definition", lambda: is_true(plane.api.get(path), "Established"), 40)
    live = plane.api.get(path)
    assert merge_crd(live, OURS[name]) == live
