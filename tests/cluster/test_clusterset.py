"""The objects of imports at a real API server, which takes each of them as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from liqod.model.clusterset.exports import Endpoint, Export, Port, Slice
from liqod.model.clusterset.importing import (
    derived_service,
    import_manifest,
    slice_manifests,
)
from liqod.model.clusterset.merging import Merged
from liqod.model.clusterset.verdicts import conflict, import_status, ready, valid
from liqod.model.objects.conditions import all_dated
from liqod.resources.crdmanifests import make_crd
from liqod.resources.multicluster import (
    DEFINITIONS,
    SERVICE_EXPORTS,
    SERVICE_IMPORTS,
    VERSIONS,
)
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up, start_all
from tests.testbed.joined import DUAL
from tests.testbed.workloads import core, slices
from tests.unit.model.clusterset.values import BOTH, TARGETS, export, merged, sets

pytestmark = [pytest.mark.cluster, pytest.mark.clusterset]

SERVICES = core("shop", "services")
SLICES = slices("shop")
OWNER = core("shop", "configmaps", "kube-root-ca.crt")
MERGE_PATCH = "application/merge-patch+json"


WIDEST = export(
    name="w" * 63,
    cluster="c" * 51,
    families=BOTH,
    session_affinity="ClientIP",
    affinity_timeout=86400,
    traffic_distribution="PreferClose",
    ports=tuple(Port(number, f"p{number}") for number in range(1, 101)),
    slices=(
        Slice("s" * 253, "IPv4", TARGETS, (Endpoint(("10.81.0.1",), "h" * 63, "z" * 63),)),
        Slice("web-6", "IPv6", (), (Endpoint(("fd00::1",), ready=False, terminating=True),)),
    ),
)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of both families with the namespace of the tests."""
    try:
        found = ControlPlane("shared", DUAL)
    except Unavailable as reason:
        give_up(reason)
    try:
        start_all([found])
        found.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
        wait_until("an object for references", lambda: found.api.exists(OWNER), 60)
        yield found
    finally:
        found.destroy()


@pytest.fixture(scope="module")
def kinds(plane: ControlPlane) -> None:
    """The kinds of the set, of which both versions are served."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for definition in DEFINITIONS:
        plane.api.call("POST", f"{crds}?fieldValidation=Strict", make_crd(definition))
    served = [
        each.path("shop")
        for version in VERSIONS
        for each in (SERVICE_EXPORTS[version], SERVICE_IMPORTS[version])
    ]
    wait_until("the kinds", lambda: all(map(plane.api.ready, served)), 30)


def owner(plane: ControlPlane) -> dict[str, Any]:
    """A reference to an object that is there: what has no owner is collected."""
    found = plane.api.get(OWNER)
    meta = {key: found["metadata"][key] for key in ("name", "uid")}
    return {"apiVersion": "v1", "kind": "ConfigMap", **meta}


def objects(plane: ControlPlane, made: Merged, found: list[Export]) -> list[tuple[str, Any]]:
    """The derived Service and the EndpointSlices, each with the path of its collection."""
    reference = owner(plane)
    service = derived_service(made, BOTH, reference)
    made_slices = [
        manifest
        for each in found
        for manifest in slice_manifests(made, each, BOTH, reference, reached=True)
    ]
    services = [(SERVICES, service)] if service is not None else []
    return [*services, *((SLICES, each) for each in made_slices)]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=sets())
def test_the_objects_of_any_exports_are_taken(plane: ControlPlane, found: list[Export]) -> None:
    for path, manifest in objects(plane, merged(*found), found):
        plane.api.call("POST", f"{path}?dryRun=All&fieldValidation=Strict", manifest)


def test_an_import_keeps_its_address_when_its_service_is_made_again(plane: ControlPlane) -> None:
    made = merged(WIDEST)
    reference = owner(plane)
    first = plane.api.call("POST", SERVICES, derived_service(made, BOTH, reference))
    path = f"{SERVICES}/{first['metadata']['name']}"
    for manifest in slice_manifests(made, WIDEST, BOTH, reference, reached=True):
        plane.api.call("POST", f"{SLICES}?fieldValidation=Strict", manifest)
    plane.api.call("DELETE", path)
    ips = first["spec"]["clusterIPs"]
    again = plane.api.call("POST", SERVICES, derived_service(made, BOTH, reference, ips))
    assert len(ips) == 2
    assert again["spec"]["clusterIPs"] == ips


def test_an_import_of_one_family_gets_the_other_one_and_keeps_its_address(
    plane: ControlPlane,
) -> None:
    """Also where its Service is made again in between."""
    made = merged(export(name="both", families=BOTH[::-1]))
    reference = owner(plane)
    first = plane.api.call("POST", SERVICES, derived_service(made, ("IPv4",), reference))
    ips = first["spec"]["clusterIPs"]
    assert len(ips) == 1
    wanted = derived_service(made, BOTH, reference, ips)
    path = f"{SERVICES}/{first['metadata']['name']}"
    patched = plane.api.call("PATCH", path, wanted, content=MERGE_PATCH)
    plane.api.call("DELETE", path)
    again = plane.api.call("POST", SERVICES, wanted)
    for found in (patched, again):
        assert found["spec"]["clusterIPs"][0] == ips[0]
        assert found["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
        assert len(found["spec"]["clusterIPs"]) == 2
    plane.api.call("DELETE", path)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=sets(), ips=st.sampled_from(([], ["10.96.0.9"], ["10.96.0.9", "fd00::9"])))
def test_imports_and_their_status_are_taken_in_both_versions(
    plane: ControlPlane, kinds: None, found: list[Export], ips: list[str]
) -> None:
    made = merged(*found)
    manifest = import_manifest(made, BOTH, ips)
    verdict = conflict(made, complete=True)
    assert verdict is not None
    now = "2026-11-28T10:00:00Z"
    wish = {"metadata": {"name": "web"}, "spec": {"exportedLabels": made.oldest.labels}}
    said = [valid(found[0]), ready(found[0], (), ()), verdict]
    export_status = {"conditions": all_dated(said, (), now)}
    status = import_status(made, BOTH, ips, 1)
    status["conditions"] = all_dated(status["conditions"], (), now)
    for version in VERSIONS:
        for kind, body, state in (
            (SERVICE_EXPORTS[version], wish, export_status),
            (SERVICE_IMPORTS[version], manifest, status),
        ):
            full = {"apiVersion": kind.api_version, "kind": kind.name, **body}
            path = kind.path("shop")
            written = plane.api.call("POST", f"{path}?fieldValidation=Strict", full)
            try:
                assert written["spec"] == body["spec"]
                where = f"{path}/web/status?fieldValidation=Strict"
                answer = plane.api.call("PUT", where, {**written, "status": state})
                assert answer["status"] == state
                for other in VERSIONS:
                    read = msgspec.structs.replace(kind, version=other)
                    assert plane.api.get(read.path("shop", "web"))["spec"] == body["spec"]
            finally:
                plane.api.call("DELETE", f"{path}/web")
