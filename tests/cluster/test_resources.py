"""The custom resources on a real API server: accepted, and nothing of Liqo's own objects lost."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from liqod.resources import OVERRIDE_POLICIES, OverridePolicy, crdmanifests
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane
from tests.testbed.federation import is_true
from tests.testbed.fixtures import ControlPlanes
from tests.testbed.workloads import Manifest
from tests.unit.model.test_overrides import REFUSED

pytestmark = [pytest.mark.cluster, pytest.mark.kubernetes]

CRDS = Path(crdmanifests.__file__).parent / "crds"
OBJECTS = Path(__file__).parents[1] / "fixtures" / "objects"
POLICIES = "/apis/offloading.liqod.io/v1alpha1/namespaces/default/overridepolicies"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def plane(control_planes: ControlPlanes) -> Iterator[ControlPlane]:
    """A shared control plane with the CRDs applied."""
    made = control_planes.take(2)[1]
    made.kubectl("apply", "--server-side", "-f", str(CRDS))
    names = [one["metadata"]["name"] for one in made.api.get(DEFINITIONS)["items"]]
    wait_until(
        "established definitions",
        lambda: all(
            is_true(made.api.get(f"{DEFINITIONS}/{name}"), "Established") for name in names
        ),
        40,
    )
    yield made
    made.kubectl("delete", "-f", str(CRDS), "--wait=false")


def fixtures() -> list[tuple[str, Manifest]]:
    """Every custom resource of a real peering, by cluster, file and name."""
    return [
        (f"{path.parent.name}/{path.stem}/{item['metadata']['name']}", item)
        for path in sorted(OBJECTS.glob("*/cr-*.yaml"))
        for item in yaml.safe_load(path.read_text())["items"]
    ]


def policy(spec: Manifest) -> Manifest:
    """An OverridePolicy."""
    body = {"objects": [{"kind": "Pod"}], **spec}
    return {
        "apiVersion": OVERRIDE_POLICIES.api_version,
        "kind": OVERRIDE_POLICIES.name,
        "metadata": {"generateName": "policy-"},
        "spec": body,
    }


def in_schema(spec: Manifest) -> bool:
    """True if the schema refuses it; keys of maps have no rule, and the daemon refuses those."""
    return not spec.keys() & {"labels", "annotations"} and not of_a_domain(spec)


def of_a_domain(spec: Manifest) -> bool:
    """True if a patch is of a label that programs act by, which the daemon refuses."""
    return any("liqo.io" in each["path"] for each in spec.get("patch", ()))


def plain(obj: Manifest) -> Manifest:
    """An object as its author would send it: without what an API server adds."""
    metadata = {
        key: obj["metadata"][key]
        for key in ("name", "labels", "annotations")
        if key in obj["metadata"]
    }
    return {**copy.deepcopy(obj), "metadata": {**metadata, "namespace": "default"}}


def path_of(plane: ControlPlane, obj: Manifest) -> str:
    """The collection that an object belongs to."""
    root = f"/apis/{obj['apiVersion']}"
    for resource in plane.api.get(root)["resources"]:
        if resource["kind"] == obj["kind"] and "/" not in resource["name"]:
            inside = "/namespaces/default" if resource["namespaced"] else ""
            return f"{root}{inside}/{resource['name']}"
    raise AssertionError(f"no {obj['kind']} in {obj['apiVersion']}")


def test_definitions_are_structural_and_accepted(plane: ControlPlane) -> None:
    for one in plane.api.get(DEFINITIONS)["items"]:
        for condition in ("Established", "NamesAccepted"):
            assert is_true(one, condition), one["metadata"]["name"]
        assert not is_true(one, "NonStructuralSchema"), one["metadata"]["name"]


@pytest.mark.parametrize(
    "obj", [one for _, one in fixtures()], ids=[name for name, _ in fixtures()]
)
def test_a_real_object_comes_back_as_it_was_sent(plane: ControlPlane, obj: Manifest) -> None:
    sent = plain(obj)
    collection = path_of(plane, sent)
    status: Any = sent.pop("status", None)
    made = plane.api.call("POST", collection, sent)
    path = f"{collection}/{sent['metadata']['name']}"
    try:
        assert made.get("spec") == sent.get("spec")
        if status is not None:
            # Some kinds of Liqo's have their status outside the sub-resource.
            target = f"{path}/status" if plane.api.exists(f"{path}/status") else path
            made["status"] = status
            assert plane.api.call("PUT", target, made).get("status") == status
    finally:
        plane.api.call("DELETE", path)


def generations(plane: ControlPlane) -> dict[str, int]:
    """How often each definition has changed."""
    items = plane.api.get(DEFINITIONS)["items"]
    return {one["metadata"]["name"]: one["metadata"]["generation"] for one in items}


def test_applying_twice_changes_nothing(plane: ControlPlane) -> None:
    before = generations(plane)
    plane.kubectl("apply", "--server-side", "-f", str(CRDS))
    assert generations(plane) == before


@pytest.mark.parametrize("spec", [each for each in REFUSED if in_schema(each)], ids=str)
def test_a_policy_that_would_widen_rights_is_refused_when_written(
    plane: ControlPlane, spec: Manifest
) -> None:
    status, answer = plane.api.raw("POST", POLICIES, policy(spec))
    assert status == 422, answer


def test_a_policy_with_everything_is_taken(plane: ControlPlane) -> None:
    whole = {
        "peers": ["milan"],
        "containers": ["web"],
        "image": {"registry": "mirror.io", "tag": "1"},
        "labels": {"site": "milan"},
        "annotations": {"note": "x"},
        "env": [{"name": "A", "value": "1"}],
        "requests": {"cpu": "1", "memory": 5},
        "limits": {"cpu": 2},
        "nodeSelector": {"gpu": "a100"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "priorityClassName": "low",
        "storageClassName": "fast",
        "ingressClassName": "nginx",
        "hosts": {"a.example.org": "b.example.org"},
        "patch": [
            {"op": "add", "path": "/metadata/annotations/acme.org~1x", "value": "y"},
            {"op": "add", "path": "/spec/containers/0/args", "value": '["-v", {"a": [1]}]'},
            {"op": "remove", "path": "/spec/nodeSelector"},
        ],
    }
    made = plane.api.call("POST", POLICIES, policy(whole))
    assert msgspec.convert(made, OverridePolicy).spec.patch[2].op == "remove"
